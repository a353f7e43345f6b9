#include "tessera/train/detail/loop.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>

#include "tessera/train/metrics.h"

namespace tessera::train::detail {
namespace {

void count(Summary& summary, const StepReport& report) {
  summary.steps = report.step;
  summary.tokens += report.tokens;
  summary.skipped_nan += report.end == StepEnd::kSkippedNan ? 1 : 0;
  summary.skipped_spike += report.end == StepEnd::kSkippedSpike ? 1 : 0;
  if (!summary.first_loss) summary.first_loss = report.loss;
  summary.last_loss = report.loss;
}

bool is_due(const Config& config, std::int64_t step) {
  return step == config.train.steps || (config.eval.every > 0 && step % config.eval.every == 0);
}

// The loss curve of rank 0: a table with a row a step.
class LossCurve {
 public:
  explicit LossCurve(const LoopOptions& options) {
    if (options.rank != 0) return;
    const std::filesystem::path path = options.directory / "loss.csv";
    std::error_code none;
    const bool is_begun = std::filesystem::file_size(path, none) > 0 && !none;
    file_.emplace(path);
    if (!is_begun) file_->append("step,loss,grad_norm,learning_rate,held_out_loss");
  }
  void add(const StepReport& report, std::optional<double> held_out) {
    if (!file_) return;
    file_->append(fmt::format("{},{},{},{},{}", report.step, report.loss, report.grad_norm, report.learning_rate,
                              held_out ? fmt::format("{}", *held_out) : ""));
  }

 private:
  std::optional<LineFile> file_;
};

}  // namespace

std::int64_t total_of(const std::vector<OwnedBytes>& owners) {
  std::int64_t sum = 0;
  for (const OwnedBytes& each : owners) {
    if (each.owner == "total") return each.nbytes;
    sum += each.nbytes;
  }
  return sum;
}

void take_steps(Steps& steps, const LoopOptions& options, Progress& progress, Summary& summary, RankTally& tally) {
  const Config& config = summary.config;
  LineFile metrics(options.directory / "metrics.jsonl");
  LossCurve curve(options);
  while (summary.steps < config.train.steps) {
    if (options.between != nullptr) options.between->before(summary.steps + 1);
    const StepReport report = steps.step();
    const std::vector<OwnedBytes> memory = steps.memory_now();
    metrics.append(metrics_line(options.rank, report, memory));
    tally.add(report);
    count(summary, report);
    std::optional<double> held_out;
    if (options.has_held_out && is_due(config, report.step)) {
      held_out = steps.evaluate();
      summary.evaluations.push_back({.step = report.step, .loss = *held_out});
    }
    curve.add(report, held_out);
    if (held_out) progress.evaluated(report.step, *held_out);
    progress.step(report, total_of(memory));
    if (options.between != nullptr && !options.between->after(report.step)) break;
  }
}

}  // namespace tessera::train::detail
