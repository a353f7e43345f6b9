#include "tessera/device/cuda/spin_budget.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>

#include "tessera/base/error.h"

namespace tessera::device::cuda {
namespace {

using namespace std::chrono_literals;

class FakeStream : public Spinner {
 public:
  explicit FakeStream(std::string name) : name_(std::move(name)) {}
  bool spin_has_ended() override { return !spins; }
  [[nodiscard]] std::string spinner_name() const override { return name_; }
  std::atomic<bool> spins{false};

 private:
  std::string name_;
};

void spin(SpinBudget& budget, FakeStream& stream, SpinShare share, int streams = 1) {
  const auto admission = budget.admit(stream, share, streams);
  stream.spins = true;
}

template <class E, class F>
std::string message_of(F&& body) {
  try {
    body();
  } catch (const E& error) {
    return error.message();
  }
  ADD_FAILURE() << "nothing of that type was thrown";
  return {};
}

TEST(SpinShare, PartsThatFitExactlyFitAndOneBlockMoreDoesNot) {
  EXPECT_EQ(share_of(132, 132), kWholeDevice);
  EXPECT_LE(share_of(1, 3) + share_of(1, 7) + share_of(11, 21), kWholeDevice);
  EXPECT_GT(share_of(100, 132) + share_of(33, 132), kWholeDevice);
  EXPECT_EQ(share_of(4224, 4224), kWholeDevice);
  EXPECT_GT(share_of(133, 132), kWholeDevice);
  EXPECT_GT(share_of(1, 0), kWholeDevice);
  EXPECT_GT(share_of(~std::uint64_t{0}, 132), kWholeDevice);
}

TEST(SpinBudget, RefusesAStreamTooManyAndTakesItOnceOneHasEnded) {
  SpinBudget budget(2);
  FakeStream a("a"), b("b"), c("c");
  spin(budget, a, 0);
  spin(budget, b, 0);
  const std::string text = message_of<DeviceError>([&] { spin(budget, c, 0); });
  EXPECT_NE(text.find("2 of 2 streams"), std::string::npos) << text;
  EXPECT_NE(text.find("[a, b]"), std::string::npos) << text;
  a.spins = false;
  spin(budget, c, 0);
  EXPECT_EQ(budget.spinning(), (std::vector<std::string>{"b", "c"}));
}

TEST(SpinBudget, RefusesBlocksThatWouldNotBeResidentTogether) {
  SpinBudget budget(31);
  FakeStream a("a"), b("b");
  spin(budget, a, share_of(100, 132));
  EXPECT_THROW(spin(budget, b, share_of(33, 132)), DeviceError);
  spin(budget, b, share_of(32, 132));
}

TEST(SpinBudget, CountsAStreamOnceWithItsLargestSpin) {
  SpinBudget budget(1);
  FakeStream a("a");
  for (int i = 0; i < 100; ++i) spin(budget, a, share_of(132, 132));
  EXPECT_EQ(budget.spinning().size(), 1U);
}

TEST(SpinBudget, RefusesForGoodWhatCanNeverFit) {
  SpinBudget budget(4);
  FakeStream a("a");
  EXPECT_THROW(spin(budget, a, share_of(133, 132)), NotSupported);
  EXPECT_THROW(spin(budget, a, 0, 5), NotSupported);
  EXPECT_TRUE(budget.spinning().empty());
}

TEST(SpinBudget, ARefusalChangesNothing) {
  SpinBudget budget(2);
  FakeStream a("a"), b("b");
  spin(budget, a, share_of(1, 2));
  EXPECT_THROW(spin(budget, b, share_of(2, 3)), DeviceError);
  EXPECT_THROW(spin(budget, a, kWholeDevice + 1), NotSupported);
  spin(budget, b, share_of(1, 2));
}

TEST(SpinBudget, AGraphCountsAllItsStreams) {
  SpinBudget budget(4);
  FakeStream a("a"), b("b");
  spin(budget, a, 0, 3);
  EXPECT_THROW(spin(budget, b, 0, 2), DeviceError);
  spin(budget, b, 0, 1);
}

TEST(SpinBudget, GatedCallsAreMadeAtOnceWhenNothingSpins) {
  SpinBudget budget(2);
  int calls = 0;
  budget.when_quiet([&] { ++calls; });
  EXPECT_EQ(calls, 1);
  budget.run_quiet("a load", 0ns, [&] { ++calls; });
  EXPECT_EQ(calls, 2);
}

TEST(SpinBudget, GatedCallsArePutOffWhileSomethingSpins) {
  SpinBudget budget(2);
  FakeStream a("a");
  spin(budget, a, 0);
  int calls = 0;
  budget.when_quiet([&] { ++calls; });
  budget.flush();
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(budget.put_off(), 1U);
  a.spins = false;
  budget.flush();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(budget.put_off(), 0U);
}

TEST(SpinBudget, ALaunchAdmittedAndNotYetMadeCountsAsSpinning) {
  SpinBudget budget(2);
  FakeStream a("a");
  int calls = 0;
  {
    const auto admission = budget.admit(a, 0);  // the stream itself still reports that nothing spins
    budget.when_quiet([&] { ++calls; });
    EXPECT_EQ(calls, 0);
  }
  budget.flush();
  EXPECT_EQ(calls, 1);
}

TEST(SpinBudget, ALoadPastItsDeadlineNamesTheStreamsThatSpin) {
  SpinBudget budget(2);
  FakeStream a("busy one");
  spin(budget, a, 0);
  const std::string text = message_of<TimeoutError>([&] { budget.run_quiet("load_module", 0ns, [] {}); });
  EXPECT_NE(text.find("load_module"), std::string::npos) << text;
  EXPECT_NE(text.find("busy one"), std::string::npos) << text;
}

TEST(SpinBudget, ALoadWaitsForTheSpinToEnd) {
  SpinBudget budget(2);
  FakeStream a("a");
  spin(budget, a, 0);
  std::thread ender([&] { a.spins = false; });
  bool done = false;
  budget.run_quiet("load_module", 60s, [&] { done = true; });
  ender.join();
  EXPECT_TRUE(done);
}

TEST(SpinBudget, AForgottenSpinnerIsNotAskedAgain) {
  SpinBudget budget(1);
  auto gone = std::make_unique<FakeStream>("gone");
  spin(budget, *gone, 0);
  budget.forget(*gone);
  gone.reset();
  FakeStream next("next");
  spin(budget, next, 0);
}

}  // namespace
}  // namespace tessera::device::cuda
