// Builds evidence for tests: ranks run collectives and point-to-point operations on a clock that advances only on
// request.
//
//   EvidenceBuilder run(4);                         // four ranks that run, in group world
//   run.everyone(all_reduce(1024), 16);             // sixteen of them, all ended
//   for (int rank : {0, 1, 3}) run.launch(rank, all_reduce(1024), Stage::kBegun);
//   run.pass(31);                                   // seconds
//   explain(run.evidence());
#pragma once

#include <map>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tessera/analysis/evidence.h"

namespace tessera::analysis::testing {

/// Operations with the arguments of a rank.
inline RecordedOperation all_reduce(std::int64_t count, std::string reduction = "sum", std::string dtype = "f32") {
  return {.kind = "all_reduce", .dtype = std::move(dtype), .count = count, .reduction = std::move(reduction)};
}
/// Returns a broadcast from a root.
inline RecordedOperation broadcast(std::int64_t count, int root = 0) {
  return {.kind = "broadcast", .dtype = "f32", .count = count, .root = root};
}
/// Returns an all_gather, with uneven sizes if `parts` is not 0.
inline RecordedOperation all_gather(std::int64_t count, std::uint32_t parts = 0) {
  return {.kind = "all_gather", .dtype = "f32", .count = count, .parts = parts};
}
/// Returns an all_to_all, with uneven sizes if `parts` is not 0.
inline RecordedOperation all_to_all(std::int64_t count, std::uint32_t parts = 0) {
  return {.kind = "all_to_all", .dtype = "f32", .count = count, .parts = parts};
}
/// Returns a barrier, which transfers nothing.
inline RecordedOperation barrier() { return {.kind = "barrier", .dtype = "u8"}; }
/// Returns a send to a group rank.
inline RecordedOperation send(std::int64_t count, int peer) {
  return {.kind = "send", .dtype = "f32", .count = count, .peer = peer};
}
/// Returns a receive from a group rank.
inline RecordedOperation recv(std::int64_t count, int peer) {
  return {.kind = "recv", .dtype = "f32", .count = count, .peer = peer};
}

/// Builder of evidence.
class EvidenceBuilder {
 public:
  static constexpr std::int64_t kSecond = 1'000'000'000;

  /// Creates running ranks, all in group world.
  explicit EvidenceBuilder(int ranks) {
    evidence_.source = "run";
    evidence_.world_size = ranks;
    std::vector<int> all(static_cast<std::size_t>(ranks));
    std::iota(all.begin(), all.end(), 0);
    for (const int rank : all) {
      evidence_.ranks.push_back({.rank = rank,
                                 .state = RankState::kRunning,
                                 .file = "run/rank-" + std::to_string(rank),
                                 .host = "node7",
                                 .pid = static_cast<std::uint64_t>(4000 + rank)});
    }
    add_group("world", all);
  }

  /// Adds a group of these ranks.
  void add_group(const std::string& name, const std::vector<int>& ranks) {
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      rank(ranks[i]).groups.push_back({.name = name, .backend = "shm", .ranks = ranks, .rank = static_cast<int>(i)});
    }
  }

  /// Returns the evidence of a rank.
  Rank& rank(int number) { return evidence_.ranks[static_cast<std::size_t>(number)]; }
  /// Returns a group of a rank.
  Group& group(int number, const std::string& name = "world") {
    for (Group& one : rank(number).groups) {
      if (one.name == name) return one;
    }
    return rank(number).groups.front();
  }

  /// Adds a launch of one rank that reached this stage.
  CollectiveCall& launch(int number, RecordedOperation operation, Stage stage = Stage::kDone,
                         const std::string& name = "world") {
    return launch_all(number, {std::move(operation)}, stage, name);
  }
  /// Adds a launch of several operations.
  CollectiveCall& launch_all(int number, std::vector<RecordedOperation> operations, Stage stage = Stage::kDone,
                             const std::string& name = "world") {
    Group& where = group(number, name);
    CollectiveCall launch{.operations = std::move(operations), .stage = stage, .device = "host", .stream = 1};
    launch.task = static_cast<std::uint32_t>(++where.asked);
    launch.thread = static_cast<std::uint32_t>(7000 + number);
    launch.asked_ns = now_;
    if (stage != Stage::kAsked) {
      launch.sequence = ++where.begun;
      launch.collective_number = next_collective_number(number, name, launch.operations);
      launch.begun_ns = now_ + 1'000'000;
    }
    if (stage == Stage::kMet || stage == Stage::kDone) launch.met_ns = now_ + 2'000'000;
    if (stage == Stage::kDone || stage == Stage::kFailed) {
      launch.ended_ns = now_ + 3'000'000;
      ++where.ended;
    }
    rank(number).last_ns = now_ + 3'000'000;
    where.launches.push_back(std::move(launch));
    return where.launches.back();
  }
  /// All ranks of the group complete the operation so many times, one every 10 ms.
  void everyone(const RecordedOperation& operation, int times = 1, const std::string& name = "world") {
    for (int i = 0; i < times; ++i) {
      for (const Rank& one : evidence_.ranks) {
        for (const Group& where : one.groups) {
          if (where.name == name) {
            launch(one.rank, operation, Stage::kDone, name);
            break;
          }
        }
      }
      now_ += 10'000'000;
    }
  }
  /// Adds a launch that failed after so many seconds of waiting.
  CollectiveCall& fail(int number, RecordedOperation operation, const std::string& failure, double seconds = 5,
                       const std::string& name = "world") {
    CollectiveCall& failed = launch(number, std::move(operation), Stage::kFailed, name);
    failed.failure = failure;
    failed.ended_ns = failed.begun_ns + static_cast<std::int64_t>(seconds * kSecond);
    return failed;
  }
  /// Opens an annotation.
  void annotation(int number, const std::string& name, std::int64_t value = 0) {
    rank(number).annotations.push_back({.name = name, .value = value, .thread = "main", .since_ns = now_});
  }

  /// Advances the clock.
  void pass(double seconds) { now_ += static_cast<std::int64_t>(seconds * kSecond); }
  /// Returns the current time.
  [[nodiscard]] std::int64_t now() const { return now_; }

  /// Ends all ranks without an error.
  void end_all() {
    for (Rank& one : evidence_.ranks) one.state = RankState::kEnded;
  }
  /// Returns the evidence, taken now.
  Evidence evidence() {
    evidence_.taken_ns = now_;
    return evidence_;
  }

 private:
  std::uint64_t next_collective_number(int number, const std::string& name,
                                       const std::vector<RecordedOperation>& operations) {
    std::uint64_t first = 0;
    for (const RecordedOperation& one : operations) {
      if (one.peer < 0 && first != 0) continue;  // a launch counts once
      const std::uint64_t next = ++collective_numbers_[{number, name, one.peer, one.kind == "recv"}];
      if (first == 0) first = next;
    }
    return first;
  }

  Evidence evidence_;
  std::int64_t now_ = 1'800'000'000 * kSecond;
  std::map<std::tuple<int, std::string, int, bool>, std::uint64_t> collective_numbers_;
};

}  // namespace tessera::analysis::testing
