// Between the steps of a run: checkpoints every so many steps and at the end, and what ranks are asked for while they
// run (agreement.h): to end with a checkpoint, or to profile the next steps (profile.h). A checkpoint that cannot be
// written is told loudly, and the run goes on; of the one at the end the summary says why it is not there.
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

/// The file of a run directory by which somebody asks for a profile: rank 0 looks for it, and removes it.
inline constexpr const char* kProfileRequest = "profile.request";

/// See the head of this file. All ranks make one at the same point.
class Checkpointing final : public BetweenSteps {
 public:
  /// Of a run whose state is in these; `data_digest` goes into its checkpoints.
  Checkpointing(const Trainer& trainer, Summary& summary, Progress& progress, std::string data_digest);
  void before(std::int64_t step) override;
  void after_batch() override;
  bool after(std::int64_t step, const std::function<void()>& sync_lines) override;
  /// Waits for what is being written; of a run that was taken to its end.
  void finish();
  /// Gives up what is being written: other ranks may be gone.
  void abandon() { writer_.abandon(); }
  /// Whether the run was asked to end.
  [[nodiscard]] bool is_interrupted() const { return is_interrupted_; }

 private:
  void save(std::int64_t step);
  void save_at_end(std::int64_t step);
  void tell_errors();
  [[nodiscard]] Asked asked();

  const Trainer& trainer_;
  Summary& summary_;
  Progress& progress_;
  std::string data_digest_;
  CheckpointWriter writer_;
  Agreement agreement_;
  Profile profile_;
  RunSignals signals_;
  std::chrono::steady_clock::time_point looked_at_ = {};
  bool is_interrupted_ = false;
  bool is_profile_asked_ = false;  // during the evaluation after this step
  bool is_end_saved_ = false;
};

}  // namespace tessera::train::detail
