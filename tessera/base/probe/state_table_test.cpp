// Rows are claimed, changed, released and shared by threads, and a half-written row is always reported.
#include "tessera/base/probe/state_table.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <set>
#include <thread>

#include "tessera/base/probe/layout.h"
#include "tessera/base/probe/reader.h"
#include "tessera/base/probe/recorder.h"

namespace tessera::probe {
namespace {

struct GroupRow {
  std::uint64_t enqueued, started, done;
  StringId name;
  static constexpr std::uint32_t kRows = 16;
  TESSERA_RECORD(GroupRow, "test_group", enqueued, started, done, name)
};

struct InFlightRow {
  std::uint64_t number[28];
  static constexpr std::uint32_t kRows = 32;
  static constexpr auto record_fields() {
    return std::array{FieldInfo{"first", FieldType::kU64, 0, 8}, FieldInfo{"last", FieldType::kU64, 27 * 8, 8}};
  }
  static constexpr const char* kRecordName = "test_in_flight";
};

struct HugeTableRow {
  std::uint64_t value;
  static constexpr std::uint32_t kRows = 1'000'000;
  TESSERA_RECORD(HugeTableRow, "test_huge", value)
};

class StateTables : public ::testing::Test {
 protected:
  Recorder recorder{{}, {.nbytes = RecordOptions::kMinBytes}};

  TableInfo read(const char* kind) {
    const RecordFile file = RecordFile::open(recorder.path());
    EXPECT_TRUE(file.problems().empty());
    const TableInfo* table = file.find_table(kind);
    EXPECT_NE(table, nullptr);
    return table != nullptr ? *table : TableInfo{};
  }
};

std::uint64_t number(const RowInfo& row, const char* field) { return std::get<std::uint64_t>(row.find(field)->value); }

TEST_F(StateTables, ARowIsSeenFromClaimToRelease) {
  auto table = recorder.table<GroupRow>();
  EXPECT_EQ(table.rows(), GroupRow::kRows);
  auto row = table.claim({1, 0, 0, recorder.intern("world")});
  ASSERT_TRUE(row);
  row.set(&GroupRow::started, 1);
  row.update([](GroupRow& group) { group.done = group.started; });
  TableInfo seen = read("test_group");
  ASSERT_EQ(seen.claimed.size(), 1U);
  EXPECT_FALSE(seen.claimed[0].is_torn);
  EXPECT_EQ(number(seen.claimed[0], "enqueued"), 1U);
  EXPECT_EQ(number(seen.claimed[0], "done"), 1U);
  EXPECT_EQ(std::get<std::string>(seen.claimed[0].find("name")->value), "world");
  EXPECT_GT(seen.claimed[0].since_ns, 0);
  row.update(GroupRow{9, 8, 7, {}});
  EXPECT_EQ(row.get().started, 8U);
  row.release();
  EXPECT_FALSE(row);
  EXPECT_TRUE(read("test_group").claimed.empty());
}

TEST_F(StateTables, AWrappedRingDoesNotTouchRows) {
  auto row = recorder.table<GroupRow>().claim({42, 0, 0, {}});
  for (std::uint64_t i = 0; i < 50'000; ++i) {
    for (const Ring ring : {Ring::kComm, Ring::kMemory, Ring::kLaunch}) recorder.write(ring, GroupRow{i, i, i, {}});
  }
  EXPECT_EQ(number(read("test_group").claimed.at(0), "enqueued"), 42U);
}

TEST_F(StateTables, AFullTableRefusesAndCounts) {
  auto table = recorder.table<GroupRow>();
  std::vector<Row<GroupRow>> rows;
  for (std::uint32_t i = 0; i < GroupRow::kRows; ++i) rows.push_back(table.claim({i, 0, 0, {}}));
  std::set<std::uint32_t> distinct;
  for (const auto& row : rows) distinct.insert(row.index());
  EXPECT_EQ(distinct.size(), GroupRow::kRows);
  auto none = table.claim();
  EXPECT_FALSE(none);
  none.set(&GroupRow::done, 1);  // has no effect
  none.release();
  EXPECT_EQ(read("test_group").refused, 1U);
  rows.pop_back();
  EXPECT_TRUE(table.claim());
}

TEST_F(StateTables, ATableThatWantsTooMuchLeavesRoomForOthers) {
  const auto huge = recorder.table<HugeTableRow>();
  EXPECT_GT(huge.rows(), 50U);
  EXPECT_LT(huge.rows(), HugeTableRow::kRows);
  EXPECT_EQ(recorder.table<GroupRow>().rows(), GroupRow::kRows);
}

TEST_F(StateTables, OneTableForAKind) {
  auto row = recorder.table<GroupRow>().claim();
  auto other = recorder.table<GroupRow>().claim();
  EXPECT_NE(row.index(), other.index());
  EXPECT_EQ(read("test_group").claimed.size(), 2U);
}

TEST_F(StateTables, SeveralThreadsMayChangeOneRow) {
  auto row = recorder.table<GroupRow>().claim();
  std::vector<Thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back("adder", [&] {
      for (int n = 0; n < 5'000; ++n) row.update([](GroupRow& group) { group.done = ++group.enqueued; });
    });
  }
  for (int i = 0; i < 50; ++i) {
    const GroupRow now = row.get();
    ASSERT_EQ(now.done, now.enqueued);
  }
  threads.clear();
  EXPECT_EQ(row.get().enqueued, 20'000U);
}

TEST_F(StateTables, ClaimsAndReleasesOfManyThreadsNeverShareARow) {
  auto table = recorder.table<GroupRow>();
  std::vector<Thread> threads;
  std::atomic<int> clashes{0};
  for (std::uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back("claimer", [&, t] {
      for (std::uint64_t n = 0; n < 5'000; ++n) {
        auto row = table.claim({t, n, 0, {}});
        if (!row) continue;
        const GroupRow seen = row.get();
        clashes += seen.enqueued != t || seen.started != n ? 1 : 0;
      }
    });
  }
  threads.clear();
  EXPECT_EQ(clashes, 0);
  EXPECT_TRUE(read("test_group").claimed.empty());
}

TEST_F(StateTables, AReaderNeverTakesAHalfChangedRowForAWholeOne) {
  auto row = recorder.table<InFlightRow>().claim();
  std::atomic<bool> stop{false};
  Thread writer("writer", [&] {
    InFlightRow next{};
    while (!stop) {
      for (auto& number : next.number) ++number;
      row.update(next);
    }
  });
  int whole = 0;
  // The writer may lose its core in the middle of a change: every read is then torn until it runs again.
  for (int i = 0; i < 200 || (whole == 0 && i < 1'000'000); ++i) {
    const TableInfo seen = read("test_in_flight");
    ASSERT_EQ(seen.claimed.size(), 1U);
    if (seen.claimed[0].is_torn) {
      std::this_thread::yield();
      continue;
    }
    ++whole;
    ASSERT_EQ(number(seen.claimed[0], "first"), number(seen.claimed[0], "last"));
  }
  EXPECT_GT(whole, 0);
  stop = true;
}

// A writer killed inside a change leaves the lock odd; a half-copied row has a wrong check.
TEST_F(StateTables, ATornRowIsShownAsTorn) {
  auto row = recorder.table<GroupRow>().claim({1, 2, 3, {}});
  std::ifstream in(recorder.path(), std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const std::uint64_t contents[3] = {1, 2, 3};
  const std::string needle(reinterpret_cast<const char*>(contents), sizeof contents);
  const std::size_t at = bytes.find(needle);
  ASSERT_NE(at, std::string::npos);
  const std::string copy = ::testing::TempDir() + "torn_row.record";
  for (const auto& [offset, what] :
       {std::pair<std::size_t, const char*>{at - detail::kRowHeadBytes, "lock"}, {at + 8, "payload"}}) {
    std::string spoilt = bytes;
    spoilt[offset] = static_cast<char>(spoilt[offset] ^ 1);
    std::ofstream(copy, std::ios::binary) << spoilt;
    const RecordFile file = RecordFile::open(copy);
    ASSERT_EQ(file.find_table("test_group")->claimed.size(), 1U) << what;
    EXPECT_TRUE(file.find_table("test_group")->claimed[0].is_torn) << what;
  }
  std::remove(copy.c_str());
}

TEST(StateTablesOff, AreEmpty) {
  Recorder recorder({}, {.is_on = false});
  auto table = recorder.table<GroupRow>();
  EXPECT_EQ(table.rows(), 0U);
  EXPECT_FALSE(table.claim());
}

}  // namespace
}  // namespace tessera::probe
