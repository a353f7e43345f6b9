// Records of launches in their ring.
#include "tessera/device/launch_records.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/base/probe/reader.h"
#include "tessera/base/probe/recorder.h"
#include "tessera/base/rank.h"
#include "tessera/device/device.h"
#include "tessera/device/graph.h"
#include "tessera/device/host/host_device.h"
#include "tessera/device/replay.h"

namespace tessera::device {
namespace {

probe::RecordFile own_record() { return probe::RecordFile::open(probe::recorder().path()); }
std::shared_ptr<RankContext> lone_rank() { return std::make_shared<RankContext>(RankPlace{}); }

template <class Kind>
std::vector<Kind> all_of(const probe::RecordFile& file) {
  std::vector<Kind> found;
  for (const probe::RecordRef& ref : file.records()) {
    if (const auto record = file.as<Kind>(ref)) found.push_back(*record);
  }
  return found;
}
std::vector<std::string> labels(const probe::RecordFile& file) {
  std::vector<std::string> found;
  for (const LaunchRecord& launch : all_of<LaunchRecord>(file)) found.push_back(file.string(launch.label));
  return found;
}

TEST(LaunchRecords, TellOfEveryLaunchItsLabelItsStreamAndItsTick) {
  const RankScope rank(lone_rank());
  const Stream stream = Device::get("host").create_stream();
  int x[4] = {};
  int y[4] = {};
  stream.run([] {}, {.label = "first"});
  const Tick tick = stream.stamp();
  stream.copy(y, x, sizeof x, "copied");
  stream.fill(x, 0, 4, 4, "filled");
  stream.run([] {});
  stream.synchronize();
  const probe::RecordFile file = own_record();
  EXPECT_EQ(labels(file), (std::vector<std::string>{"first", "copied", "filled", "(no label)"}));
  const auto launches = all_of<LaunchRecord>(file);
  for (std::size_t i = 0; i < launches.size(); ++i) {
    EXPECT_EQ(launches[i].number, i + 1);
    EXPECT_EQ(launches[i].stream, stream.id().value());
    EXPECT_EQ(file.string(launches[i].device), "host");
    EXPECT_EQ(launches[i].replay, 0U);
  }
  EXPECT_LT(launches[0].tick, tick.value());
  EXPECT_EQ(launches[1].tick, tick.value());
  EXPECT_TRUE(all_of<LaunchEndRecord>(file).empty());
}

// Labels are cached by address, but the text at an address may change.
TEST(LaunchRecords, ALabelThatIsMadeAnewInTheSamePlaceIsToldAnew) {
  const RankScope rank(lone_rank());
  const Stream stream = Device::get("host").default_stream();
  char label[] = "one";
  stream.run([] {}, {.label = label});
  std::copy_n("two", 3, label);
  stream.run([] {}, {.label = label});
  stream.run([] {}, {.label = std::string_view(label, 2)});
  const std::string longer(300, 'x');
  stream.run([] {}, {.label = longer});
  EXPECT_EQ(labels(own_record()), (std::vector<std::string>{"one", "two", "tw", longer}));
}

TEST(LaunchRecords, AReplayIsOneLaunchAndSaysWhichItIs) {
  const RankScope rank(lone_rank());
  const Stream stream = Device::get("host").create_stream();
  stream.begin_capture();
  stream.run([] {}, {.label = "inside"});
  const Graph graph = stream.end_capture();
  EXPECT_TRUE(labels(own_record()).empty());  // captured work is not launched
  const GraphExec first = graph.instantiate();
  const GraphExec second = graph.instantiate();
  first.launch(stream);
  second.launch(stream);
  first.launch(stream);
  stream.synchronize();
  const probe::RecordFile file = own_record();
  EXPECT_EQ(labels(file), (std::vector<std::string>{"graph", "graph", "graph"}));
  const auto launches = all_of<LaunchRecord>(file);
  EXPECT_EQ(launches[0].replay, 1U);
  EXPECT_EQ(launches[1].replay, 1U);
  EXPECT_EQ(launches[2].replay, 2U);
  EXPECT_EQ(launches[0].graph, launches[2].graph);
  EXPECT_NE(launches[0].graph, launches[1].graph);
}

// Serially, concurrently on several threads, and in the order of a seed.
TEST(LaunchRecords, WorkInAReplayKnowsItsNodeHoweverItIsReplayed) {
  const auto run = [](const Device& device, InstantiateOptions::Parallel parallel) {
    const Stream stream = device.create_stream();
    const Stream side = device.create_stream();
    const Event event = device.create_event();
    std::vector<RunningNode> seen(4);
    stream.begin_capture();
    stream.run([&] { seen[0] = running_node(); });
    stream.record(event);
    side.wait(event);
    stream.run([&] { seen[1] = running_node(); });
    side.run([&] { seen[2] = running_node(); });
    side.record(event);
    stream.wait(event);
    stream.run([&] { seen[3] = running_node(); });
    const Graph graph = stream.end_capture();
    std::vector<std::uint64_t> hosts;
    for (const NodeInfo& node : graph.nodes()) {
      if (node.kind == NodeKind::kHost) hosts.push_back(node.id.value());
    }
    const GraphExec exec = graph.instantiate({.parallel = parallel});
    for (std::uint64_t replay = 1; replay <= 3; ++replay) {
      exec.launch(stream);
      RunningNode outside{.replay = 9};
      stream.run([&] { outside = running_node(); });
      stream.synchronize();
      EXPECT_EQ(outside.replay, 0U);
      std::vector<std::uint64_t> nodes;
      for (const RunningNode& each : seen) {
        EXPECT_EQ(each.replay, replay);
        EXPECT_EQ(each.graph, seen[0].graph);
        nodes.push_back(each.node);
      }
      std::ranges::sort(nodes);
      EXPECT_EQ(nodes, hosts);
    }
  };
  run(host::make_host_device(), InstantiateOptions::Parallel::kNever);
  run(host::make_host_device(), InstantiateOptions::Parallel::kAlways);
  run(host::make_host_device({.mode = host::Mode::kSeeded, .seed = 7}), InstantiateOptions::Parallel::kAuto);
}

// Nodes of a nested graph count as the outer node.
TEST(LaunchRecords, WorkInAGraphInsideAGraphIsItsNode) {
  const Device device = host::make_host_device();
  const Stream stream = device.create_stream();
  RunningNode seen;
  stream.begin_capture();
  stream.run([] {});
  stream.run([&] { seen = running_node(); });
  const GraphExec inner = stream.end_capture().instantiate();
  stream.begin_capture();
  stream.run([] {});
  stream.run([] {});
  inner.launch(stream);
  const GraphExec outer = stream.end_capture().instantiate();
  outer.launch(stream);
  stream.synchronize();
  EXPECT_EQ(seen.replay, 1U);
  EXPECT_EQ(seen.node, 3U);
}

TEST(LaunchRecords, InsideAProfileWindowEndsAreRecordedToo) {
  const RankScope rank(lone_rank());
  const Stream stream = Device::get("host").create_stream();
  stream.run([] {}, {.label = "before"});
  {
    const ProfileWindow window;
    EXPECT_TRUE(ProfileWindow::is_open());
    stream.run([] {}, {.label = "inside"});
    int x = 0;
    stream.fill(&x, 0, 4, 1, "filled");
    stream.synchronize();
  }
  EXPECT_FALSE(ProfileWindow::is_open());
  stream.run([] {}, {.label = "after"});
  stream.synchronize();
  const probe::RecordFile file = own_record();
  EXPECT_EQ(labels(file), (std::vector<std::string>{"before", "inside", "filled", "after"}));
  const auto ends = all_of<LaunchEndRecord>(file);
  ASSERT_EQ(ends.size(), 2U);
  EXPECT_EQ(ends[0].number, 2U);
  EXPECT_EQ(ends[1].number, 3U);
  EXPECT_EQ(ends[0].stream, stream.id().value());
  EXPECT_EQ(file.string(ends[0].device), "host");
  EXPECT_EQ(ends[0].begun_ns, ends[0].ended_ns);
  EXPECT_LE(ends[0].when, ends[1].when);
}

TEST(LaunchRecords, InsideAProfileWindowItIsRecordedWhenAWaitForAnotherStreamIsOver) {
  const RankScope rank(lone_rank());
  const Stream stream = Device::get("host").create_stream();
  const Stream other = Device::get("host").create_stream();
  const Event event = Device::get("host").create_event();
  const ProfileWindow window;
  stream.run([] {}, {.label = "before"});
  other.run([] {}, {.label = "awaited"});
  other.record(event);
  stream.wait(event);
  stream.synchronize();
  other.synchronize();
  std::optional<LaunchEndRecord> waited;
  std::optional<LaunchEndRecord> awaited;
  for (const LaunchEndRecord& each : all_of<LaunchEndRecord>(own_record())) {
    if (each.number == 0) waited = each;
    if (each.stream == other.id().value()) awaited = each;
  }
  ASSERT_TRUE(waited && awaited);
  EXPECT_EQ(waited->stream, stream.id().value());
  EXPECT_GE(waited->when, awaited->when) << "not before what it waited for";
}

// Streams, ranks and their records end in any order, and a stream moves between ranks.
TEST(LaunchRecords, AStreamMayOutliveTheRecordThatItLaunchedFor) {
  const Device device = host::make_host_device();
  const Stream stream = device.create_stream();
  for (int i = 0; i < 3; ++i) {
    const RankScope rank(lone_rank());
    stream.run([] {}, {.label = "mine"});
    stream.run([] {}, {.label = "mine"});
    stream.synchronize();
    EXPECT_EQ(labels(own_record()), (std::vector<std::string>{"mine", "mine"}));
  }
}

TEST(LaunchRecords, OutsideOfWindowsTheyCanBeLeftOut) {
  record_launches(false);
  {
    const RankScope rank(lone_rank());
    const Stream stream = Device::get("host").create_stream();
    stream.run([] {}, {.label = "unseen"});
    {
      const ProfileWindow window;
      stream.run([] {}, {.label = "seen"});
    }
    stream.run([] {}, {.label = "unseen again"});
    stream.synchronize();
    EXPECT_EQ(labels(own_record()), (std::vector<std::string>{"seen"}));
  }
  record_launches(true);
}

TEST(LaunchRecords, NothingIsRecordedWhereRecordingIsOff) {
  const RankScope rank(lone_rank());
  probe::open_recorder(*current_rank(), {.is_on = false});
  bool has_run = false;
  const Stream stream = Device::get("host").default_stream();
  const ProfileWindow window;
  stream.run([&] { has_run = true; }, {.label = "unseen"});
  stream.synchronize();
  EXPECT_TRUE(has_run);
  EXPECT_EQ(probe::recorder().path(), "");
}

}  // namespace
}  // namespace tessera::device
