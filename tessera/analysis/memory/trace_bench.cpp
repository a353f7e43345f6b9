// Logs of a million events: reading the CSV, and replaying it over the null upstream.
#include <cmath>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "tessera/analysis/memory/trace_replay.h"
#include "tessera/base/testing/bench.h"

namespace tessera::analysis {
namespace {

constexpr std::size_t kEvents = 1'000'000;

// 2,000 live blocks, sizes log-uniform from 512 B to 8 MiB, on four streams: churn as in a training step.
std::string churn_csv() {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> exponent(9, 23);
  struct Live {
    std::uint64_t pointer;
    std::uint64_t nbytes;
    std::uint64_t stream;
  };
  std::vector<Live> live;
  std::string text = "Thread,Time,Action,Pointer,Size,Stream\n";
  std::uint64_t next = 0x7f0000000000;
  const auto add = [&](const char* action, const Live& block) {
    char line[128];
    text.append(line, static_cast<std::size_t>(std::snprintf(
                          line, sizeof line, "140213,10:15:%02llu:123456,%s,0x%llx,%llu,0x%llx\n",
                          static_cast<unsigned long long>(block.nbytes % 60), action,
                          static_cast<unsigned long long>(block.pointer), static_cast<unsigned long long>(block.nbytes),
                          static_cast<unsigned long long>(block.stream))));
  };
  for (std::size_t i = 0; i < kEvents; ++i) {
    if (live.size() < 2000) {
      live.push_back({next += 512, static_cast<std::uint64_t>(std::exp2(exponent(random))), random() % 4});
      add("allocate", live.back());
    } else {
      std::swap(live[random() % live.size()], live.back());
      add("free", live.back());
      live.pop_back();
    }
  }
  return text;
}

TESSERA_BENCH(trace) {
  if (!context.wants("parse_csv_1M") && !context.wants("replay_1M")) return;
  const std::string text = churn_csv();
  const Trace trace = parse_rmm_csv(text);
  context.measure({.name = "parse_csv_1M",
                   .unit = "s",
                   .ours = [&] { bench::do_not_optimize(parse_rmm_csv(text).keys); },
                   .must = 0.5,
                   .calls = 1});
  context.measure({.name = "replay_1M",
                   .unit = "s",
                   .ours =
                       [&] {
                         const ReplayResult result = replay(trace, {}, std::size_t{80} << 30);
                         return result.ns_per_op * static_cast<double>(result.ops) * 1e-9;
                       },
                   .must = 0.5});
}

}  // namespace
}  // namespace tessera::analysis
