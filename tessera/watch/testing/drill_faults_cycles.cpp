// Deadlock cycles over groups or point-to-point operations; pipelines with a failing stage.
#include "tessera/watch/testing/drill.h"
#include "tessera/watch/testing/ranks.h"

namespace tessera::watch {
namespace {

using analysis::Fault;
using comm::ProcessGroup;

const std::vector<DrillForm> kBoth = {DrillForm::kProcesses, DrillForm::kThreads};

// A group of all but the last, and the world; ranks from `from` on call them in the other order.
void two_groups(WatchDrillRank& rank, int from) {
  std::vector<int> members;
  for (int i = 0; i + 1 < rank.ranks(); ++i) members.push_back(i);
  const ProcessGroup most = rank.world.subgroup(members, {.name = "most"});
  rank.steps(2);
  rank.begin();
  if (rank.rank() < from) rank.run(most, rank.all_reduce());
  rank.run(rank.all_reduce());
  if (rank.rank() >= from && most) rank.run(most, rank.all_reduce());
}

// Two groups of the same ranks, which share a transport: it detects the mismatch, and no rank has to wait.
void two_groups_alike(WatchDrillRank& rank, int from) {
  const ProcessGroup first = rank.world.split(0, 0, {.name = "first"});
  const ProcessGroup second = rank.world.split(0, 1, {.name = "second"});
  first.set_deadline(kDrillDeadline);
  second.set_deadline(kDrillDeadline);
  rank.steps(2);
  rank.begin();
  const bool is_other = rank.rank() >= from;
  rank.run(is_other ? second : first, rank.all_reduce());
  rank.run(is_other ? first : second, rank.all_reduce());
}

// Neighbors have groups of two; each begins with the one on its right.
void pairs_in_a_ring(WatchDrillRank& rank) {
  std::vector<ProcessGroup> pairs;
  for (int low = 0; low < rank.ranks(); ++low) {
    const int members[] = {low, (low + 1) % rank.ranks()};
    pairs.push_back(rank.world.subgroup(members, {.name = "pair " + std::to_string(low)}));
  }
  const auto at = static_cast<std::size_t>(rank.rank());
  const std::size_t left = (at + pairs.size() - 1) % pairs.size();
  rank.steps(2);
  rank.begin();
  rank.run(pairs[at], rank.all_reduce());
  rank.run(pairs[left], rank.all_reduce());
}

// Large sends to the right before the receive from the left.
void ring_of_sends(WatchDrillRank& rank) {
  const int right = (rank.rank() + 1) % rank.ranks();
  const int left = (rank.rank() + rank.ranks() - 1) % rank.ranks();
  rank.steps(2);
  rank.begin();
  rank.run(rank.send(right, kDrillElements));
  rank.run(rank.recv(left, kDrillElements));
}
void ring_of_receives(WatchDrillRank& rank) {
  const int right = (rank.rank() + 1) % rank.ranks();
  const int left = (rank.rank() + rank.ranks() - 1) % rank.ranks();
  rank.steps(2);
  rank.begin();
  rank.run(rank.recv(left));
  rank.run(rank.send(right));
}

// Two of many ranks wait to receive from each other, and the others wait for them.
void two_receive_from_each_other(WatchDrillRank& rank) {
  rank.steps(2);
  rank.begin();
  if (rank.is(1)) rank.run(rank.recv(2));
  if (rank.is(2)) rank.run(rank.recv(1));
  rank.steps(1);
}

// Micro-batches go from stage to stage; stage 2 stops after the third.
void stage_stuck(WatchDrillRank& rank) {
  rank.steps(1);
  for (int batch = 0; batch < 6; ++batch) {
    if (batch == 3) rank.begin();
    if (batch == 3 && rank.is(2)) be_stuck();
    if (!rank.is(0)) rank.run(rank.recv(rank.rank() - 1));
    if (!rank.is(rank.ranks() - 1)) rank.run(rank.send(rank.rank() + 1));
  }
  rank.steps(1);
}
void stage_killed(WatchDrillRank& rank) {
  rank.steps(1);
  for (int batch = 0; batch < 6; ++batch) {
    if (!rank.is(0)) rank.run(rank.recv(rank.rank() - 1));
    if (batch == 3 && rank.is(1)) {
      rank.begin();
      std::abort();
    }
    if (!rank.is(rank.ranks() - 1)) rank.run(rank.send(rank.rank() + 1));
  }
  rank.steps(1);
}

std::vector<int> all_of(int ranks) {
  std::vector<int> all;
  for (int rank = 0; rank < ranks; ++rank) all.push_back(rank);
  return all;
}

}  // namespace

std::vector<DrillFault> faults_of_cycles() {
  std::vector<DrillFault> faults;
  const auto add = [&](const char* name, int ranks, std::function<void(WatchDrillRank&)> body, Expected expected,
                       std::vector<DrillForm> forms = kBoth) {
    faults.push_back({.name = name,
                      .ranks = ranks,
                      .body = std::move(body),
                      .expected = {std::move(expected)},
                      .deadline = kDrillDeadline,
                      .forms = std::move(forms)});
  };
  const auto cycle = [](std::vector<int> ranks) {
    return Expected{.faults = {Fault::kCycle}, .culprits = std::move(ranks), .may_blame_nobody = true};
  };
  add(
      "deadlock across two groups", 5, [](WatchDrillRank& rank) { two_groups(rank, 2); }, cycle(all_of(4)));
  add("deadlock across two groups by one", 6, [](WatchDrillRank& rank) { two_groups(rank, 4); },
      {.faults = {Fault::kCycle}, .culprits = {4}});
  add("two groups alike in another order by one", 5, [](WatchDrillRank& rank) { two_groups_alike(rank, 4); },
      {.faults = {Fault::kCycle, Fault::kMismatch}, .culprits = {4}});
  faults.back().deadline = std::chrono::nanoseconds(0);
  add("deadlock of pairs in a ring", 4, pairs_in_a_ring, cycle(all_of(4)));
  add("circle of sends", 4, ring_of_sends, cycle(all_of(4)));
  add("circle of receives", 6, ring_of_receives, cycle(all_of(6)));
  add("two receive from each other", 5, two_receive_from_each_other, cycle({1, 2}));
  add("stage of a pipeline stuck", 4, stage_stuck, {.faults = {Fault::kAbsent}, .culprits = {2}},
      {DrillForm::kProcesses});
  add("stage of a pipeline killed", 4, stage_killed, {.faults = {Fault::kDied, Fault::kFailed}, .culprits = {1}},
      {DrillForm::kProcesses});
  faults.back().deadline = std::chrono::nanoseconds(0);
  return faults;
}

}  // namespace tessera::watch
