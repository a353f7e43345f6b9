// Actions between the steps of a run: periodic and final checkpoints, and requests to ranks (agreement.h), to end with
// a checkpoint or to profile the next steps (profile.h). If a checkpoint cannot be written, a warning is printed and
// the run continues. For the final one, the summary states the reason.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>

#include "tessera/train/checkpoint/checkpoint.h"
#include "tessera/train/detail/agreement.h"
#include "tessera/train/detail/loop.h"
#include "tessera/train/detail/profile.h"
#include "tessera/train/detail/run_signals.h"
#include "tessera/train/progress.h"
#include "tessera/train/summary.h"
#include "tessera/train/trainer.h"

namespace tessera::train::detail {

/// File in the run directory that requests a profile. Rank 0 polls for it and removes it.
inline constexpr const char* kProfileRequest = "profile.request";

/// Saves checkpoints and handles requests. All ranks create one at the same point.
class Checkpointing final : public BetweenSteps {
 public:
  /// The run has its state in these objects. `data_digest` is stored in its checkpoints.
  Checkpointing(const Trainer& trainer, RunSummary& summary, Progress& progress, std::string data_digest);
  void before(std::int64_t step) override;
  void after_batch() override;
  [[nodiscard]] bool may_run_ahead(std::int64_t step) const override;
  bool after(std::int64_t step, bool has_step_ahead, const std::function<void()>& sync_lines) override;
  /// Waits for the write in progress, after a run has taken its last step.
  void finish();
  /// Abandons the write in progress, because other ranks may be gone.
  void abandon() { writer_.abandon(); }
  /// Returns true if the run was requested to end.
  [[nodiscard]] bool is_interrupted() const { return is_interrupted_; }

 private:
  [[nodiscard]] bool is_save_due(std::int64_t step) const;
  void save(std::int64_t step);
  void save_at_end(std::int64_t step);
  void tell_errors();
  [[nodiscard]] StopRequests asked();

  const Trainer& trainer_;
  RunSummary& summary_;
  Progress& progress_;
  std::string data_digest_;
  CheckpointWriter writer_;
  Agreement agreement_;
  Profile profile_;
  RunSignals signals_;
  std::chrono::steady_clock::time_point looked_at_ = {};
  bool is_stop_asked_ = false;  // by any rank
  bool is_interrupted_ = false;
  bool is_profile_asked_ = false;  // during the evaluation after this step
  bool is_end_saved_ = false;
};

}  // namespace tessera::train::detail
