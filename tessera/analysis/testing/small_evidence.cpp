#include "tessera/analysis/testing/small_evidence.h"

#include <utility>

namespace tessera::analysis::testing {
namespace {

std::int64_t moment(std::int64_t us) { return us == 0 ? 0 : kStart + us * 1000 + 250; }

RecordedOperation all_reduce(std::int64_t count) {
  return {.kind = "all_reduce", .dtype = "f32", .count = count, .reduction = "sum"};
}

Group world_of(int rank) {
  Group world{.name = "world", .backend = "shm", .ranks = {0, 1}, .rank = rank, .asked = 6, .begun = 5, .ended = 4};
  world.launches = {
      launch_of(all_reduce(1024), 1, 10, 12, 15, 40),
      launch_of({.kind = "all_gather", .dtype = "bf16", .count = 8}, 2, 11, 41, 44, 50),
      launch_of({.kind = "broadcast", .dtype = "i64", .count = 3, .root = 1}, 3, 60, 61, 62, 63),
  };
  world.launches[1].label = "layers.3 \"mlp\"";
  CollectiveCall coalesced = launch_of(all_reduce(4), 4, 70, 71, 72, 80);
  coalesced.operations.push_back({.kind = "all_reduce", .dtype = "u8", .count = 6, .reduction = "max"});
  world.launches.push_back(coalesced);
  if (rank == 0) {
    world.launches.push_back(launch_of(all_reduce(1 << 20), 5, 100, 101, 0, 0));
    CollectiveCall queued = launch_of({.kind = "barrier"}, 0, 102, 0, 0, 0);
    world.launches.push_back(queued);
  }
  for (std::size_t i = 0; i < world.launches.size(); ++i) {
    world.launches[i].task = static_cast<std::uint32_t>(i + 1);
    world.launches[i].sequence = world.launches[i].begun_ns > 0 ? i + 1 : 0;
  }
  return world;
}

Group pair_of(int rank) {
  Group pair{
      .name = "pipeline", .backend = "shm", .ranks = {1, 0}, .rank = 1 - rank, .asked = 2, .begun = 2, .ended = 2};
  CollectiveCall message =
      launch_of({.kind = rank == 0 ? "send" : "recv", .dtype = "f16", .count = 77, .peer = rank}, 1, 20, 22, 23, 30);
  message.stream = 3;
  CollectiveCall replayed =
      launch_of({.kind = "all_to_all", .dtype = "f64", .count = 0, .parts = 0xabcd}, 1, 5, 90, 91, 95);
  replayed.stream = 3;
  replayed.replay = 117;
  replayed.node = 4;
  replayed.stage = Stage::kFailed;
  replayed.failure = "timeout";
  pair.launches = {message, replayed};
  return pair;
}

}  // namespace

CollectiveCall launch_of(RecordedOperation operation, std::uint64_t collective_number, std::int64_t asked_us,
                         std::int64_t begun_us, std::int64_t met_us, std::int64_t ended_us) {
  CollectiveCall launch;
  launch.collective_number = collective_number;
  launch.operations = {std::move(operation)};
  launch.asked_ns = moment(asked_us);
  launch.begun_ns = moment(begun_us);
  launch.met_ns = moment(met_us);
  launch.ended_ns = moment(ended_us);
  launch.stage = ended_us != 0   ? Stage::kDone
                 : met_us != 0   ? Stage::kMet
                 : begun_us != 0 ? Stage::kBegun
                                 : Stage::kAsked;
  launch.device = "host";
  launch.stream = 2;
  launch.thread = 4243;
  return launch;
}

Evidence small_evidence() {
  Evidence evidence{.source = "runs/a", .world_size = 3, .taken_ns = moment(500)};
  for (int rank = 0; rank < 2; ++rank) {
    Rank each{.rank = rank, .state = RankState::kRunning, .host = "node7", .pid = 4242};
    each.file = "runs/a/rank-" + std::to_string(rank) + ".node7.4242.a";
    each.last_ns = moment(110 + rank);
    each.groups = {world_of(rank), pair_of(rank)};
    evidence.ranks.push_back(each);
  }
  Rank& first = evidence.ranks[0];
  first.creations = {{.what = "split 1 of group world",
                      .from = "world",
                      .number = 1,
                      .ranks = {0, 1},
                      .since_ns = moment(7),
                      .stage = Stage::kFailed,
                      .failure = "timeout"}};
  first.annotations = {{"step", 117, "4243", moment(8)}, {"forward\n", 2, "loader", moment(9)}};
  first.memory = {{"host", 1000, 4096, 0, {{"weights", 900}}}};
  first.launches = {{"softmax_rows", "cuda:0", 7, moment(99)}};
  Rank& second = evidence.ranks[1];
  second.pid = 4250;
  second.state = RankState::kDied;
  second.signal = 9;
  second.reason = "killed by signal 9";
  second.lost = 12;
  second.memory = {{"cuda:0", 10, 20, 1 << 30, {}}};
  evidence.ranks.push_back({.rank = 2, .state = RankState::kMissing});
  evidence.before = "4 ranks began";
  evidence.problems = {"runs/a/rank-2: no such file \xff"};
  return evidence;
}

}  // namespace tessera::analysis::testing
