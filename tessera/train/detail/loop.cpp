#include "tessera/train/detail/loop.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <string>

#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/train/detail/lossy_line_log.h"
#include "tessera/train/detail/resume.h"
#include "tessera/train/detail/run_signals.h"
#include "tessera/train/metrics.h"

namespace tessera::train::detail {
namespace {

void count(RunSummary& summary, const StepReport& report) {
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

// Returns whether the step after this one may be enqueued before this one is read.
Ahead ahead_of(const LoopOptions& options, const Config& config, std::int64_t step) {
  const bool is_evaluated = options.has_held_out && is_due(config, step);
  const bool is_free = options.between == nullptr || options.between->may_run_ahead(step);
  return step < config.train.steps && !is_evaluated && is_free ? Ahead::kNextStep : Ahead::kNone;
}

// Evaluates the model of summary.steps. Returns nothing if the run was requested to end meanwhile.
std::optional<double> evaluated(StepRunner& steps, const LoopOptions& options, Progress& progress,
                                RunSummary& summary) {
  PhaseProgress shown(progress, "held-out evaluation", "batches");
  try {
    const double loss = steps.evaluate([&](std::uint64_t done, std::uint64_t all) {
      shown.at(done, all);
      if (options.between != nullptr) options.between->after_batch();
    });
    summary.evaluations.push_back({.step = summary.steps, .loss = loss});
    return loss;
  } catch (const AskedToEnd&) {
    return std::nullopt;
  }
}

// Returns true if the evaluation at the step that the run resumes from was interrupted.
bool lacks_evaluation(const RunSummary& summary) {
  return summary.steps > 0 && is_due(summary.config, summary.steps) &&
         (summary.evaluations.empty() || summary.evaluations.back().step < summary.steps);
}

// Returns false if the run was requested to end meanwhile.
bool evaluate_again(StepRunner& steps, const LoopOptions& options, Progress& progress, RunSummary& summary) {
  const std::optional<double> held_out = evaluated(steps, options, progress, summary);
  if (!held_out) return false;
  progress.evaluated(summary.steps, *held_out);
  if (options.rank != 0) return true;
  try {
    set_held_out(options.directory, summary.steps, *held_out);
  } catch (const IoError& error) {
    log::error("loss.csv: held-out loss of step ", summary.steps, " not written: ", error.message());
    summary.missing.push_back("the held-out loss of step " + std::to_string(summary.steps) +
                              " in loss.csv: " + error.message());
  }
  return true;
}

// Lines of each step: a line of metrics.jsonl and, on rank 0, a row of the loss curve. The destructor adds lost lines
// to the summary.
class StepLines {
 public:
  StepLines(const LoopOptions& options, Progress& progress, RunSummary& summary)
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
  void note(const LossyLineLog& lines) {
    if (lines.lost() > 0) summary_.missing.push_back(lines.missing());
  }

  int rank_;
  RunSummary& summary_;
  LossyLineLog metrics_;
  std::optional<LossyLineLog> curve_;
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

void take_steps(StepRunner& steps, const LoopOptions& options, Progress& progress, RunSummary& summary,
                RankTally& tally) {
  const Config& config = summary.config;
  const bool is_evaluated_first = options.has_held_out && lacks_evaluation(summary);
  if (is_evaluated_first && !evaluate_again(steps, options, progress, summary)) return;
  StepLines lines(options, progress, summary);
  while (summary.steps < config.train.steps) {
    if (options.between != nullptr) options.between->before(summary.steps + 1);
    const StepReport report = steps.step(ahead_of(options, config, summary.steps + 1));
    if (options.lock != nullptr) options.lock->check_in_place();
    const std::vector<OwnedBytes> memory = steps.memory_now();
    lines.add(report, memory);
    tally.add(report);
    count(summary, report);
    std::optional<double> held_out;
    if (options.has_held_out && is_due(config, report.step)) held_out = evaluated(steps, options, progress, summary);
    lines.add_to_curve(report, held_out);
    if (held_out) progress.evaluated(report.step, *held_out);
    progress.step(report, total_of(memory));
    if (options.between != nullptr &&
        !options.between->after(report.step, steps.has_step_ahead(), [&] { lines.sync(); }))
      break;
  }
  lines.sync();
}

}  // namespace tessera::train::detail
