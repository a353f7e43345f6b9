// PyTorch memory snapshots: golden files byte by byte, and traces that replay after any loss. WRITE_GOLDENS=1 in the
// environment rewrites the golden files.
#include "tessera/analysis/memory/torch_snapshot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <link.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <nlohmann/json.hpp>

#include "tessera/analysis/memory/history_reader.h"
#include "tessera/base/error.h"
#include "tessera/memory/testing/history_model.h"

namespace tessera::analysis {
namespace {

using memory::Action;
using memory::BlockState;
using memory::BlockView;
using memory::PoolId;
using memory::SegmentView;
using memory::Snapshot;
using memory::TraceEntry;

using nlohmann::json;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::uint64_t kBase = 0x7f2000000000;
constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::int64_t kTime = 1'700'000'000'000'000'000;

TraceEntry event(Action action, std::uint64_t address, std::uint64_t nbytes, const char* label = "",
                 const char* stack = "", PoolId pool = {}) {
  TraceEntry entry;
  entry.action = action;
  entry.address = address;
  entry.nbytes = nbytes;
  entry.pool = pool;
  entry.label = label;
  entry.stack = stack;
  return entry;
}

BlockView block(std::uint64_t address, std::uint64_t nbytes, std::uint64_t requested, BlockState state,
                const char* label = "", const char* stack = "") {
  BlockView view;
  view.address = address;
  view.nbytes = nbytes;
  view.requested_nbytes = requested;
  view.state = state;
  view.label = label;
  view.stack = stack;
  return view;
}

SegmentView segment(std::uint64_t address, bool is_expandable, PoolId pool, std::uint32_t stream,
                    std::vector<BlockView> blocks) {
  SegmentView view;
  view.address = address;
  view.pool = pool;
  view.stream = StreamId{stream};
  view.is_expandable = is_expandable;
  for (BlockView& each : blocks) {
    each.stream = view.stream;
    view.nbytes += each.nbytes;
  }
  view.blocks = std::move(blocks);
  return view;
}

void number(std::vector<TraceEntry>& trace) {
  for (std::size_t i = 0; i < trace.size(); ++i) trace[i].time_ns = kTime + static_cast<std::int64_t>(i) * 1500;
}

constexpr const char* kStack = "/opt/app/libmodel.so+0x10f0 /opt/app/my app+0x20a4";

// Expandable segments, a private pool, every state and every action.
Snapshot growing() {
  Snapshot snapshot;
  snapshot.device = "cuda:0";
  snapshot.pools = {{{}, "default", ""}, {{3, 0}, "decode", "graph 'decode'"}};
  snapshot.settings = {{"granule_nbytes", "2 MiB"}, {"cross_stream", "wait"}};
  snapshot.segments = {segment(kBase, true, {}, 0,
                               {block(kBase, kMiB, kMiB - 100, BlockState::kLive, "weights", kStack),
                                block(kBase + kMiB, kMiB, kMiB, BlockState::kPending, "activations"),
                                block(kBase + 2 * kMiB, 2 * kMiB, 0, BlockState::kCached)}),
                       segment(kBase + (1ull << 36), true, {3, 0}, 7,
                               {block(kBase + (1ull << 36), 512, 1, BlockState::kLive, "", kStack),
                                block(kBase + (1ull << 36) + 512, 2 * kMiB - 512, 0, BlockState::kCached)})};
  snapshot.trace = {
      event(Action::kMap, kBase, 2 * kMiB),
      event(Action::kAlloc, kBase, kMiB - 100, "weights", kStack),
      event(Action::kMap, kBase + 2 * kMiB, 4 * kMiB),
      event(Action::kAlloc, kBase + 2 * kMiB, 3 * kMiB, "scratch"),
      event(Action::kFreeRequested, kBase + 2 * kMiB, 3 * kMiB, "scratch"),
      event(Action::kFreeCompleted, kBase + 2 * kMiB, 3 * kMiB),
      event(Action::kAlloc, kBase + kMiB, kMiB, "activations"),
      event(Action::kUnmap, kBase + 4 * kMiB, 2 * kMiB),
      event(Action::kOutOfMemory, 0, 1 << 30, "activations"),
      event(Action::kMap, kBase + (1ull << 36), 2 * kMiB, "", "", {3, 0}),
      event(Action::kAlloc, kBase + (1ull << 36), 1, "", kStack, {3, 0}),
      event(Action::kFreeRequested, kBase + kMiB, kMiB),
      event(Action::kSnapshot, 0, 2 * kMiB + 512),
  };
  snapshot.trace[8].device_free_nbytes = 4096;
  snapshot.trace[9].stream = snapshot.trace[10].stream = StreamId{7};
  number(snapshot.trace);
  return snapshot;
}

// Fixed segments and a history whose beginning was overwritten.
Snapshot fixed_and_cut() {
  Snapshot snapshot;
  snapshot.device = "pinned memory of cuda:0";
  snapshot.pools = {{{}, "default", ""}};
  snapshot.trace_is_cut = true;
  snapshot.segments = {
      segment(0x10000000, false, {}, 0, {block(0x10000000, 2 * kMiB, 5, BlockState::kLive, "\xff odd \"label\"")}),
      segment(0x10200000, false, {}, 0, {block(0x10200000, 20 * kMiB, 0, BlockState::kCached)})};
  snapshot.trace = {
      event(Action::kFreeCompleted, 0x10000000, 700),  // allocated before the history begins
      event(Action::kFreeRequested, 0x10200000, 80),
      event(Action::kFreeCompleted, 0x10200000, 80),
      event(Action::kAlloc, 0x10000000, 5, "\xff odd \"label\""),
      event(Action::kMap, 0x20000000, 2 * kMiB),
      event(Action::kUnmap, 0x20000000, 2 * kMiB),
  };
  number(snapshot.trace);
  return snapshot;
}

std::string written(const std::vector<Snapshot>& snapshots, TorchFormat format, const Symbols& symbols = {}) {
  std::ostringstream out;
  write_torch_snapshot(out, snapshots, format, symbols);
  return out.str();
}

json as_json(const Snapshot& snapshot, const Symbols& symbols = {}) {
  return json::parse(written({snapshot}, TorchFormat::kJson, symbols));
}

std::vector<std::string> actions(const json& snapshot) {
  std::vector<std::string> names;
  for (const json& entry : snapshot.at("device_traces").at(0)) names.push_back(entry.at("action"));
  return names;
}

std::string content(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

void compare_with_golden(const std::string& name, const std::string& bytes) {
  const std::string path = std::string(TESSERA_TREE) + "/tessera/analysis/memory/testdata/" + name;
  if (std::getenv("WRITE_GOLDENS") != nullptr) std::ofstream(path, std::ios::binary) << bytes;
  const std::string golden = content(path);
  ASSERT_FALSE(golden.empty()) << path;
  EXPECT_TRUE(golden == bytes) << name << " differs from what is written now; if that is meant, run this test with "
                               << "WRITE_GOLDENS=1 and look at the difference";
}

// Returns the output of tools/check_torch_snapshot.py; empty if all files are valid.
std::string complaint(const std::vector<std::string>& files) {
  const std::string directory = ::testing::TempDir() + "torch_snapshot_" + std::to_string(::getpid());
  std::filesystem::create_directory(directory);
  for (std::size_t i = 0; i < files.size(); ++i)
    std::ofstream(directory + "/" + std::to_string(i), std::ios::binary) << files[i];
  const std::string command = "python3 " TESSERA_TREE "/tools/check_torch_snapshot.py " + directory + "/* 2>&1";
  std::FILE* pipe = ::popen(command.c_str(), "r");
  std::string text;
  char piece[4096];
  while (std::fgets(piece, sizeof piece, pipe) != nullptr) text += piece;
  const int status = ::pclose(pipe);
  std::filesystem::remove_all(directory);
  return status == 0 ? "" : text;
}

TEST(TorchSnapshot, MatchesTheGoldenFiles) {
  compare_with_golden("growing.pickle", written({growing()}, TorchFormat::kPickle));
  compare_with_golden("growing.json", written({growing()}, TorchFormat::kJson));
  compare_with_golden("two_devices.pickle", written({growing(), fixed_and_cut()}, TorchFormat::kPickle));
  compare_with_golden("two_devices.json", written({growing(), fixed_and_cut()}, TorchFormat::kJson));
  compare_with_golden("empty.pickle", written({}, TorchFormat::kPickle));
}

TEST(TorchSnapshot, PassesTheViewersChecks) {
  const std::vector<Snapshot> both = {growing(), fixed_and_cut()};
  EXPECT_EQ(complaint({written(both, TorchFormat::kPickle), written(both, TorchFormat::kJson)}), "");
}

TEST(TorchSnapshot, WritesEveryEventOfACompleteTrace) {
  EXPECT_THAT(actions(as_json(growing())),
              ElementsAre("segment_map", "alloc", "segment_map", "alloc", "free_requested", "free_completed", "alloc",
                          "segment_unmap", "oom", "segment_map", "alloc", "free_requested", "snapshot"));
}

TEST(TorchSnapshot, FixedSegmentsAreAllocatedAndFreed) {
  Snapshot snapshot;
  snapshot.segments = {segment(0x1000, false, {}, 0, {block(0x1000, 4096, 0, BlockState::kCached)})};
  snapshot.trace = {event(Action::kMap, 0x1000, 4096), event(Action::kUnmap, 0x1000, 4096),
                    event(Action::kMap, 0x1000, 4096),
                    event(Action::kMap, 0x2000, 512),  // gone at the end, but of the same pool
                    event(Action::kUnmap, 0x2000, 512)};
  EXPECT_THAT(actions(as_json(snapshot)),
              ElementsAre("segment_alloc", "segment_free", "segment_alloc", "segment_alloc", "segment_free"));
}

TEST(TorchSnapshot, GivesLabelsToEventsAndToBlocksWithoutStacks) {
  const json snapshot = as_json(growing());
  const json& blocks = snapshot.at("segments").at(0).at("blocks");
  EXPECT_EQ(blocks.at(0).at("frames").size(), 2u);
  EXPECT_EQ(blocks.at(0).at("frames").at(0).at("name"), "/opt/app/libmodel.so+0x10f0");
  EXPECT_EQ(blocks.at(0).at("frames").at(1).at("filename"), "/opt/app/my app") << "a path with a space";
  const json label = {{"filename", "label"}, {"line", 0}, {"name", "activations"}};
  EXPECT_EQ(blocks.at(1).at("frames"), json::array({label}));
  EXPECT_EQ(blocks.at(2).at("frames"), json::array());
  EXPECT_EQ(snapshot.at("device_traces").at(0).at(1).at("user_metadata"), "weights");
}

TEST(TorchSnapshot, UsesSymbolsWhereThereAreAny) {
  const Symbols symbols = {{"/opt/app/libmodel.so+0x10f0", {"model.cpp", 42, "forward()"}}};
  const json frames = as_json(growing(), symbols).at("segments").at(0).at("blocks").at(0).at("frames");
  const json known = {{"filename", "model.cpp"}, {"line", 42}, {"name", "forward()"}};
  EXPECT_EQ(frames.at(0), known);
  EXPECT_EQ(frames.at(1).at("line"), 0);
}

TEST(TorchSnapshot, StacksAreWrittenOncePerPickle) {
  Snapshot snapshot = growing();
  const std::size_t before = written({snapshot}, TorchFormat::kPickle).size();
  const TraceEntry alloc = event(Action::kAlloc, kBase + 2 * kMiB, 512, "", kStack);
  for (int i = 0; i < 1000; ++i) {
    snapshot.trace.push_back(alloc);
    snapshot.trace.push_back(event(Action::kFreeRequested, alloc.address, 512, "", kStack));
    snapshot.trace.push_back(event(Action::kFreeCompleted, alloc.address, 512, "", kStack));
  }
  const std::string bytes = written({snapshot}, TorchFormat::kPickle);
  EXPECT_LT((bytes.size() - before) / 3000, 80u) << "bytes an event";
  EXPECT_EQ(complaint({bytes}), "");
}

TEST(TorchSnapshot, RefusesWhatDoesNotTile) {
  Snapshot snapshot = growing();
  snapshot.segments[0].blocks.pop_back();
  EXPECT_THROW(written({snapshot}, TorchFormat::kJson), InvalidArgument);
}

TEST(TorchSnapshot, AFullDiskIsAnIoError) {
  EXPECT_THROW(write_torch_snapshot_file("/nonexistent/x.pickle", std::vector{growing()}, TorchFormat::kPickle),
               IoError);
}

// A trace must replay after the loss of any one or two events.
TEST(TorchSnapshot, LeavesOutWhatTheViewerCouldNotUndo) {
  const Snapshot whole = growing();
  std::vector<std::string> files;
  for (std::size_t i = 0; i < whole.trace.size(); ++i) {
    for (std::size_t j = i; j < whole.trace.size(); ++j) {
      Snapshot snapshot = whole;
      snapshot.trace.erase(snapshot.trace.begin() + static_cast<std::ptrdiff_t>(j));
      if (i != j) snapshot.trace.erase(snapshot.trace.begin() + static_cast<std::ptrdiff_t>(i));
      files.push_back(written({snapshot}, TorchFormat::kPickle));
    }
  }
  EXPECT_EQ(complaint(files), "");
}

TEST(TorchSnapshot, KeepsAFreeWhoseAllocIsUnknown) {
  Snapshot snapshot = growing();
  snapshot.trace = {event(Action::kFreeRequested, kBase + 2 * kMiB, 80),
                    event(Action::kFreeCompleted, kBase + 2 * kMiB, 80),
                    event(Action::kFreeRequested, kBase + 3 * kMiB, 80),  // never completed, and not pending
                    event(Action::kFreeRequested, kBase, 80),             // in use at the end
                    event(Action::kFreeCompleted, 0x5000, 80)};           // in unmapped memory
  EXPECT_THAT(actions(as_json(snapshot)), ElementsAre("free_requested", "free_completed"));
}

// Histories of the model, also from rings that have wrapped, replay unchanged.
TEST(TorchSnapshot, HistoriesOfAModelReplay) {
  std::vector<std::string> files;
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    probe::Recorder recorder({}, {.nbytes = probe::RecordOptions::kMinBytes});
    memory::testing::HistoryModel model(recorder, 1, seed);
    for (int i = 0; i < (seed % 2 == 0 ? 300 : 4000); ++i) {
      model.step();
      if (i % 150 == 149) model.keyframe();
    }
    const auto snapshots = read_history(probe::RecordFile::open(recorder.path()));
    ASSERT_EQ(model.difference(snapshots.at(0)), "");
    files.push_back(written(snapshots, TorchFormat::kPickle));
    const json exported = json::parse(written(snapshots, TorchFormat::kJson));
    EXPECT_EQ(exported.at("device_traces").at(0).size(), snapshots[0].trace.size()) << "seed " << seed;
  }
  EXPECT_EQ(complaint(files), "");
}

__attribute__((noinline)) void marked_function() { asm volatile(""); }

TEST(Symbolize, FindsFunctionsOfThisProgram) {
  if (std::system("addr2line --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "addr2line is not installed";
  std::uint64_t start = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* to) {
        *static_cast<std::uint64_t*>(to) = info->dlpi_addr;
        return 1;  // this program comes first
      },
      &start);
  const std::uint64_t at = reinterpret_cast<std::uint64_t>(&marked_function) - start;
  const std::string frame = std::filesystem::read_symlink("/proc/self/exe").string() + "+0x" + [&] {
    std::ostringstream hex;
    hex << std::hex << at;
    return hex.str();
  }();
  Snapshot snapshot;
  snapshot.trace = {event(Action::kOutOfMemory, 0, 1, "", frame.c_str()),
                    event(Action::kOutOfMemory, 0, 1, "", "/nonexistent/lib.so+0x10")};
  std::vector<std::string> notes;
  const Symbols symbols = symbolize(std::vector{snapshot}, &notes);
  ASSERT_TRUE(symbols.contains(frame)) << frame;
  EXPECT_THAT(symbols.at(frame).name, HasSubstr("marked_function"));
  EXPECT_THAT(symbols.at(frame).filename, HasSubstr("torch_snapshot_test.cpp"));
  EXPECT_GT(symbols.at(frame).line, 0u);
  EXPECT_THAT(notes, Contains(HasSubstr("/nonexistent/lib.so: No such file")));
}

TEST(Symbolize, SaysWhenThereIsNothingToDo) {
  std::vector<std::string> notes;
  EXPECT_TRUE(symbolize({}, &notes).empty());
  EXPECT_THAT(notes, ElementsAre(HasSubstr("no call stacks")));
}

}  // namespace
}  // namespace tessera::analysis
