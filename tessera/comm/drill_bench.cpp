// Measures the time until ranks end after one of them fails.
#include "tessera/base/testing/bench.h"
#include "tessera/comm/testing/drill.h"

namespace tessera::comm {
namespace {

// Runs each drill once; the value is the maximum over all faults, which more runs could only increase.
TESSERA_BENCH(drill) {
  const std::string name = "drill_seconds_max";
  if (!context.wants(name)) return;
  double worst = 0;
  for (const CommDrillFault& fault : all_faults()) {
    const DrillReport report = run_drill(fault);
    const std::string wrong = judge(fault, report);
    if (!wrong.empty()) return context.skip(wrong);
    worst = std::max(worst, report.seconds_past);
  }
  context.measure({.name = name, .unit = "s", .ours = [worst]() -> double { return worst; }, .must = 2});
}

}  // namespace
}  // namespace tessera::comm
