// Ranks that end: killed before, in and after operations, by a signal or their own error, stopped, out of memory,
// without a record; and two together.
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <thread>

#include "tessera/base/error.h"
#include "tessera/base/probe/annotation.h"
#include "tessera/device/device.h"
#include "tessera/memory/allocator.h"
#include "tessera/memory/label.h"
#include "tessera/watch/testing/drill.h"
#include "tessera/watch/testing/ranks.h"

namespace tessera::watch {
namespace {

using analysis::Fault;

const std::vector<DrillForm> kBoth = {DrillForm::kProcesses, DrillForm::kThreads};

// A rank receives a signal between two operations.
DrillFault signalled(const std::string& name, int ranks, int culprit, int signal, Fault fault) {
  return {.name = name,
          .ranks = ranks,
          .body =
              [culprit, signal](WatchDrillRank& rank) {
                rank.steps(3);
                if (rank.is(culprit) || signal == SIGSTOP) rank.begin();
                if (rank.is(culprit)) ::raise(signal);
                rank.steps(1);
              },
          .expected = {{.faults = {fault}, .culprits = {culprit}}},
          .deadline = signal == SIGSTOP ? kDrillDeadline : std::chrono::nanoseconds(0)};
}

// Rank 1 dies in an operation with all ranks but rank 3.
void killed_during(WatchDrillRank& rank) {
  rank.steps(2);
  if (rank.is(3)) {
    rank.wait_for_ready(4);
    rank.run(rank.all_reduce());
    return;
  }
  const device::Stream side = device::Device::get("host").create_stream();
  const comm::Work work = rank.world.launch(rank.all_reduce(), side);
  while (work.sequence() == 0) std::this_thread::yield();
  rank.say_ready();
  if (rank.is(1)) {
    rank.wait_for_ready(3);
    rank.begin();
    rank.say_ready();
    ::raise(SIGKILL);
  }
  work.wait();
}

void killed_after_all(WatchDrillRank& rank) {
  rank.steps(3);
  if (rank.is(2)) {
    rank.begin();
    ::raise(SIGKILL);
  }
}

void throws(WatchDrillRank& rank, int culprit) {
  rank.steps(3);
  if (rank.is(culprit)) {
    rank.begin();
    const probe::Annotation scope("loss");
    throw std::runtime_error("the loss is not a number");
  }
  rank.steps(1);
}
void throws_and_nobody_catches(WatchDrillRank& rank) {
  rank.steps(3);
  if (rank.is(1)) {
    rank.begin();
    std::thread([] { throw std::runtime_error("the shard is corrupt"); }).join();
  }
  rank.steps(1);
}
void throws_in_teardown(WatchDrillRank& rank) {
  rank.steps(3);
  if (rank.is(3)) {
    rank.begin();
    std::atexit([] { std::thread([] { throw std::runtime_error("the log cannot be closed"); }).join(); });
    std::exit(0);
  }
}
void exits_with_an_error(WatchDrillRank& rank) {
  rank.steps(3);
  rank.run({.kind = comm::OpKind::kBarrier});
  if (rank.is(2)) {
    rank.begin();
    std::exit(3);
  }
}
void leaves_early(WatchDrillRank& rank) {
  rank.steps(3);
  rank.begin();
  if (!rank.is(2)) rank.steps(1);
}

void out_of_memory(WatchDrillRank& rank, int culprit) {
  rank.steps(2);
  if (rank.is(culprit)) {
    rank.begin();
    const memory::Allocator memory = memory::Allocator::of(device::Device::get("host"));
    memory.set_limit(std::size_t{16} << 20);
    const memory::Label label("activations");
    (void)memory.allocate(std::size_t{1} << 30, rank.stream);
  }
  rank.steps(1);
}

// Removes the record of this rank from the run directory.
void lose_record(const WatchDrillRank& rank) {
  const std::string prefix = "rank-" + std::to_string(rank.rank()) + ".";
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(rank.run_dir())) {
    if (entry.path().filename().string().rfind(prefix, 0) == 0) paths.push_back(entry.path());
  }
  for (const std::filesystem::path& path : paths) std::filesystem::remove(path);
}
void stuck_without_record(WatchDrillRank& rank) {
  rank.steps(3);
  if (rank.is(3)) lose_record(rank);
  rank.run({.kind = comm::OpKind::kBarrier});
  rank.begin();
  if (rank.is(3)) be_stuck();
  rank.steps(1);
}
void stuck_and_another_without_record(WatchDrillRank& rank) {
  rank.steps(3);
  if (rank.is(3)) lose_record(rank);
  rank.run({.kind = comm::OpKind::kBarrier});
  rank.begin();
  if (rank.is(1)) be_stuck();
  rank.steps(1);
}
void other_size_and_another_without_record(WatchDrillRank& rank) {
  rank.steps(3);
  if (rank.is(2)) lose_record(rank);
  rank.run({.kind = comm::OpKind::kBarrier});
  rank.begin();
  rank.run(rank.all_reduce(rank.is(0) ? 10 : 11));
}

void stopped_and_stuck(WatchDrillRank& rank) {
  rank.steps(2);
  rank.begin();
  if (rank.is(1)) ::raise(SIGSTOP);
  if (rank.is(4)) be_stuck();
  rank.steps(1);
}
void two_killed(WatchDrillRank& rank) {
  rank.steps(2);
  if (rank.is(0) || rank.is(3)) ::raise(SIGKILL);
  rank.steps(1);
}
// In two groups: rank 1 passes another size, rank 6 throws.
void differs_and_throws(WatchDrillRank& rank) {
  const bool is_low = rank.rank() < 4;
  const comm::ProcessGroup group = rank.world.split(is_low ? 0 : 1, 0, {.name = is_low ? "low" : "high"});
  rank.steps(2);
  TESSERA_CHECK(!rank.is(6), "has had enough");
  rank.run(group, rank.all_reduce(rank.is(1) ? 10 : 20));
}

}  // namespace

std::vector<DrillFault> faults_of_ends() {
  std::vector<DrillFault> faults = {
      signalled("killed", 4, 1, SIGKILL, Fault::kDied),
      signalled("killed, rank 0", 5, 0, SIGKILL, Fault::kDied),
      signalled("crashed (SIGSEGV)", 4, 3, SIGSEGV, Fault::kDied),
      signalled("crashed (SIGSEGV), rank 0", 8, 0, SIGSEGV, Fault::kDied),
      signalled("stopped", 4, 2, SIGSTOP, Fault::kStopped),
      signalled("stopped, rank 0", 6, 0, SIGSTOP, Fault::kStopped),
  };
  const auto add = [&](const char* name, int ranks, std::function<void(WatchDrillRank&)> body,
                       std::vector<Expected> expected) -> DrillFault& {
    return faults.emplace_back(
        DrillFault{.name = name, .ranks = ranks, .body = std::move(body), .expected = std::move(expected)});
  };
  add("killed in an operation", 4, killed_during, {{.faults = {Fault::kDied}, .culprits = {1}}});
  add("killed after all", 4, killed_after_all, {{.faults = {Fault::kDied}, .culprits = {2}}});
  for (const int culprit : {2, 0}) {
    add(culprit == 2 ? "throws" : "throws, rank 0", 4, [culprit](WatchDrillRank& rank) { throws(rank, culprit); },
        {{.faults = {Fault::kFailed}, .culprits = {culprit}}})
        .forms = kBoth;
    add(culprit == 2 ? "out of memory" : "out of memory, rank 0", 4,
        [culprit](WatchDrillRank& rank) { out_of_memory(rank, culprit); },
        {{.faults = {Fault::kOutOfMemory}, .culprits = {culprit}}})
        .forms = kBoth;
  }
  add("throws, and nobody catches", 4, throws_and_nobody_catches,
      {{.faults = {Fault::kFailed}, .culprits = {1}, .words = {"the shard is corrupt"}}});
  add("throws in teardown", 4, throws_in_teardown,
      {{.faults = {Fault::kFailed}, .culprits = {3}, .words = {"the log cannot be closed"}}});
  add("exits with an error", 4, exits_with_an_error, {{.faults = {Fault::kFailed}, .culprits = {2}}});
  add("leaves early", 4, leaves_early, {{.faults = {Fault::kAbsent, Fault::kMismatch}, .culprits = {2}}}).forms = kBoth;
  add("stuck without a record", 4, stuck_without_record, {{.faults = {Fault::kAbsent}, .culprits = {3}}}).deadline =
      kDrillDeadline;
  add("stuck, and another without a record", 5, stuck_and_another_without_record,
      {{.faults = {Fault::kAbsent}, .culprits = {1}}})
      .deadline = kDrillDeadline;
  add("other size, and another without a record", 4, other_size_and_another_without_record,
      {{.faults = {Fault::kMismatch}, .culprits = {0}}});
  add("one stopped and one stuck", 6, stopped_and_stuck,
      {{.faults = {Fault::kStopped}, .culprits = {1}}, {.faults = {Fault::kAbsent}, .culprits = {4}}})
      .deadline = kDrillDeadline;
  add("two killed", 5, two_killed,
      {{.faults = {Fault::kDied}, .culprits = {0}}, {.faults = {Fault::kDied}, .culprits = {3}}})
      .is_told_at_the_end = true;
  add("one differs and one throws", 8, differs_and_throws,
      {{.faults = {Fault::kMismatch}, .culprits = {1}, .group = "low"}, {.faults = {Fault::kFailed}, .culprits = {6}}})
      .is_told_at_the_end = true;
  return faults;
}

}  // namespace tessera::watch
