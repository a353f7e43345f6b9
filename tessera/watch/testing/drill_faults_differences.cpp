// Program faults: ranks that call different operations. All are detected as soon as the ranks meet.
#include "tessera/watch/testing/drill.h"

namespace tessera::watch {
namespace {

using analysis::Fault;
using comm::Operation;
using comm::OpKind;
using comm::ProcessGroup;

const std::vector<DrillForm> kBoth = {DrillForm::kProcesses, DrillForm::kThreads};

// Each rank enqueues one operation, and that of the culprit differs.
DrillFault differs(const std::string& name, int ranks, int culprit,
                   std::function<Operation(const WatchDrillRank&, bool is_other)> asked,
                   std::vector<std::string> words) {
  return {
      .name = name,
      .ranks = ranks,
      .body =
          [asked = std::move(asked), culprit](WatchDrillRank& rank) {
            rank.steps(3);
            rank.begin();
            rank.run(asked(rank, rank.is(culprit)));
            rank.steps(1);
          },
      .expected = {{.faults = {Fault::kMismatch}, .culprits = {culprit}, .group = "world", .words = std::move(words)}},
      .forms = kBoth};
}

// The program of one rank takes another path than the others.
DrillFault strays(const std::string& name, int ranks, int culprit, std::function<void(WatchDrillRank&, bool)> way,
                  std::vector<Fault> faults = {Fault::kMismatch}) {
  return {.name = name,
          .ranks = ranks,
          .body =
              [way = std::move(way), culprit](WatchDrillRank& rank) {
                rank.steps(3);
                rank.begin();
                way(rank, rank.is(culprit));
              },
          .expected = {{.faults = std::move(faults), .culprits = {culprit}, .group = "world"}},
          .forms = kBoth};
}

void skip(WatchDrillRank& rank, bool is_other) {
  if (!is_other) rank.run(rank.all_reduce());
  rank.run(rank.broadcast());
  rank.steps(1);
}
void skip_the_last(WatchDrillRank& rank, bool is_other) {
  if (!is_other) rank.run(rank.all_reduce());
}
void extra(WatchDrillRank& rank, bool is_other) {
  if (is_other) rank.run(rank.broadcast());
  rank.run(rank.all_reduce());
  rank.steps(1);
}
void extra_at_the_end(WatchDrillRank& rank, bool is_other) {
  if (is_other) rank.run(rank.all_reduce());
}
void reorder(WatchDrillRank& rank, bool is_other) {
  rank.run(is_other ? rank.broadcast() : rank.all_reduce());
  rank.run(is_other ? rank.all_reduce() : rank.broadcast());
}

Operation other_dtype(const WatchDrillRank& rank, bool is_other) {
  Operation operation = rank.all_reduce();
  if (is_other) operation.dtype = DType::kI32;
  return operation;
}
Operation other_reduction(const WatchDrillRank& rank, bool is_other) {
  Operation operation = rank.all_reduce();
  if (is_other) operation.reduction.kind = Reduction::kMax;
  return operation;
}
Operation other_kind(const WatchDrillRank& rank, bool is_other) {
  Operation operation = rank.all_reduce(100);
  if (is_other) operation.kind = OpKind::kReduceScatter;
  return operation;
}
Operation other_splits(const WatchDrillRank& rank, bool is_other) {
  Operation operation = rank.all_reduce(0);
  operation.kind = OpKind::kAllGather;
  for (int i = 0; i < rank.ranks(); ++i) operation.out_counts.push_back(i + 1);
  if (is_other) operation.out_counts[0] += 1;
  return operation;
}
Operation other_targets(const WatchDrillRank& rank, bool is_other) {
  Operation operation = rank.all_reduce(10);
  operation.kind = OpKind::kPermute;
  for (int i = 0; i < rank.ranks(); ++i) operation.targets.push_back((i + 1) % rank.ranks());
  if (is_other) operation.targets[0] = -1;
  return operation;
}
// Rank 2 sends one more element to rank 3 than it receives.
Operation splits_that_do_not_fit(const WatchDrillRank& rank, bool is_other) {
  Operation operation = rank.all_reduce(0);
  operation.kind = OpKind::kAllToAll;
  for (int i = 0; i < rank.ranks(); ++i) {
    operation.in_counts.push_back(4);
    operation.out_counts.push_back(4);
  }
  if (is_other) operation.in_counts[3] = 5;
  return operation;
}

// Returns the group of the half of the world.
ProcessGroup half(const WatchDrillRank& rank) {
  const bool is_low = rank.rank() < rank.ranks() / 2;
  return rank.world.split(is_low ? 0 : 1, 0, {.name = is_low ? "low" : "high"});
}
DrillFault in_a_half(const std::string& name, int culprit,
                     std::function<void(WatchDrillRank&, const ProcessGroup&)> way) {
  return {.name = name,
          .ranks = 8,
          .body =
              [way = std::move(way)](WatchDrillRank& rank) {
                const ProcessGroup group = half(rank);
                rank.steps(2);
                rank.run(group, rank.all_reduce());
                rank.begin();
                way(rank, group);
                rank.steps(1);
              },
          .expected = {{.faults = {Fault::kMismatch}, .culprits = {culprit}, .group = culprit < 4 ? "low" : "high"}},
          .forms = kBoth};
}

void halves_of_the_ranks_differ(WatchDrillRank& rank) {
  rank.steps(2);
  rank.begin();
  rank.run(rank.all_reduce(rank.rank() < 2 ? 1000 : 2000));
}
void two_differ_each_in_its_way(WatchDrillRank& rank) {
  rank.steps(2);
  rank.begin();
  Operation operation = rank.all_reduce(rank.is(1) ? 999 : 1000);
  if (rank.is(4)) operation.dtype = DType::kI32;
  rank.run(operation);
}
void message_of_another_size(WatchDrillRank& rank, int usual) {
  rank.steps(2);
  for (int i = 0; i < usual; ++i) {
    if (rank.is(1)) rank.run(rank.send(2, 600));
    if (rank.is(2)) rank.run(rank.recv(1, 600));
  }
  rank.begin();
  if (rank.is(1)) rank.run(rank.send(2, 500));
  if (rank.is(2)) rank.run(rank.recv(1, 600));
  rank.steps(1);
}

}  // namespace

std::vector<DrillFault> faults_of_differences() {
  const auto size = [](const WatchDrillRank& rank, bool is_other) { return rank.all_reduce(is_other ? 999 : 1000); };
  const auto large = [](const WatchDrillRank& rank, bool is_other) {
    return rank.all_reduce(is_other ? 99'999 : 100'000);
  };
  const auto root = [](const WatchDrillRank& rank, bool is_other) { return rank.broadcast(is_other ? 2 : 0); };
  std::vector<DrillFault> faults = {
      strays("skip", 4, 2, skip),
      strays("skip by rank 0", 5, 0, skip),
      strays("skip of the last", 4, 1, skip_the_last, {Fault::kAbsent, Fault::kMismatch}),
      strays("extra", 6, 5, extra),
      strays("extra by rank 0", 4, 0, extra),
      strays("extra at the end", 4, 3, extra_at_the_end, {Fault::kMismatch, Fault::kAbsent}),
      strays("reorder", 4, 1, reorder),
      strays("reorder by rank 0", 8, 0, reorder),
      differs("other size", 4, 3, size, {"f32[999]"}),
      differs("other size by rank 0", 4, 0, size, {"f32[999]"}),
      differs("other size of much", 4, 2, large, {"f32[99999]"}),
      differs("other dtype", 5, 4, other_dtype, {"i32"}),
      differs("other root", 4, 1, root, {"root 2"}),
      differs("other reduction by rank 0", 6, 0, other_reduction, {"max"}),
      differs("other kind by rank 0", 4, 0, other_kind, {"reduce_scatter"}),
      differs("other splits", 4, 2, other_splits, {"all_gather"}),
      differs("other targets", 4, 3, other_targets, {"permute"}),
      in_a_half("other size in a subgroup", 6,
                [](WatchDrillRank& rank, const ProcessGroup& group) {
                  rank.run(group, rank.all_reduce(rank.is(6) ? 10 : 20));
                }),
      in_a_half("skip in a subgroup by rank 0", 0,
                [](WatchDrillRank& rank, const ProcessGroup& group) {
                  if (!rank.is(0)) rank.run(group, rank.all_reduce(20));
                  rank.run(group, rank.broadcast());
                }),
  };
  // The cause is ambiguous: rank 2 sends too much or rank 3 receives too little.
  faults.push_back(differs("splits that do not fit", 4, 2, splits_that_do_not_fit, {"all_to_all"}));
  faults.back().expected[0].may_blame_nobody = true;
  faults.push_back({.name = "halves of the ranks differ",
                    .body = halves_of_the_ranks_differ,
                    .expected = {{.faults = {Fault::kMismatch}, .group = "world", .may_blame_nobody = true}},
                    .forms = kBoth});
  faults.push_back({.name = "two differ each in its way",
                    .ranks = 6,
                    .body = two_differ_each_in_its_way,
                    .expected = {{.faults = {Fault::kMismatch}, .culprits = {1, 4}, .group = "world"}},
                    .forms = kBoth});
  // For the first point-to-point operation, the culprit is ambiguous.
  faults.push_back({.name = "message of another size",
                    .body = [](WatchDrillRank& rank) { message_of_another_size(rank, 0); },
                    .expected = {{.faults = {Fault::kMismatch}, .may_blame_nobody = true}},
                    .forms = kBoth});
  faults.push_back({.name = "message of another size than those before",
                    .body = [](WatchDrillRank& rank) { message_of_another_size(rank, 4); },
                    .expected = {{.faults = {Fault::kMismatch}, .culprits = {1}}},
                    .forms = kBoth});
  return faults;
}

}  // namespace tessera::watch
