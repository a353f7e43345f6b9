// The drill of the flight recorder as a measurement: every fault of the table in every form, once.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "tessera/base/testing/bench.h"
#include "tessera/watch/testing/drill.h"

namespace tessera::watch {
namespace {

constexpr std::size_t kBrief = 9;  // step through the table in brief runs

void show(const Drilled& drilled) {
  const std::string sentence = drilled.verdicts.empty() ? "no verdict" : drilled.verdicts[0].sentence;
  fmt::print("{:<46} {:<5} {:>6.2f} s  {}\n", drilled.name, drilled.wrong.empty() ? "right" : "WRONG", drilled.seconds,
             sentence);
  if (!drilled.wrong.empty()) fmt::print("    {}\n", drilled.wrong);
  if (drilled.readable != drilled.files) fmt::print("    {}\n", drilled.said);
  if (!drilled.wrong.empty() && std::getenv("TESSERA_DRILL_SAID") != nullptr) fmt::print("{}\n", drilled.said);
  std::fflush(stdout);
}

std::vector<DrillFault> faults_to_run(bool is_brief) {
  const char* only = std::getenv("TESSERA_DRILL_ONLY");  // part of a name, to run one
  const std::vector<DrillFault> all = all_drill_faults();
  std::vector<DrillFault> faults;
  for (std::size_t i = 0; i < all.size(); i += is_brief ? kBrief : 1) {
    if (only == nullptr || all[i].name.find(only) != std::string::npos) faults.push_back(all[i]);
  }
  return faults;
}

TESSERA_BENCH(drill) {
  const char* names[] = {"right_percent", "blamed_innocent", "verdict_seconds_max", "records_readable_percent"};
  if (std::none_of(std::begin(names), std::end(names), [&](const char* name) { return context.wants(name); })) return;
  const std::vector<DrillFault> faults = faults_to_run(context.is_brief());
  const DrillTally tally = run_drills(faults, show);
  const auto percent = [](int part, int whole) { return whole == 0 ? 0 : 100.0 * part / whole; };
  const auto add = [&](const char* name, const char* unit, double value, double must, bench::Better better) {
    context.measure(
        {.name = name, .unit = unit, .ours = [value]() -> double { return value; }, .must = must, .better = better});
  };
  fmt::print("{} drills of {} faults\n", tally.drills, faults.size());
  add("right_percent", "%", percent(tally.right, tally.drills), 95, bench::Better::kHigher);
  add("blamed_innocent", "ranks", tally.innocents, 0, bench::Better::kLower);
  add("verdict_seconds_max", "s", tally.slowest_seconds, 2, bench::Better::kLower);
  add("records_readable_percent", "%", percent(tally.readable, tally.files), 100, bench::Better::kHigher);
}

}  // namespace
}  // namespace tessera::watch
