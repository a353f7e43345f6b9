// Contents of an error: kind, message, operands, location and rank.
#include "tessera/base/error.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <vector>

#include "tessera/base/ids.h"
#include "tessera/base/rank.h"

namespace tessera {
namespace {

using namespace std::chrono_literals;
using ::testing::Test;

struct Opaque {
  int value = 0;
  friend bool operator==(Opaque, Opaque) = default;
};

template <class E = Error, class F>
E caught(F&& body) {
  try {
    body();
  } catch (const E& error) {
    return error;
  }
  ADD_FAILURE() << "nothing of this type was thrown";
  return E(InvalidArgument({"", 0}, ""));
}

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

TEST(Error, ShowsBothSidesOfAFailedComparison) {
  const int offset = 7;
  const int granule = 4;
  const Error error = caught([&] { TESSERA_CHECK(offset % granule == 0, "map: offset ", offset, " is odd"); });
  EXPECT_EQ(error.message(), "map: offset 7 is odd");
  EXPECT_EQ(error.operands(), "offset % granule == 0, with 3 == 0");
  EXPECT_TRUE(contains(error.what(), "invalid argument: map: offset 7 is odd [offset % granule == 0, with 3 == 0; "))
      << error.what();
  EXPECT_TRUE(contains(error.what(), "tessera/base/error_test.cpp:")) << error.what();
  EXPECT_GT(error.place().line, 0);
}

TEST(Error, ShowsEveryComparison) {
  const int a = 1;
  const int b = 2;
  const auto operands = [](auto&& body) { return caught(body).operands(); };
  EXPECT_EQ(operands([&] { TESSERA_CHECK(a == b, ""); }), "a == b, with 1 == 2");
  EXPECT_EQ(operands([&] { TESSERA_CHECK(a != a, ""); }), "a != a, with 1 != 1");
  EXPECT_EQ(operands([&] { TESSERA_CHECK(b < a, ""); }), "b < a, with 2 < 1");
  EXPECT_EQ(operands([&] { TESSERA_CHECK(b <= a, ""); }), "b <= a, with 2 <= 1");
  EXPECT_EQ(operands([&] { TESSERA_CHECK(a > b, ""); }), "a > b, with 1 > 2");
  EXPECT_EQ(operands([&] { TESSERA_CHECK(a >= b, ""); }), "a >= b, with 1 >= 2");
}

TEST(Error, ShowsTheExpressionAloneWhenThereIsNothingToCompareOrPrint) {
  const bool ready = false;
  EXPECT_EQ(caught([&] { TESSERA_CHECK(ready, "x"); }).operands(), "ready");
  const Opaque one{1};
  const Opaque two{2};
  EXPECT_EQ(caught([&] { TESSERA_CHECK(one == two, "x"); }).operands(), "one == two");
}

TEST(Error, EvaluatesAShortCircuitSafely) {
  const std::unique_ptr<int> none;
  EXPECT_THROW(TESSERA_CHECK(none != nullptr && *none == 3, "x"), InvalidArgument);
}

TEST(Error, AllowsAVariableNamedOperandsInTheMessage) {
  const int operands = 5;
  EXPECT_EQ(caught([&] { TESSERA_CHECK(operands == 6, "there are ", operands); }).message(), "there are 5");
}

TEST(Error, DoesNotEvaluateTheMessageOfACheckThatHolds) {
  int calls = 0;
  TESSERA_CHECK(true, ++calls);
  EXPECT_EQ(calls, 0);
}

TEST(Error, EveryKindHasItsTypeAndName) {
  const auto kind_of = [](auto&& body) { return caught(body).kind(); };
  EXPECT_EQ(kind_of([] { TESSERA_THROW(InvalidArgument, "x"); }), ErrorKind::kInvalidArgument);
  EXPECT_EQ(kind_of([] { TESSERA_THROW(OutOfMemory, "x"); }), ErrorKind::kOutOfMemory);
  EXPECT_EQ(kind_of([] { TESSERA_THROW(DeviceError, "x"); }), ErrorKind::kDevice);
  EXPECT_EQ(kind_of([] { TESSERA_THROW(TimeoutError, "x"); }), ErrorKind::kTimeout);
  EXPECT_EQ(kind_of([] { TESSERA_THROW(AbortedError, "x"); }), ErrorKind::kAborted);
  EXPECT_EQ(kind_of([] { TESSERA_THROW(MismatchError, "x"); }), ErrorKind::kMismatch);
  EXPECT_EQ(kind_of([] { TESSERA_THROW(NotSupported, "x"); }), ErrorKind::kNotSupported);
  EXPECT_EQ(kind_of([] { TESSERA_THROW(IoError, "x"); }), ErrorKind::kIo);
  EXPECT_TRUE(contains(caught([] { TESSERA_THROW(OutOfMemory, "no room"); }).what(), "out of memory: no room ["));
  EXPECT_TRUE(contains(caught([] { TESSERA_THROW(IoError, "x"); }).what(), "i/o error: x"));
}

TEST(Error, CanBeCaughtByTypeAndAsAStandardException) {
  EXPECT_THROW(TESSERA_CHECK_AS(OutOfMemory, 1 > 2, "x"), OutOfMemory);
  EXPECT_THROW(TESSERA_CHECK_AS(OutOfMemory, 1 > 2, "x"), std::runtime_error);
}

TEST(Error, CarriesTheRankOfTheThreadThatThrew) {
  const Error alone = caught([] { TESSERA_THROW(IoError, "x"); });
  EXPECT_EQ(alone.rank(), 0);
  EXPECT_FALSE(contains(alone.what(), "rank"));
  const RankScope scope(std::make_shared<RankContext>(RankPlace{.rank = Rank(2), .world_size = 4}));
  const Error error = caught([] { TESSERA_THROW(IoError, "x"); });
  EXPECT_EQ(error.rank(), 2);
  EXPECT_TRUE(contains(error.what(), "rank 2; ")) << error.what();
}

TEST(Error, WritesPartsOfEverySort) {
  const std::vector<int> list = {1, 2, 3};
  const char* null = nullptr;
  EXPECT_EQ(detail::concat("a", std::string("b"), 'c', true, -5, std::uint64_t{18446744073709551615u}, 1.5),
            "abctrue-5184467440737095516151.5");
  EXPECT_EQ(detail::concat(list, " ", std::vector<std::string>{"x"}, std::vector<int>{}), "[1, 2, 3] [x][]");
  EXPECT_EQ(detail::concat(1500us, " ", StreamId(7), " ", ErrorKind::kTimeout), "1.5 ms 7 timeout");
  EXPECT_EQ(detail::concat(null, nullptr), "(null)null");
  EXPECT_EQ(detail::concat(std::filesystem::path("/a/b.txt"), " ", std::vector<std::filesystem::path>{"x", "y/z"}),
            "/a/b.txt [x, y/z]");
}

}  // namespace
}  // namespace tessera
