#include "tessera/train/detail/loop.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>

#include "tessera/train/detail/told_lines.h"
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

// What the run tells of each step: a line of metrics.jsonl, and on rank 0 a row of the loss curve. That some could not
// be written is in the summary when this goes.
class StepLines {
 public:
  StepLines(const LoopOptions& options, Progress& progress, Summary& summary)
      : rank_(options.rank), summary_(summary), metrics_(options.directory / "metrics.jsonl", progress) {
    if (options.rank == 0)
      curve_.emplace(options.directory / "loss.csv", progress, "step,loss,grad_norm,learning_rate,held_out_loss");
  }
  ~StepLines() {
    note(metrics_);
    if (curve_) note(*curve_);
  }
  StepLines(const StepLines&) = delete;
  StepLines& operator=(const StepLines&) = delete;

  void add(const StepReport& report, const std::vector<OwnedBytes>& memory) {
    metrics_.append(metrics_line(rank_, report, memory));
  }
  void add_to_curve(const StepReport& report, std::optional<double> held_out) {
    if (!curve_) return;
    curve_->append(fmt::format("{},{},{},{},{}", report.step, report.loss, report.grad_norm, report.learning_rate,
                               held_out ? fmt::format("{}", *held_out) : ""));
  }

  void sync() {
    metrics_.sync();
    if (curve_) curve_->sync();
  }

 private:
  void note(const ToldLines& lines) {
    if (lines.lost() > 0) summary_.missing.push_back(lines.missing());
  }

  int rank_;
  Summary& summary_;
  ToldLines metrics_;
  std::optional<ToldLines> curve_;
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
  StepLines lines(options, progress, summary);
  while (summary.steps < config.train.steps) {
    if (options.between != nullptr) options.between->before(summary.steps + 1);
    const StepReport report = steps.step();
    if (options.lock != nullptr) options.lock->check_in_place();
    const std::vector<OwnedBytes> memory = steps.memory_now();
    lines.add(report, memory);
    tally.add(report);
    count(summary, report);
    std::optional<double> held_out;
    if (options.has_held_out && is_due(config, report.step)) {
      held_out = steps.evaluate();
      summary.evaluations.push_back({.step = report.step, .loss = *held_out});
    }
    lines.add_to_curve(report, held_out);
    if (held_out) progress.evaluated(report.step, *held_out);
    progress.step(report, total_of(memory));
    if (options.between != nullptr && !options.between->after(report.step, [&] { lines.sync(); })) break;
  }
  lines.sync();
}

}  // namespace tessera::train::detail
