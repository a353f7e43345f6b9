// The record of a rank's groups: all operations with their states, and tables that keep them after the ring wraps.
#include "tessera/comm/records.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <stdexcept>
#include <thread>

#include "tessera/base/probe/recorder.h"
#include "tessera/base/rank.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/communicator.h"
#include "tessera/comm/detail/group_state.h"
#include "tessera/comm/process_group.h"
#include "tessera/comm/store/store.h"
#include "tessera/comm/world.h"
#include "tessera/device/device.h"
#include "tessera/device/graph.h"
#include "tessera/memory/label.h"

namespace tessera::comm {
namespace {

using namespace std::chrono_literals;

probe::RecordFile own_record() { return probe::RecordFile::open(probe::recorder().path()); }

// Returns the lines without durations, which vary.
std::vector<std::string> texts(const probe::RecordFile& file) {
  std::vector<std::string> lines;
  for (const probe::RecordRef& ref : file.records()) {
    const auto text = text_of_record(file, ref);
    if (!text) continue;
    const std::size_t took = text->find("), ");
    lines.push_back(text->ends_with(" after all ranks arrived") ? text->substr(0, took + 1) + " met" : *text);
  }
  return lines;
}

// Returns the number in a field of a row.
std::uint64_t number_in(const probe::RowInfo& row, std::string_view field) {
  const probe::Field* found = row.find(field);
  if (found == nullptr) throw std::runtime_error("no field " + std::string(field));
  if (const auto* number = std::get_if<std::int64_t>(&found->value)) return static_cast<std::uint64_t>(*number);
  return std::get<std::uint64_t>(found->value);
}
std::string text_in(const probe::RowInfo& row, std::string_view field) {
  return probe::to_string(row.find(field)->value);
}
// Returns the rows of the first group that hold an operation, by launch and index in it.
std::vector<probe::RowInfo> asked_rows(const probe::RecordFile& file) {
  std::vector<probe::RowInfo> rows;
  for (const probe::RowInfo& row : file.find_table("comm_asked")->claimed) {
    if (number_in(row, "group") == 1 && number_in(row, "task") != 0) rows.push_back(row);
  }
  std::ranges::sort(
      rows, {}, [](const probe::RowInfo& row) { return std::pair(number_in(row, "task"), number_in(row, "place")); });
  return rows;
}

template <class Kind>
std::vector<Kind> all_of(const probe::RecordFile& file) {
  std::vector<Kind> found;
  for (const probe::RecordRef& ref : file.records()) {
    if (const auto record = file.as<Kind>(ref)) found.push_back(*record);
  }
  return found;
}

TEST(CommRecords, TellOfEveryOperationWhatWhenAndHowItEnded) {
  simulate(2, [] {
    const device::Device host = device::Device::get("host");
    const device::Stream stream = host.default_stream();
    float x[64] = {};
    const memory::Label label("step");
    world().all_reduce(x, x, 64, DType::kF32, {Reduction::kMax}, stream).wait();
    const Operation message{.kind = world().rank() == 0 ? OpKind::kSend : OpKind::kRecv,
                            .dtype = DType::kF32,
                            .peer = 1 - world().rank(),
                            .in = reinterpret_cast<const std::byte*>(x),
                            .out = reinterpret_cast<std::byte*>(x),
                            .count = 3};
    const Operation batch[] = {message, {.kind = OpKind::kBarrier}};
    world().launch(batch, stream).wait();
    const probe::RecordFile file = own_record();
    const std::string where = " enqueued on host stream " + std::to_string(stream.id().value()) + ", label step";
    const std::string text = world().rank() == 0 ? "send(f32[3], to 1)" : "recv(f32[3], from 0)";
    EXPECT_EQ(texts(file), (std::vector<std::string>{
                               "world: launch 1, all_reduce(f32[64], max)" + where,
                               "world: #1 all_reduce(f32[64], max) started (launch 1, collective 1)",
                               "world: #1 finished (launch 1) met",
                               "world: launch 2, " + text + where,
                               "world: launch 2, barrier" + where,
                               "world: #2 barrier and 1 more started (launch 2, collective 2)",
                               "world: #2 finished (launch 2) met",
                           }));
    EXPECT_EQ(text_of_groups(file),
              std::vector<std::string>{"world (ranks 0-1, thread, this is " + std::to_string(world().rank()) +
                                       " of 2): 2 enqueued, the last " + text +
                                       " and 1 more; ran #2 barrier and 1 more (collective 2)"});
  });
}

TEST(CommRecords, UnevenPartsHaveADigest) {
  simulate(2, [] {
    const device::Stream stream = device::Device::get("host").default_stream();
    float in[2] = {};
    float out[3] = {};
    const std::int64_t counts[] = {1, 2};
    world().all_gather(in, out, counts, DType::kF32, stream).wait();
    world().all_gather(in, out, 1, DType::kF32, stream).wait();
    const auto asked = all_of<OperationRecord>(own_record());
    ASSERT_EQ(asked.size(), 2U);
    EXPECT_NE(asked[0].parts, 0U);
    EXPECT_EQ(asked[0].count, counts[world().rank()]) << "its own part, not 0";
    EXPECT_EQ(asked[1].parts, 0U);
  });
}

TEST(CommRecords, AReplayBeginsAndEndsWhatWasAskedForOnce) {
  const RankScope scope(std::make_shared<RankContext>(RankPlace{}));
  const device::Stream stream = device::Device::get("host").create_stream();
  float x = 1;
  stream.begin_capture();
  (void)world().all_reduce(&x, &x, 1, DType::kF32, {}, stream);
  const device::GraphExec graph = stream.end_capture().instantiate();
  for (int i = 0; i < 3; ++i) graph.launch(stream);
  stream.synchronize();
  const probe::RecordFile file = own_record();
  EXPECT_EQ(all_of<OperationRecord>(file).size(), 1U);
  const auto ended = all_of<EndRecord>(file);
  ASSERT_EQ(ended.size(), 3U);
  const auto begun = all_of<BeginRecord>(file);
  ASSERT_EQ(begun.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(ended[i].sequence, i + 1);
    EXPECT_EQ(ended[i].task, 1U);
    EXPECT_EQ(begun[i].collective_number, i + 1);
  }
}

// So that a hang inside a replay names the node.
TEST(CommRecords, AReplaySaysWhichItIsAndWhichNodeRuns) {
  const RankScope scope(std::make_shared<RankContext>(RankPlace{}));
  const device::Stream stream = device::Device::get("host").create_stream();
  float x = 1;
  const auto captured = [&] {
    stream.begin_capture();
    stream.run([] {});
    (void)world().all_reduce(&x, &x, 1, DType::kF32, {}, stream);
    stream.run([] {});
    (void)world().launch({.kind = OpKind::kBarrier}, stream);
    return stream.end_capture().instantiate();
  };
  const device::GraphExec first = captured();
  const device::GraphExec second = captured();
  first.launch(stream);
  second.launch(stream);
  first.launch(stream);
  world().launch({.kind = OpKind::kBarrier}, stream).wait();
  const probe::RecordFile file = own_record();
  const auto replays = all_of<ReplayRecord>(file);
  ASSERT_EQ(replays.size(), 6U);  // none for the operation outside a graph
  EXPECT_EQ(all_of<BeginRecord>(file).size(), 7U);
  const std::uint64_t expected[] = {1, 1, 2};
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(replays[i].sequence, i + 1);
    EXPECT_EQ(replays[i].replay, expected[i / 2]);
    EXPECT_EQ(replays[i].node, i % 2 == 0 ? 2U : 4U);
    EXPECT_EQ(replays[i].task, (i / 2 == 1 ? 2U : 0U) + i % 2 + 1);
  }
  EXPECT_EQ(replays[0].graph, replays[4].graph);
  EXPECT_NE(replays[0].graph, replays[2].graph);
  const std::string graph = std::to_string(replays[4].graph);
  EXPECT_EQ(std::ranges::count(texts(file), "world: #5 is node 2 in replay 2 of graph " + graph + " (launch 1)"), 1);
  EXPECT_EQ(text_of_groups(file)[0].find("replay"), std::string::npos);  // the last operation was not in a replay
  first.launch(stream);
  stream.synchronize();
  EXPECT_NE(text_of_groups(own_record())[0].find("barrier (collective 9), node 4 in replay 3 of graph " + graph),
            std::string::npos)
      << text_of_groups(own_record())[0];
}

// Ranks that also exchange messages have equal collective numbers.
TEST(CommRecords, CollectivesAreCountedAlikeAndMessagesByPeerAndDirection) {
  simulate(3, [] {
    const device::Stream stream = device::Device::get("host").default_stream();
    float x = 0;
    float got = 0;  // outside memory that a peer may still read
    const auto message = [&](OpKind kind, int peer) {
      return Operation{.kind = kind,
                       .dtype = DType::kF32,
                       .peer = peer,
                       .in = reinterpret_cast<const std::byte*>(&x),
                       .out = reinterpret_cast<std::byte*>(&got),
                       .count = 1};
    };
    const int rank = world().rank();
    world().launch({.kind = OpKind::kBarrier}, stream).wait();
    if (rank == 0) {
      world().launch(message(OpKind::kSend, 1), stream).wait();
      const Operation both[] = {message(OpKind::kSend, 1), message(OpKind::kRecv, 1)};
      world().launch(both, stream).wait();
      world().launch(message(OpKind::kRecv, 1), stream).wait();
      world().launch(message(OpKind::kSend, 2), stream).wait();
    } else if (rank == 1) {
      world().launch(message(OpKind::kRecv, 0), stream).wait();
      const Operation both[] = {message(OpKind::kRecv, 0), message(OpKind::kSend, 0)};
      world().launch(both, stream).wait();
      world().launch(message(OpKind::kSend, 0), stream).wait();
    } else {
      world().launch(message(OpKind::kRecv, 0), stream).wait();
    }
    world().all_reduce(&x, &x, 1, DType::kF32, {}, stream).wait();
    const probe::RecordFile file = own_record();
    const auto begun = all_of<BeginRecord>(file);
    std::vector<std::uint64_t> collective_numbers;
    for (const BeginRecord& record : begun) collective_numbers.push_back(record.collective_number);
    const std::vector<std::uint64_t> expected[] = {{1, 1, 2, 2, 1, 2}, {1, 1, 2, 2, 2}, {1, 1, 2}};
    EXPECT_EQ(collective_numbers, expected[rank]) << rank;
    EXPECT_EQ(begun.back().sequence, begun.size());
    const probe::RowInfo& running = file.find_table("comm_running")->claimed[0];
    EXPECT_EQ(number_in(running, "collective_number"), 2U);
    EXPECT_EQ(number_in(running, "collectives_begun"), 2U);
    EXPECT_EQ(number_in(running, "collectives_ended"), 2U);
    // Each met its peer after it started and before it ended.
    for (const EndRecord& ended : all_of<EndRecord>(file)) EXPECT_NE(ended.met.value(), 0U) << ended.sequence;
  });
}

TEST(CommRecords, AFailureIsToldWithItsKind) {
  simulate(2, [] {
    const device::Stream stream = device::Device::get("host").default_stream();
    world().set_deadline(50ms);
    if (world().rank() == 0) {
      expect_error<TimeoutError>([&] { world().launch({.kind = OpKind::kBarrier}, stream).wait(); }, {"rank 1"});
      stream.reset_error();
      EXPECT_EQ(texts(own_record()).back(), "world: #1 failed: timeout (launch 1)");
      EXPECT_EQ(all_of<EndRecord>(own_record()).back().met.value(), 0U);
      EXPECT_EQ(number_in(own_record().find_table("comm_running")->claimed[0], "collectives_ended"), 1U);
      EXPECT_NE(text_of_groups(own_record())[0].find("; #1 failed"), std::string::npos);
      store()->set("over", "");
    }
    (void)store()->get("over", 20s);
  });
}

// While it waits for a peer, the tables contain the operation in flight.
TEST(CommRecords, WhatIsInFlightStandsInTheTables) {
  simulate(2, [] {
    const device::Stream side = device::Device::get("host").create_stream();
    if (world().rank() == 0) {
      const Work first = world().launch({.kind = OpKind::kBarrier}, side);
      float x = 0;
      const Work second = world().all_reduce(&x, &x, 1, DType::kF32, {}, side);
      while (first.sequence() == 0) std::this_thread::yield();
      // Its number is visible a moment before its row.
      while (text_of_groups(own_record())[0].find("runs #1 barrier") == std::string::npos) std::this_thread::yield();
      const probe::RecordFile file = own_record();
      EXPECT_NE(text_of_groups(file)[0].find("2 enqueued, the last all_reduce(f32[1], sum)"), std::string::npos);
      EXPECT_EQ(text_of_groups(file)[0].find("all ranks arrived"), std::string::npos);
      const probe::RowInfo& running = file.find_table("comm_running")->claimed[0];
      EXPECT_EQ(number_in(running, "met"), 0U);
      EXPECT_EQ(number_in(running, "collectives_begun"), 1U);
      EXPECT_EQ(number_in(running, "collectives_ended"), 0U);
      store()->set("seen", "");
      second.wait();
    } else {
      (void)store()->get("seen", 20s);
      world().launch({.kind = OpKind::kBarrier}, side);
      float x = 0;
      world().all_reduce(&x, &x, 1, DType::kF32, {}, side).wait();
    }
    EXPECT_EQ(text_of_groups(own_record())[0].find("runs"), std::string::npos);
  });
}

// Distinguishes a hang during a transfer from a wait for a peer.
TEST(CommRecords, TheRowOfWhatRunsSaysWhetherAllHaveCome) {
  const RankScope scope(std::make_shared<RankContext>(RankPlace{}));
  const ProcessGroup group = world();
  detail::GroupRecord& record = group.state()->record;
  const Operation operation{.kind = OpKind::kBarrier};
  Task task;
  task.operations = std::span(&operation, 1);
  const auto now = [] { return probe::recorder().now().value(); };
  task.number = record.next_number();
  record.asked(task, device::Device::get("host").default_stream());
  task.sequence = 1;
  record.began(task, now());
  EXPECT_TRUE(text_of_groups(own_record())[0].ends_with("; runs #1 barrier (collective 1)"));
  record.met(task);
  const probe::RecordFile file = own_record();
  EXPECT_TRUE(text_of_groups(file)[0].ends_with("; runs #1 barrier (collective 1), all ranks arrived"));
  const probe::RowInfo& row = file.find_table("comm_running")->claimed[0];
  EXPECT_GE(number_in(row, "met"), number_in(row, "when"));
  record.ended(task, now());
  EXPECT_NE(all_of<EndRecord>(own_record()).back().met.value(), 0U);
  // The ranks of the next one have not arrived.
  task.sequence = 2;
  record.began(task, now());
  EXPECT_EQ(number_in(own_record().find_table("comm_running")->claimed[0], "met"), 0U);
  record.ended(task, now());
  EXPECT_EQ(all_of<EndRecord>(own_record()).back().met.value(), 0U);
}

// With all fields of their records, in rows that are reused in turn.
TEST(CommRecords, TheLastOperationsAskedForOutliveTheirRing) {
  const RankScope scope(std::make_shared<RankContext>(RankPlace{}));
  probe::open_recorder(*current_rank(), {.nbytes = probe::RecordOptions::kMinBytes});
  const device::Stream stream = device::Device::get("host").default_stream();
  const int all[] = {0};
  std::vector<float> x(100);
  const ProcessGroup group = world();
  for (int i = 1; i <= 100; ++i) {
    const memory::Label label(i % 2 == 0 ? "even" : "odd");
    group.all_reduce(x.data(), x.data(), i, DType::kF32, {Reduction::kMax}, stream);
  }
  const ProcessGroup other = world().subgroup(all, {.name = "other"});
  for (int i = 0; i < 5000; ++i) other.launch({.kind = OpKind::kBarrier}, stream);
  const probe::RecordFile file = own_record();
  for (const std::string& text : texts(file)) EXPECT_EQ(text.find("world"), std::string::npos);
  const auto rows = asked_rows(file);
  ASSERT_GE(rows.size(), 8U);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const probe::RowInfo& row = rows[i];
    const std::uint64_t number = 100 - rows.size() + 1 + i;
    EXPECT_EQ(number_in(row, "task"), number);
    EXPECT_EQ(number_in(row, "count"), number);
    EXPECT_EQ(text_in(row, "label"), number % 2 == 0 ? "even" : "odd");
    EXPECT_EQ(text_in(row, "device"), "host");
    EXPECT_EQ(number_in(row, "stream"), stream.id().value());
    EXPECT_EQ(number_in(row, "thread"), static_cast<std::uint64_t>(::gettid()));
    EXPECT_EQ(number_in(row, "reduction"), static_cast<std::uint64_t>(Reduction::kMax));
    EXPECT_EQ(number_in(row, "operations"), 1U);
    EXPECT_NE(number_in(row, "when"), 0U);
  }
}

TEST(CommRecords, EachOperationOfALaunchHasItsRow) {
  simulate(2, [] {
    const device::Stream stream = device::Device::get("host").default_stream();
    float in[2] = {};
    float out[3] = {};
    const Operation batch[] = {{.kind = OpKind::kBarrier},
                               {.kind = OpKind::kAllGather,
                                .dtype = DType::kF32,
                                .in = reinterpret_cast<const std::byte*>(in),
                                .out = reinterpret_cast<std::byte*>(out),
                                .out_counts = {1, 2}},
                               {.kind = world().rank() == 0 ? OpKind::kSend : OpKind::kRecv,
                                .dtype = DType::kF32,
                                .peer = 1 - world().rank(),
                                .in = reinterpret_cast<const std::byte*>(in),
                                .out = reinterpret_cast<std::byte*>(out),
                                .count = 1}};
    world().launch(batch, stream).wait();
    const auto rows = asked_rows(own_record());
    ASSERT_EQ(rows.size(), 3U);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(number_in(rows[i], "task"), 1U);
      EXPECT_EQ(number_in(rows[i], "place"), i);
      EXPECT_EQ(number_in(rows[i], "kind"), static_cast<std::uint64_t>(batch[i].kind));
      EXPECT_EQ(number_in(rows[i], "operations"), 3U);
    }
    EXPECT_NE(number_in(rows[1], "parts"), 0U);
    EXPECT_EQ(number_in(rows[2], "parts"), 0U);
    EXPECT_EQ(number_in(rows[2], "root"), static_cast<std::uint64_t>(1 - world().rank()));
  });
}

// Many groups share the rows; each has at least one.
TEST(CommRecords, EveryOneOfManyGroupsHasARowForItsLastOperation) {
  const RankScope scope(std::make_shared<RankContext>(RankPlace{}));
  probe::open_recorder(*current_rank(), {.nbytes = 4 << 20});
  const device::Stream stream = device::Device::get("host").default_stream();
  const int all[] = {0};
  std::vector<ProcessGroup> groups;
  for (std::uint32_t i = 0; i < CommGroupRow::kRows; ++i) groups.push_back(world().subgroup(all));
  groups.pop_back();  // the world is one of them
  for (const ProcessGroup& group : groups) group.launch({.kind = OpKind::kBarrier}, stream);
  std::size_t with_one = 0;
  for (const std::string& line : text_of_groups(own_record())) {
    with_one += line.find(": 1 enqueued, the last barrier") != std::string::npos ? 1 : 0;
  }
  EXPECT_EQ(with_one, groups.size());
}

TEST(CommRecords, TheTablesOutliveARingThatWentRound) {
  const RankScope scope(std::make_shared<RankContext>(RankPlace{}));
  probe::open_recorder(*current_rank(), {.nbytes = probe::RecordOptions::kMinBytes});
  const device::Stream stream = device::Device::get("host").default_stream();
  const int all[] = {0};
  const ProcessGroup other = world().subgroup(all, {.name = "other"});
  float x = 0;
  world().launch({.kind = OpKind::kBarrier}, stream).wait();
  for (int i = 0; i < 5000; ++i) other.all_reduce(&x, &x, 1, DType::kF32, {}, stream);
  const probe::RecordFile file = own_record();
  for (const std::string& text : texts(file)) EXPECT_EQ(text.find("world"), std::string::npos);
  const std::vector<std::string> groups = text_of_groups(file);
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_NE(
      groups[0].find("world (ranks 0, thread, this is 0 of 1): 1 enqueued, the last barrier; ran #1 barrier (col"),
      std::string::npos)
      << groups[0];
  EXPECT_NE(groups[1].find("5000 enqueued"), std::string::npos) << groups[1];
}

// A group may outlive its rank and its record; a destroyed group frees its row.
TEST(CommRecords, GroupsAndRanksEndInAnyOrder) {
  ProcessGroup kept;
  {
    const RankScope scope(std::make_shared<RankContext>(RankPlace{}));
    kept = world();
    const int all[] = {0};
    for (int i = 0; i < 300; ++i) (void)kept.subgroup(all);
    EXPECT_EQ(text_of_groups(own_record()).size(), 1U);
    EXPECT_EQ(own_record().find_table("comm_group")->refused, 0U);
  }
  const RankScope scope(std::make_shared<RankContext>(RankPlace{}));
  EXPECT_EQ(kept.name(), "world");
}

TEST(CommRecords, NothingIsRecordedWhereRecordingIsOff) {
  const RankScope scope(std::make_shared<RankContext>(RankPlace{}));
  probe::open_recorder(*current_rank(), {.is_on = false});
  float x = 1;
  world().all_reduce(&x, &x, 1, DType::kF32, {}, device::Device::get("host").default_stream()).wait();
  EXPECT_EQ(x, 1);
  EXPECT_EQ(probe::recorder().path(), "");
}

}  // namespace
}  // namespace tessera::comm
