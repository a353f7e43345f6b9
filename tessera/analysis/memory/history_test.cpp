// From an allocator through the record file of its rank back to a snapshot: live blocks are equal, however often the
// ring has wrapped.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "tessera/analysis/memory/history_reader.h"
#include "tessera/analysis/memory/torch_snapshot.h"
#include "tessera/base/error.h"
#include "tessera/device/host/host_device.h"
#include "tessera/memory/allocator.h"
#include "tessera/memory/graph_capture.h"
#include "tessera/memory/label.h"
#include "tessera/memory/testing/history_ground.h"

namespace tessera::analysis {
namespace {

using memory::Action;
using memory::Allocator;
using memory::BlockState;
using memory::BlockView;
using memory::Buffer;
using memory::CapturedGraph;
using memory::GraphCapture;
using memory::Label;
using memory::Policy;
using memory::Pool;
using memory::PoolScope;
using memory::PoolView;
using memory::SegmentView;
using memory::Snapshot;
using memory::TraceEntry;

using memory::testing::churn;
using memory::testing::live_blocks;
using memory::testing::RecordedRank;

std::vector<Snapshot> history_of(const RecordedRank& rank) {
  std::vector<std::string> notes;
  std::vector<Snapshot> all = read_history(probe::RecordFile::open(rank.path()), &notes);
  for (const std::string& note : notes) ADD_FAILURE() << note;
  for (const Snapshot& one : all) EXPECT_EQ(one.inconsistency(), "");
  return all;
}

Policy small_policy() {
  Policy policy;
  policy.granule_nbytes = std::size_t{64} << 10;
  return policy;
}

struct History : ::testing::Test {
  RecordedRank rank;
  Device device = device::host::make_host_device();
  Allocator allocator{device, {.policy = small_policy(), .name = "tested"}};
  Stream one = device.create_stream();
  Stream two = device.create_stream();
  std::vector<Buffer> held;
};

TEST_F(History, TellsLiveBlocksAfterTheRingWentRoundManyTimes) {
  const std::uint64_t slots = probe::recorder().slots(probe::Ring::kMemory);
  const Buffer old = allocator.allocate(1000, one);
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    churn(allocator, seed, static_cast<int>(slots), one, two, held);
    const std::vector<Snapshot> found = history_of(rank);
    ASSERT_EQ(found.size(), 1U);
    ASSERT_EQ(live_blocks(found[0]), live_blocks(allocator.snapshot())) << "seed " << seed;
    EXPECT_EQ(found[0].device, "tested");
  }
  EXPECT_GT(probe::recorder().leased(probe::Ring::kMemory), 10 * slots);
}

TEST_F(History, TellsLiveBlocksOfAnAllocatorThatHasLongBeenIdle) {
  const Allocator idle(device, {.policy = small_policy(), .name = "idle"});
  std::vector<Buffer> kept;
  churn(idle, 99, 30, one, two, kept);
  const std::vector<memory::testing::LiveBlock> before = live_blocks(idle.snapshot());
  ASSERT_FALSE(before.empty());
  const auto slots = static_cast<int>(probe::recorder().slots(probe::Ring::kMemory));
  churn(allocator, 1, 8 * slots, one, two, held);
  const std::vector<Snapshot> found = history_of(rank);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(live_blocks(found[0]), live_blocks(allocator.snapshot()));
  EXPECT_EQ(live_blocks(found[1]), before);
}

TEST_F(History, TellsThePoolsOfLiveBlocks) {
  const Pool user = allocator.create_pool({.name = "cache"});
  const Pool whole = allocator.create_pool({.name = "registered", .no_split = true});
  std::vector<Buffer> in_pools;
  for (const Pool& pool : {user, whole}) {
    const PoolScope scope(pool);
    churn(allocator, 5, 40, one, two, in_pools);
  }
  GraphCapture capture(allocator, one, "decode");
  in_pools.push_back(allocator.allocate(3000, one));
  const CapturedGraph graph = capture.end();
  const auto slots = static_cast<int>(probe::recorder().slots(probe::Ring::kMemory));
  churn(allocator, 1, 4 * slots, one, two, held);
  const std::vector<Snapshot> found = history_of(rank);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(live_blocks(found[0]), live_blocks(allocator.snapshot()));
  std::vector<std::string> names;
  for (const PoolView& pool : found[0].pools) names.push_back(pool.name);
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"cache", "decode", "default", "registered"}));
}

[[gnu::noinline]] Buffer allocate_in_a_named_place(const Allocator& from, const Stream& stream) {
  Buffer buffer = from.allocate(1000, stream);
  asm volatile("" ::: "memory");  // no tail call: the frame stays
  return buffer;
}

TEST_F(History, StacksAreSymbolizedFromTheFileAlone) {
  if (std::system("addr2line --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "addr2line is not installed";
  allocator.record_stacks(true);
  held.push_back(allocate_in_a_named_place(allocator, one));
  for (const std::vector<Snapshot>& snapshots : {history_of(rank), std::vector{allocator.snapshot()}}) {
    const Symbols symbols = symbolize(snapshots);
    EXPECT_TRUE(std::any_of(symbols.begin(), symbols.end(), [](const auto& known) {
      return known.second.name.find("allocate_in_a_named_place") != std::string::npos &&
             known.second.filename.find("history_test.cpp") != std::string::npos;
    }));
  }
}

// The ring has lost their allocation: a free without a label in force still has the owner of the memory.
TEST_F(History, AFreeKeepsTheLabelOfItsBlock) {
  Buffer weight;
  {
    const Label label("weight");
    weight = allocator.allocate(1000, one);
  }
  weight.reset();
  const std::vector<TraceEntry> trace = history_of(rank).at(0).trace;
  const auto freed = std::ranges::find(trace, Action::kFreeRequested, &TraceEntry::action);
  ASSERT_NE(freed, trace.end());
  EXPECT_EQ(freed->label, "weight");
}

TEST_F(History, ABlockDoesNotKeepTheStackOfItsEarlierLife) {
  allocator.record_stacks(true);
  Buffer first = allocator.allocate(1000, one);
  const std::byte* const address = first.data();
  first.reset();
  allocator.record_stacks(false);
  held.push_back(allocator.allocate(1000, one));
  ASSERT_EQ(held.back().data(), address);
  for (const Snapshot& snapshot : {history_of(rank).at(0), allocator.snapshot()}) {
    for (const BlockView& block : snapshot.segments.at(0).blocks) EXPECT_EQ(block.stack, "");
  }
}

TEST_F(History, TheStackOfAFreeIsNotThatOfTheAllocation) {
  allocator.record_stacks(true);
  { const Buffer brief = allocate_in_a_named_place(allocator, one); }
  const std::vector<TraceEntry> trace = history_of(rank).at(0).trace;
  const auto stack_of = [&](Action action) {
    const auto found =
        std::find_if(trace.begin(), trace.end(), [&](const auto& entry) { return entry.action == action; });
    return found != trace.end() ? found->stack : "";
  };
  EXPECT_NE(stack_of(Action::kAlloc), "");
  EXPECT_NE(stack_of(Action::kFreeRequested), "");
  EXPECT_NE(stack_of(Action::kAlloc), stack_of(Action::kFreeRequested));
}

TEST_F(History, AnEstimateIsNotInIt) {
  const Pool pool = allocator.create_pool({});
  Buffer outlives;
  EXPECT_GT(estimate(pool, one, [&] { outlives = allocator.allocate(100000, one); }), 0U);
  EXPECT_TRUE(live_blocks(history_of(rank).at(0)).empty());
}

TEST_F(History, NamesThisProgramInTheStackOfALiveBlock) {
  allocator.record_stacks(true);
  held.push_back(allocator.allocate(1000, one));
  const auto slots = static_cast<int>(probe::recorder().slots(probe::Ring::kMemory));
  churn(allocator, 3, 2 * slots, one, two, held);
  const std::vector<Snapshot> found = history_of(rank);
  std::size_t count = 0;
  for (const SegmentView& segment : found.at(0).segments) {
    for (const BlockView& block : segment.blocks) {
      if (block.state != BlockState::kLive) continue;
      ++count;
      const std::string program = std::filesystem::read_symlink("/proc/self/exe").filename();
      EXPECT_NE(block.stack.find(program + "+0x"), std::string::npos) << block.stack;
    }
  }
  EXPECT_EQ(count, held.size());
  EXPECT_EQ(live_blocks(found[0]), live_blocks(allocator.snapshot()));
}

TEST_F(History, TellsOfARequestThatFailed) {
  allocator.set_limit(std::size_t{1} << 20);
  const Label label("too much");
  EXPECT_THROW(static_cast<void>(allocator.allocate(std::size_t{2} << 20, two)), OutOfMemory);
  const std::vector<Snapshot> found = history_of(rank);
  const auto& trace = found.at(0).trace;
  const auto failed = std::find_if(trace.begin(), trace.end(),
                                   [](const TraceEntry& entry) { return entry.action == Action::kOutOfMemory; });
  ASSERT_NE(failed, trace.end());
  EXPECT_EQ(failed->nbytes, std::size_t{2} << 20);
  EXPECT_EQ(failed->stream, two.id());
  EXPECT_EQ(failed->label, "too much");
}

TEST_F(History, ReadsAsATorchSnapshot) {
  churn(allocator, 2, 3000, one, two, held);
  const std::string path = ::testing::TempDir() + "tessera_history.pickle";
  write_torch_snapshot_file(path, history_of(rank), TorchFormat::kPickle);
  std::string command = "python3 ";
  command.append(TESSERA_TREE).append("/tools/check_torch_snapshot.py ").append(path);
  EXPECT_EQ(std::system(command.c_str()), 0);
  std::remove(path.c_str());
}

}  // namespace
}  // namespace tessera::analysis
