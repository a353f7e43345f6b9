// Cost of an active profile: complete steps with and without an open window.
#include <memory>
#include <optional>

#include "tessera/base/rank.h"
#include "tessera/base/testing/bench.h"
#include "tessera/device/launch_records.h"
#include "tessera/ops/parallel.h"
#include "tessera/train/testing/runs.h"
#include "tessera/train/trainer.h"

namespace tessera::train {
namespace {

// One trainer takes both kinds of steps, so that they use the same memory and caches.
class StepRunner {
 public:
  explicit StepRunner(const Config& config) : trainer_(config, testing::synthetic_samples(config)) {
    for (int i = 0; i < 3; ++i) trainer_.step();
  }
  double milliseconds(bool is_profiled) {
    std::optional<device::ProfileWindow> window;
    if (is_profiled) window.emplace();
    return 1e3 * trainer_.step().seconds;
  }

 private:
  Trainer trainer_;
};

TESSERA_BENCH(profile) {
  if (!context.wants("profile_overhead")) return;
  const RankScope rank(std::make_shared<RankContext>(RankPlace{}));
  ops::detail::set_thread_budget(1);
  StepRunner steps(testing::bench_config(context.is_brief()));
  context.measure({.name = "profile_overhead",
                   .unit = "ms",
                   .ours = [&]() -> double { return steps.milliseconds(true); },
                   .reference_name = "a step that is not profiled",
                   .reference = [&]() -> double { return steps.milliseconds(false); },
                   .must_ratio = 0.97});
}

}  // namespace
}  // namespace tessera::train
