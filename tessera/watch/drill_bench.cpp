// The drill of the black box, as a measurement: every fault of the table in every form it has, once.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "tessera/base/testing/bench.h"
#include "tessera/watch/testing/drill.h"

namespace tessera::watch {
namespace {

constexpr std::size_t kBrief = 9;  // every so many of the table where it is only to be seen that it works

// What counts of all drills.
struct Tally {
  int drills = 0;
  int right = 0;
  int innocents = 0;
  int files = 0;
  int readable = 0;
  double slowest = 0;
};

void show(const Drilled& drilled) {
  const std::string sentence = drilled.verdicts.empty() ? "no verdict" : drilled.verdicts[0].sentence;
  fmt::print("{:<46} {:<5} {:>6.2f} s  {}\n", drilled.name, drilled.wrong.empty() ? "right" : "WRONG", drilled.seconds,
             sentence);
  if (!drilled.wrong.empty()) fmt::print("    {}\n", drilled.wrong);
  if (!drilled.wrong.empty() && std::getenv("TESSERA_DRILL_SAID") != nullptr) fmt::print("{}\n", drilled.said);
  std::fflush(stdout);
}

Tally run_all(bool is_brief) {
  const char* only = std::getenv("TESSERA_DRILL_ONLY");  // part of a name, for who looks into one
  Tally tally;
  const std::vector<DrillFault> faults = all_drill_faults();
  for (std::size_t i = 0; i < faults.size(); i += is_brief ? kBrief : 1) {
    if (only != nullptr && faults[i].name.find(only) == std::string::npos) continue;
    for (const DrillForm form : faults[i].forms) {
      const Drilled drilled = run_drill(faults[i], form, i + 1);
      show(drilled);
      ++tally.drills;
      tally.right += drilled.wrong.empty() ? 1 : 0;
      tally.innocents += drilled.innocents;
      tally.files += drilled.files;
      tally.readable += drilled.readable;
      tally.slowest = std::max(tally.slowest, drilled.seconds);
    }
  }
  return tally;
}

TESSERA_BENCH(drill) {
  const char* names[] = {"right_percent", "blamed_innocent", "verdict_seconds_max", "records_readable_percent"};
  if (std::none_of(std::begin(names), std::end(names), [&](const char* name) { return context.wants(name); })) return;
  const Tally tally = run_all(context.is_brief());
  const auto percent = [](int part, int whole) { return whole == 0 ? 0 : 100.0 * part / whole; };
  const auto add = [&](const char* name, const char* unit, double value, double must, bench::Better better) {
    context.measure(
        {.name = name, .unit = unit, .ours = [value]() -> double { return value; }, .must = must, .better = better});
  };
  fmt::print("{} drills of {} faults\n", tally.drills, all_drill_faults().size());
  add("right_percent", "%", percent(tally.right, tally.drills), 95, bench::Better::kHigher);
  add("blamed_innocent", "ranks", tally.innocents, 0, bench::Better::kLower);
  add("verdict_seconds_max", "s", tally.slowest, 2, bench::Better::kLower);
  add("records_readable_percent", "%", percent(tally.readable, tally.files), 100, bench::Better::kHigher);
}

}  // namespace
}  // namespace tessera::watch
