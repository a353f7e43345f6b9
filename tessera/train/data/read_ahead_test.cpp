#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/train/data/samples.h"
#include "tessera/train/data/testing/data_directory.h"

namespace tessera::train {
namespace {

using testing::DataDirectory;

struct Letters {
  DataDirectory directory;
  Samples samples = open();
  [[nodiscard]] Samples open() const {
    DataConfig config;
    config.files = {directory.write("x", "abcdefghijklmnopqrstuvwxyz")};
    config.held_out_share = 0;
    return Samples::open(config, DataSplit::kTraining, 2, 1);
  }
  [[nodiscard]] std::vector<std::int32_t> read(const std::vector<std::uint64_t>& numbers) const {
    std::vector<std::int32_t> tokens(numbers.size() * 3);
    for (std::size_t i = 0; i < numbers.size(); ++i) samples.read(numbers[i], std::span(tokens).subspan(3 * i, 3));
    return tokens;
  }
};

std::vector<std::uint64_t> rows_of(std::uint64_t batch) { return {batch * 4, batch * 4 + 1, batch * 4 + 2}; }

TEST(ReadAhead, GivesBatchesInTheirOrder) {
  const Letters letters;
  for (const int depth : {0, 1, 2, 5}) {
    ReadAhead ahead(letters.samples, 2, rows_of, depth);
    for (std::uint64_t batch = 0; batch < 30; ++batch) ASSERT_EQ(ahead.next(), letters.read(rows_of(batch))) << depth;
  }
}

TEST(ReadAhead, ReadsSoManyBatchesBeforeTheyAreAskedFor) {
  const Letters letters;
  std::promise<void> third;
  std::atomic<std::uint64_t> asked = 0;
  {
    ReadAhead ahead(
        letters.samples, 2,
        [&](std::uint64_t batch) {
          asked = batch + 1;
          if (batch == 2) third.set_value();
          return rows_of(batch);
        },
        3);
    third.get_future().wait();  // nothing was taken
    (void)ahead.next();
  }
  EXPECT_LE(asked, 4U) << "and no more than so many";
}

TEST(ReadAhead, ThrowsAtNextWhatReadingThrew) {
  const Letters letters;
  const auto fails_third = [](std::uint64_t batch) {
    TESSERA_CHECK(batch < 2, "batch ", batch, " is broken");
    return rows_of(batch);
  };
  for (const int depth : {0, 1, 4}) {
    ReadAhead ahead(letters.samples, 2, fails_third, depth);
    EXPECT_EQ(ahead.next(), letters.read(rows_of(0))) << "what was read before comes first";
    EXPECT_EQ(ahead.next(), letters.read(rows_of(1)));
    for (int again = 0; again < 2; ++again) {
      expect_error<InvalidArgument>([&] { (void)ahead.next(); }, {"batch 2 is broken"});
    }
  }
}

TEST(ReadAhead, WorksForTheRankThatMadeIt) {
  const Letters letters;
  const auto rank = std::make_shared<RankContext>(RankPlace{.rank = Rank(3), .world_size = 4});
  const RankScope scope(rank);
  std::atomic<std::int32_t> seen = -1;
  ReadAhead ahead(
      letters.samples, 2,
      [&](std::uint64_t batch) {
        seen = current_place().rank.value();
        return rows_of(batch);
      },
      1);
  (void)ahead.next();
  EXPECT_EQ(seen, 3);
}

TEST(ReadAhead, RefusesWhatMakesNoSense) {
  const Letters letters;
  expect_error<InvalidArgument>([&] { ReadAhead(letters.samples, 2, rows_of, -1); },
                                {"data.read_ahead: must be at least 0, got -1"});
  expect_error<InvalidArgument>([&] { ReadAhead(letters.samples, 0, rows_of, 1); },
                                {"model.sequence: must be at least 1, got 0"});
  expect_error<InvalidArgument>([&] { ReadAhead(letters.samples, 2, nullptr, 1); },
                                {"a function that returns sample numbers is required"});
  ReadAhead wrong(letters.samples, 3, rows_of, 1);
  expect_error<InvalidArgument>([&] { (void)wrong.next(); }, {"2 + 1", "room for 4"});
}

}  // namespace
}  // namespace tessera::train
