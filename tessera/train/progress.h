// Progress output of a run: a bar that redraws itself on a terminal, or occasional lines in a pipe.
//
// The bar is text between "erase to the end of the line" and a carriage return. A launcher that forwards lines, and
// treats a carriage return as a line end, recognizes the bar by its beginning (is_bar_line()).
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

#include "tessera/base/export.h"
#include "tessera/train/config.h"
#include "tessera/train/trainer.h"

namespace tessera::train {

/// Values shown for a step.
struct ProgressPoint {
  StepReport report = {};                    ///< Report of the step.
  std::int64_t steps = 0;                    ///< Steps of the run.
  std::int64_t memory_nbytes = 0;            ///< Bytes in use on this rank.
  double seconds_left = 0;                   ///< Estimated remaining time.
  std::optional<double> mfu = {};            ///< Model FLOP utilization, in [0, 1]; unset: unknown.
  std::optional<double> held_out_loss = {};  ///< Loss of the last evaluation.
  std::string_view unit = "tokens";          ///< Unit of the rate.
};
/// Returns "step 120/500  loss 2.3456   grad 0.812   9.75k tokens/s  MFU 0.41    45.2 MiB     0:42 left", and the fault
/// of a bad step. Two or more spaces separate the fields, whose widths are those of usual values, so that lines align.
TESSERA_API std::string progress_line(const ProgressPoint& point);
/// Returns the fields of the progress line after a bar, two spaces apart.
TESSERA_API std::string progress_bar(const ProgressPoint& point);
/// Shortens a bar to `columns`: drops the bar first, then the MFU, then full fields from the right, so that no number
/// is truncated.
TESSERA_API std::string fitted_bar(std::string bar, std::size_t columns);
/// Returns true if a line is a drawing of the bar, which the next one overwrites.
TESSERA_API bool is_bar_line(std::string_view line);

/// Progress of a phase that is not a step.
struct PhasePoint {
  std::string name = {};    ///< "held-out evaluation"
  std::string unit = {};    ///< "batches"; "bytes" are shown in KiB, MiB, ...
  std::uint64_t done = 0;   ///< Finished units.
  std::uint64_t all = 0;    ///< Total units.
  double seconds_left = 0;  ///< Estimated remaining time.
};
/// Returns "held-out evaluation: 12/46 batches  0:31 left".
TESSERA_API std::string phase_line(const PhasePoint& point);

/// Writes the progress of a run. Not thread-safe.
class TESSERA_API Progress {
 public:
  /// Writes to `out`; if it is null, writes nothing.
  Progress(const RunConfig& config, std::int64_t steps, std::FILE* out);
  /// Shows an MFU in later steps: tokens/s times `mfu_per_rate`. 0: none.
  void show_mfu(double mfu_per_rate) { mfu_per_rate_ = mfu_per_rate; }
  /// Shows rates in this unit, instead of "tokens". It must outlive this object.
  void show_unit(std::string_view unit) { unit_ = unit; }
  /// Shows a step.
  void step(const StepReport& report, std::int64_t memory_nbytes);
  /// Shows an evaluation.
  void evaluated(std::int64_t step, double loss);
  /// Shows a phase: draws the bar, or prints a line.
  void phase(const PhasePoint& point);
  /// Returns true if progress is a bar that is drawn over itself.
  [[nodiscard]] bool is_bar() const { return is_bar_; }
  /// Prints lines and redraws the bar after them.
  void say(std::string_view lines);

 private:
  void draw(const std::string& bar);

  std::FILE* out_;
  std::int64_t steps_;
  std::int64_t log_every_;
  bool is_bar_;
  bool is_silent_;
  bool is_drawn_ = false;
  std::int64_t taken_ = 0;
  double seconds_ = 0;
  double mfu_per_rate_ = 0;
  std::string_view unit_ = "tokens";
  std::optional<double> held_out_loss_;
  std::chrono::steady_clock::time_point last_drawn_ = {};
};

/// Shows one phase on a Progress, which must outlive it, if the phase takes long: a bar after 1 s and then every 100
/// ms, or a line every 5 s. Not thread-safe.
class TESSERA_API PhaseProgress {
 public:
  /// Clock that decides when to show.
  using Clock = std::chrono::steady_clock;
  /// Begins the phase at `now`.
  PhaseProgress(Progress& progress, std::string name, std::string unit, Clock::time_point now = Clock::now());
  /// Shows that `done` of `all` units are done, if it is time to.
  void at(std::uint64_t done, std::uint64_t all, Clock::time_point now = Clock::now());

 private:
  Progress* progress_;
  PhasePoint point_;
  Clock::time_point begun_;
  Clock::time_point next_;
};

}  // namespace tessera::train
