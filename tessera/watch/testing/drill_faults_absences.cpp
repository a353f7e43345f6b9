// Absent or late ranks: stuck in host code or after other work of their stream, slow, in a replay.
#include <chrono>
#include <thread>

#include "tessera/base/probe/annotation.h"
#include "tessera/comm/symmetric.h"
#include "tessera/device/device.h"
#include "tessera/device/graph.h"
#include "tessera/memory/label.h"
#include "tessera/watch/testing/drill.h"
#include "tessera/watch/testing/ranks.h"

namespace tessera::watch {
namespace {

using namespace std::chrono_literals;
using analysis::Fault;
using comm::ProcessGroup;

// A rank does not reach an operation of the world, and stays in an annotation.
DrillFault stuck(const std::string& name, int ranks, int culprit) {
  return {.name = name,
          .ranks = ranks,
          .body =
              [culprit](WatchDrillRank& rank) {
                rank.steps(3);
                rank.begin();
                if (rank.is(culprit)) {
                  const probe::Annotation scope("checkpoint", 7);
                  be_stuck();
                }
                rank.steps(1);
              },
          .expected = {{.faults = {Fault::kAbsent}, .culprits = {culprit}, .group = "world", .words = {"checkpoint"}}},
          .deadline = kDrillDeadline};
}

void data_loader_stuck(WatchDrillRank& rank) {
  for (int step = 0; step < 6; ++step) {
    const probe::Annotation scope("step", step);
    {
      const probe::Annotation data("data", step);
      if (step == 4) rank.begin();
      if (step == 4 && rank.is(3)) be_stuck();
    }
    const memory::Label label("gradients");
    rank.run(rank.all_reduce());
  }
}

void two_stuck(WatchDrillRank& rank) {
  rank.steps(2);
  rank.begin();
  if (rank.is(1) || rank.is(4)) be_stuck();
  rank.steps(1);
}

// If `goes_on`, the ranks of the other half reach the world operation meanwhile; otherwise they end.
void stuck_in_a_subgroup(WatchDrillRank& rank, bool goes_on) {
  const bool is_low = rank.rank() < 3;
  const ProcessGroup group = rank.world.split(is_low ? 0 : 1, 0, {.name = is_low ? "low" : "high"});
  rank.steps(2);
  rank.begin();
  if (rank.is(5)) {
    const probe::Annotation scope("evaluate");
    be_stuck();
  }
  rank.run(group, rank.all_reduce());
  if (goes_on) rank.steps(1);
}

void stuck_before_a_subgroup(WatchDrillRank& rank) {
  rank.steps(2);
  rank.begin();
  if (rank.is(2)) be_stuck();
  const ProcessGroup group = rank.world.split(0, 0, {.name = "all again"});
  rank.run(group, rank.all_reduce());
}

// Until the others have given up: on a busy machine they may be late themselves.
void late(WatchDrillRank& rank) {
  rank.steps(2);
  rank.begin();
  if (rank.is(2)) {
    const probe::Annotation scope("compile");
    rank.wait_for_ready(1);
  }
  try {
    rank.steps(1);
  } catch (...) {
    rank.say_ready();
    throw;
  }
}

// Later than the others in every step, but within the deadline.
void slow(WatchDrillRank& rank, int culprit) {
  for (int step = 0; step < 12; ++step) {
    if (rank.is(culprit)) std::this_thread::sleep_for(80ms);
    rank.run(rank.all_reduce());
  }
}

DrillFault slow_stream(const std::string& name, int culprit, std::function<void(const device::Stream&)> work) {
  return {.name = name,
          .body =
              [culprit, work = std::move(work)](WatchDrillRank& rank) {
                rank.steps(3);
                rank.begin();
                if (rank.is(culprit)) {
                  const device::Stream side = device::Device::get("host").create_stream();
                  work(side);
                  rank.world.launch(rank.all_reduce(), side).wait();
                }
                rank.steps(1);
              },
          .expected = {{.faults = {Fault::kStream}, .culprits = {culprit}, .group = "world"}},
          .deadline = kDrillDeadline};
}

device::GraphExec captured(const WatchDrillRank& rank, const device::Stream& side, const std::function<void()>& body) {
  side.begin_capture();
  (void)rank.world.launch(rank.all_reduce(), side);
  side.run(body, {.label = "node of the host"});
  (void)rank.world.launch(rank.broadcast(), side);
  return side.end_capture().instantiate();
}
// The host node of the graph of rank 3 does not end in the fifth replay.
void stuck_in_a_replay(WatchDrillRank& rank) {
  const device::Stream side = device::Device::get("host").create_stream();
  int replays = 0;
  const device::GraphExec graph = captured(rank, side, [&] {
    if (++replays < 5) return;
    rank.begin();
    if (rank.is(3)) be_stuck();
  });
  for (int i = 0; i < 8; ++i) graph.launch(side);
  side.synchronize();
}
// Rank 1 does not launch the fifth replay.
void a_replay_does_not_come(WatchDrillRank& rank) {
  const device::Stream side = device::Device::get("host").create_stream();
  const device::GraphExec graph = captured(rank, side, [] {});
  for (int i = 0; i < 8; ++i) {
    if (i == 4) rank.begin();
    if (i == 4 && rank.is(1)) {
      side.synchronize();
      be_stuck();
    }
    graph.launch(side);
  }
  side.synchronize();
}
void a_replay_too_few(WatchDrillRank& rank) {
  const device::Stream side = device::Device::get("host").create_stream();
  const device::GraphExec graph = captured(rank, side, [] {});
  for (int i = 0; i < (rank.is(0) ? 4 : 5); ++i) graph.launch(side);
  rank.begin();
  side.synchronize();
  rank.steps(1);
}

// Rank 2 sets two signals, and rank 0 waits for three.
void a_signal_does_not_come(WatchDrillRank& rank) {
  const comm::SymmetricPool pool(rank.world, rank.stream, {.name = "grads", .nbytes = 4096});
  rank.steps(2);
  rank.begin();
  if (rank.is(2)) {
    for (int i = 0; i < 2; ++i) pool.put_signal(0, 1, rank.stream);
    rank.stream.synchronize();
    const probe::Annotation scope("data");
    be_stuck();
  }
  if (!rank.is(0)) return;
  for (int i = 0; i < 3; ++i) pool.wait_signal(2, 1, rank.stream);
  rank.stream.synchronize();
}

// Operations of a separate group until the record has been overwritten many times, with a few of all ranks.
void wrap_the_ring(const WatchDrillRank& rank) {
  const ProcessGroup alone = rank.world.split(rank.rank(), 0, {.name = "alone"});
  for (int step = 0; step < 20; ++step) {
    for (int i = 0; i < 500; ++i) rank.run(alone, rank.all_reduce(1));
    rank.run({.kind = comm::OpKind::kBarrier});
  }
}
void wrapped(WatchDrillRank& rank) {
  wrap_the_ring(rank);
  rank.begin();
  if (rank.is(2)) be_stuck();
  rank.run(rank.all_reduce());
}
void wrapped_and_another_size(WatchDrillRank& rank) {
  wrap_the_ring(rank);
  rank.begin();
  rank.run(rank.all_reduce(rank.is(0) ? 7 : 8));
}

}  // namespace

std::vector<DrillFault> faults_of_absences() {
  const std::vector<DrillForm> both = {DrillForm::kProcesses, DrillForm::kThreads};
  std::vector<DrillFault> faults = {
      stuck("stuck in host code", 4, 2),
      stuck("stuck in host code, rank 0", 5, 0),
      slow_stream("slow stream", 1, [](const device::Stream& side) { side.run([] { be_stuck(); }); }),
      slow_stream("slow stream of rank 0", 0, [](const device::Stream& side) { side.run([] { be_stuck(); }); }),
      slow_stream("stream that waits for a value", 3,
                  [](const device::Stream& side) {
                    static const std::uint64_t never = 0;
                    side.wait_value(&never, 1);
                  }),
  };
  const auto add = [&](const char* name, int ranks, std::function<void(WatchDrillRank&)> body, Expected expected) {
    faults.push_back({.name = name,
                      .ranks = ranks,
                      .body = std::move(body),
                      .expected = {std::move(expected)},
                      .deadline = kDrillDeadline});
  };
  add("a signal does not come", 4, a_signal_does_not_come,
      {.faults = {Fault::kAbsent}, .culprits = {2}, .words = {"waits for signal 3 on channel 1"}});
  add("data loader stuck", 4, data_loader_stuck, {.faults = {Fault::kAbsent}, .culprits = {3}, .words = {"data"}});
  add("two ranks stuck", 6, two_stuck, {.faults = {Fault::kAbsent}, .culprits = {1, 4}, .group = "world"});
  add("stuck in a subgroup and missed in the world", 6, [](WatchDrillRank& rank) { stuck_in_a_subgroup(rank, true); },
      {.faults = {Fault::kAbsent}, .culprits = {5}, .words = {"evaluate"}});
  add("stuck in a subgroup", 6, [](WatchDrillRank& rank) { stuck_in_a_subgroup(rank, false); },
      {.faults = {Fault::kAbsent}, .culprits = {5}, .group = "high", .words = {"evaluate"}});
  add("stuck before a subgroup", 4, stuck_before_a_subgroup, {.faults = {Fault::kAbsent}, .culprits = {2}});
  add("late once", 4, late, {.faults = {Fault::kAbsent, Fault::kSlow}, .culprits = {2}});
  faults.back().has_late_rank = true;
  add("stuck in a replay", 4, stuck_in_a_replay,
      {.faults = {Fault::kStream, Fault::kAbsent}, .culprits = {3}, .words = {"replay"}});
  add("a replay does not come", 4, a_replay_does_not_come, {.faults = {Fault::kAbsent}, .culprits = {1}});
  add("ring wrapped many times", 4, wrapped, {.faults = {Fault::kAbsent}, .culprits = {2}, .group = "world"});
  faults.back().record_bytes = "256KiB";
  faults.push_back({.name = "ring wrapped and another size",
                    .body = wrapped_and_another_size,
                    .expected = {{.faults = {Fault::kMismatch}, .culprits = {0}, .group = "world"}},
                    .forms = both,
                    .record_bytes = "256KiB"});
  faults.push_back({.name = "a replay too few",
                    .body = a_replay_too_few,
                    .expected = {{.faults = {Fault::kMismatch}, .culprits = {0}}},
                    .forms = both});
  for (const int culprit : {2, 0}) {
    faults.push_back({.name = culprit == 2 ? "slow rank" : "slow rank 0",
                      .ranks = 4 + culprit,
                      .body = [culprit](WatchDrillRank& rank) { slow(rank, culprit); },
                      .expected = {{.faults = {Fault::kSlow, Fault::kNone}, .culprits = {culprit}}},
                      .is_told_at_the_end = true});
  }
  return faults;
}

}  // namespace tessera::watch
