// Snapshots rebuilt from record files: with and without keyframes, from rings that have wrapped, and from invalid
// records.
#include "tessera/analysis/memory/history_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tessera/memory/history.h"
#include "tessera/memory/label_use.h"
#include "tessera/memory/testing/history_model.h"

namespace tessera::analysis {
namespace {

using memory::Action;
using memory::AllocRecord;
using memory::BlockRecord;
using memory::BlockState;
using memory::BlockView;
using memory::FreeRecord;
using memory::KeyframeRecord;
using memory::label_uses;
using memory::LabelUse;
using memory::MapRecord;
using memory::MemoryPoolRow;
using memory::OutOfMemoryRecord;
using memory::PoolId;
using memory::ReusableRecord;
using memory::RunRecord;
using memory::SegmentView;
using memory::Snapshot;
using memory::Totals;
using memory::TraceEntry;

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::uint64_t kBase = 0x7f0000000000;
constexpr std::uint64_t kMiB = 1 << 20;

class HistoryReader : public ::testing::Test {
 protected:
  HistoryReader() : recorder({}, {.nbytes = probe::RecordOptions::kMinBytes}), table(recorder.table<MemoryPoolRow>()) {}

  void pool(std::uint32_t number, std::uint32_t allocator, PoolId id, const char* device, const char* name) {
    rows.push_back(table.claim({number, allocator, id.graph, id.user, recorder.intern(device), recorder.intern(name)}));
  }
  template <class Record>
  void write(const Record& record) {
    recorder.write(probe::Ring::kMemory, record);
  }
  void alloc(std::uint64_t offset, std::uint64_t requested, const char* label = "", std::uint32_t in_pool = 1) {
    write(
        AllocRecord{kBase + offset, requested, (requested + 511) / 512 * 512, 2, in_pool, id(label), id("a.out+0x10")});
  }
  void free(std::uint64_t offset, std::uint64_t requested, bool is_pending = false, const char* label = "") {
    write(FreeRecord{kBase + offset, requested, 2, 1, id(label), {}, is_pending});
  }
  void map(std::uint64_t offset, std::uint64_t nbytes, bool is_mapped = true, bool is_expandable = true) {
    write(MapRecord{kBase + offset, nbytes, 2, 1, is_mapped, is_expandable});
  }
  probe::StringId id(const char* text) { return *text != 0 ? recorder.intern(text) : probe::StringId{}; }

  std::vector<Snapshot> read() {
    notes.clear();
    auto snapshots = read_history(probe::RecordFile::open(recorder.path()), &notes);
    for (const Snapshot& snapshot : snapshots) EXPECT_EQ(snapshot.inconsistency(), "");
    return snapshots;
  }
  Snapshot read_one() {
    auto snapshots = read();
    EXPECT_EQ(snapshots.size(), 1u);
    return snapshots.empty() ? Snapshot{} : snapshots[0];
  }

  probe::Recorder recorder;
  probe::StateTable<MemoryPoolRow> table;
  std::vector<probe::Row<MemoryPoolRow>> rows;
  std::vector<std::string> notes;
};

TEST_F(HistoryReader, AFileWithoutMemoryRecordsHasNoSnapshots) { EXPECT_TRUE(read().empty()); }

TEST_F(HistoryReader, RebuildsBlocksAndFillsGapsWithCachedOnes) {
  pool(1, 0, {}, "cuda:0", "default");
  map(0, 2 * kMiB);
  map(2 * kMiB, 2 * kMiB);
  alloc(512, 1000, "weights");
  alloc(kMiB, 2 * kMiB, "activations");
  free(kMiB, 2 * kMiB, true);
  const Snapshot snapshot = read_one();
  EXPECT_EQ(snapshot.device, "cuda:0");
  ASSERT_EQ(snapshot.segments.size(), 1u) << "pieces that touch are one run";
  const SegmentView& segment = snapshot.segments[0];
  EXPECT_EQ(segment.address, kBase);
  EXPECT_EQ(segment.nbytes, 4 * kMiB);
  EXPECT_TRUE(segment.is_expandable);
  EXPECT_EQ(segment.stream, StreamId{2});
  std::vector<std::string> states;
  for (const BlockView& block : segment.blocks) states.emplace_back(to_string(block.state));
  EXPECT_THAT(states, ElementsAre("cached", "live", "cached", "pending", "cached"));
  EXPECT_EQ(segment.blocks[1].label, "weights");
  EXPECT_EQ(segment.blocks[1].stack, "a.out+0x10");
  EXPECT_EQ(segment.blocks[1].requested_nbytes, 1000u);
  EXPECT_GT(segment.blocks[1].time_ns, 1'600'000'000'000'000'000);
  EXPECT_TRUE(snapshot.totals().closes());
  EXPECT_FALSE(snapshot.trace_is_cut);
  EXPECT_EQ(notes, std::vector<std::string>{});
}

TEST_F(HistoryReader, TheTraceTellsEventsInOrder) {
  pool(1, 0, {0, 4}, "cuda:0", "kv cache");
  map(0, 2 * kMiB);
  alloc(0, 700, "a");
  free(0, 700, true, "b");
  write(ReusableRecord{kBase, 700, 2, 1, false});
  alloc(0, 600, "c");
  free(0, 600);
  write(OutOfMemoryRecord{1 << 30, 77, 2, 1, id("d")});
  map(0, 2 * kMiB, false);
  const Snapshot snapshot = read_one();
  std::vector<std::string> lines;
  for (const TraceEntry& entry : snapshot.trace) {
    lines.push_back(std::string(to_string(entry.action)) + " " + std::to_string(entry.nbytes) + " " + entry.label);
    EXPECT_EQ(entry.pool, (PoolId{0, 4}));
    EXPECT_EQ(entry.stream, StreamId{2});
  }
  EXPECT_THAT(
      lines, ElementsAre("map 2097152 ", "alloc 700 a", "free requested 700 b", "free completed 700 ", "alloc 600 c",
                         "free requested 600 ", "free completed 600 ", "out of memory 1073741824 d", "unmap 2097152 "));
  EXPECT_EQ(snapshot.trace[7].device_free_nbytes, 77u);
  EXPECT_TRUE(snapshot.segments.empty());
}

TEST_F(HistoryReader, FixedSegmentsStayApart) {
  pool(1, 0, {}, "cuda:0", "default");
  map(0, 2 * kMiB, true, false);
  map(2 * kMiB, 2 * kMiB, true, false);
  EXPECT_EQ(read_one().segments.size(), 2u);
}

TEST_F(HistoryReader, TheLastWholeKeyframeOutweighsWhatCameBefore) {
  pool(1, 3, {}, "cuda:0", "default");
  map(0, 2 * kMiB);
  alloc(0, 512);  // its free was lost
  alloc(1024, 512, "kept");
  write(KeyframeRecord{0, 3, 0, false});
  write(RunRecord{kBase, 2 * kMiB, 2, 1, true});
  write(BlockRecord{kBase + 1024, 512, 512, 2, 1, false, id("kept"), {}});
  write(KeyframeRecord{0, 3, 2, true});
  const Snapshot snapshot = read_one();
  EXPECT_EQ(snapshot.totals().live_blocks, 1u);
  EXPECT_EQ(snapshot.segments[0].blocks[1].label, "kept");
  EXPECT_GT(snapshot.segments[0].blocks[1].time_ns, 0) << "the time of its allocation is still in the ring";
  EXPECT_EQ(snapshot.trace.size(), 3u) << "rows of keyframes are no events";
}

TEST_F(HistoryReader, AKeyframeWithoutEndOrWithLostRowsDoesNotCount) {
  pool(1, 3, {}, "cuda:0", "default");
  map(0, 2 * kMiB);
  alloc(0, 512);
  write(KeyframeRecord{0, 3, 0, false});
  write(RunRecord{kBase, 2 * kMiB, 2, 1, true});
  write(KeyframeRecord{0, 3, 2, true});  // states two rows
  EXPECT_EQ(read_one().totals().live_blocks, 1u);
  write(KeyframeRecord{1, 3, 0, false});  // the process was killed here
  EXPECT_EQ(read_one().totals().live_blocks, 1u);
}

TEST_F(HistoryReader, ABlockFreedWhileTheKeyframeWasWrittenIsGone) {
  pool(1, 3, {}, "cuda:0", "default");
  map(0, 2 * kMiB);
  alloc(0, 512);
  alloc(512, 512);
  write(KeyframeRecord{0, 3, 0, false});
  free(0, 512);  // before the rows of its heap
  free(512, 512, true);
  write(RunRecord{kBase, 2 * kMiB, 2, 1, true});
  write(BlockRecord{kBase + 512, 512, 512, 2, 1, true, {}, {}});
  write(ReusableRecord{kBase + 512, 512, 2, 1, false});  // after them
  alloc(4096, 512);
  write(KeyframeRecord{0, 3, 2, true});
  const Totals sums = read_one().totals();
  EXPECT_EQ(sums.live_blocks, 1u);
  EXPECT_EQ(sums.pending_blocks, 0u);
}

TEST_F(HistoryReader, AllocatorsOfOneFileAreKeptApart) {
  pool(1, 0, {}, "cuda:0", "default");
  pool(2, 1, {}, "pinned memory of cuda:0", "default");
  pool(3, 0, {9, 0}, "cuda:0", "decode");
  map(0, 2 * kMiB);
  alloc(0, 512);
  write(MapRecord{0x1000, 4096, 0, 2, true, false});
  write(AllocRecord{0x1000, 100, 512, 0, 2, {}, {}});
  const auto snapshots = read();
  ASSERT_EQ(snapshots.size(), 2u);
  EXPECT_EQ(snapshots[0].totals().live_nbytes, 512u);
  ASSERT_EQ(snapshots[0].pools.size(), 2u);
  EXPECT_EQ(snapshots[0].pools[1].name, "decode");
  EXPECT_EQ(snapshots[0].pools[1].owner, "graph 9");
  EXPECT_EQ(snapshots[1].device, "pinned memory of cuda:0");
  EXPECT_EQ(snapshots[1].totals().live_nbytes, 100u);
  EXPECT_EQ(snapshots[1].trace.size(), 2u);
}

TEST_F(HistoryReader, APoolThatIsGoneBelongsToItsKeyframesAllocator) {
  pool(1, 0, {}, "cuda:0", "default");
  pool(2, 1, {}, "cuda:1", "default");
  write(KeyframeRecord{0, 1, 0, false});
  write(RunRecord{kBase, 2 * kMiB, 2, 7, true});
  write(KeyframeRecord{0, 1, 1, true});
  alloc(0, 512, "x", 7);
  const auto snapshots = read();
  ASSERT_EQ(snapshots.size(), 2u);
  EXPECT_EQ(snapshots[1].totals().live_blocks, 1u);
  ASSERT_EQ(snapshots[1].pools.size(), 2u);
  EXPECT_EQ(snapshots[1].pools[1].name, "pool 7 (gone)");
}

TEST_F(HistoryReader, AnAllocatorThatIsGoneIsNotShownAsAnother) {
  pool(1, 0, {}, "host", "default");
  map(0, 2 * kMiB);
  alloc(0, 512);
  pool(2, 1, {}, "host", "default");
  write(MemoryPoolRow{2, 1, 0, 0, id("host"), id("default")});
  write(MapRecord{0x10000000, 2 * kMiB, 0, 2, true, false});
  write(AllocRecord{0x10000000, 100, 512, 0, 2, {}, {}});
  rows.back().release();  // its memory is released with it, without a record
  Snapshot snapshot = read_one();
  EXPECT_EQ(snapshot.totals().reserved_nbytes, 2 * kMiB);
  EXPECT_EQ(snapshot.totals().live_nbytes, 512u);
  EXPECT_EQ(snapshot.trace.size(), 2u);
  EXPECT_THAT(notes, Contains("2 events belong to a removed allocator; skipped"));
  write(MapRecord{0x20000000, 2 * kMiB, 0, 3, true, false});  // of a pool whose creation record was overwritten
  snapshot = read_one();
  EXPECT_EQ(snapshot.totals().reserved_nbytes, 2 * kMiB);
}

TEST_F(HistoryReader, AFileWhoseAllocatorIsGoneStillShowsItsTrace) {
  map(0, 2 * kMiB);
  alloc(0, 512);
  free(0, 512);
  map(0, 2 * kMiB, false);
  const Snapshot snapshot = read_one();
  EXPECT_EQ(snapshot.device, "unknown device");
  EXPECT_EQ(snapshot.trace.size(), 5u);
}

TEST_F(HistoryReader, SaysWhatAWrappedRingWithoutKeyframesCannotTell) {
  pool(1, 0, {}, "cuda:0", "default");
  map(0, 64 * kMiB);
  for (int i = 0; i < 5000; ++i) {
    alloc(512, 512);
    free(512, 512);
  }
  alloc(1024, 512, "last");
  const Snapshot snapshot = read_one();
  EXPECT_TRUE(snapshot.trace_is_cut);
  EXPECT_EQ(snapshot.totals().live_blocks, 1u);
  EXPECT_THAT(notes, Contains(HasSubstr("no complete keyframe")));
  EXPECT_THAT(notes, Contains(HasSubstr("no record maps")));
}

TEST_F(HistoryReader, LeavesOutRecordsThatCannotBe) {
  pool(1, 0, {}, "cuda:0", "default");
  map(0, 2 * kMiB);
  write(AllocRecord{~std::uint64_t{0} - 100, 512, 512, 2, 1, {}, {}});
  write(AllocRecord{kBase, 1, 0, 2, 1, {}, {}});
  write(MapRecord{16, ~std::uint64_t{0}, 2, 1, true, true});
  write(FreeRecord{kBase, ~std::uint64_t{0}, 2, 1, {}, {}, true});
  write(AllocRecord{kBase + 512, ~std::uint64_t{0}, 512, 2, 1, {}, {}});  // requests more than it got
  const Snapshot snapshot = read_one();
  EXPECT_EQ(snapshot.totals().live_nbytes, 512u);
  EXPECT_THAT(notes, Contains("4 memory records are invalid; skipped"));
}

TEST_F(HistoryReader, MemoryThatIsTakenAwayTakesItsBlocksAlong) {
  pool(1, 0, {}, "cuda:0", "default");
  map(0, 6 * kMiB);
  alloc(2 * kMiB, kMiB);  // its free was lost
  map(2 * kMiB, 2 * kMiB, false);
  const Snapshot snapshot = read_one();
  EXPECT_EQ(snapshot.totals().live_blocks, 0u);
  EXPECT_EQ(snapshot.segments.size(), 2u);
}

TEST_F(HistoryReader, PeaksByLabelAreTheMostThatWasLiveAtOnce) {
  pool(1, 0, {}, "cuda:0", "default");
  map(0, 64 * kMiB);
  alloc(0, 1000, "a");
  alloc(4096, 3000, "a");
  free(4096, 3000, true, "b");  // with another label
  alloc(8192, 500, "a");
  alloc(16384, 10, "b");
  free(16384, 10);
  const auto uses = label_uses(read_one());
  EXPECT_THAT(uses, ElementsAre(LabelUse{"a", 1500, 2, 4000, 3}, LabelUse{"b", 0, 0, 10, 1}));
}

TEST(LabelUse, CountsWhatWasAllocatedBeforeTheTraceBegan) {
  Snapshot snapshot;
  snapshot.trace = {
      {.action = Action::kFreeRequested, .address = 0x1000, .nbytes = 70, .stream = {}, .pool = {}, .label = "old"},
      {.action = Action::kFreeCompleted, .address = 0x1000, .nbytes = 70, .stream = {}, .pool = {}},
      {.action = Action::kAlloc, .address = 0x1000, .nbytes = 50, .stream = {}, .pool = {}, .label = "new"}};
  SegmentView segment{.address = 0x1000, .nbytes = 512, .pool = {}, .stream = {}};
  segment.blocks = {{.address = 0x1000,
                     .nbytes = 512,
                     .requested_nbytes = 50,
                     .state = BlockState::kLive,
                     .stream = {},
                     .label = "new"}};
  snapshot.segments = {segment};
  EXPECT_THAT(label_uses(snapshot), ElementsAre(LabelUse{"new", 50, 1, 50, 1}, LabelUse{"old", 0, 0, 70, 0}));
}

}  // namespace
}  // namespace tessera::analysis
