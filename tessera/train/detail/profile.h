// A profile of some steps of a run in progress: the work on each stream of the rank as a Chrome trace, and the memory
// at their end in the format of the PyTorch viewer. All ranks profile the same steps.
//
//   DIRECTORY/profile-120/rank-0.trace.json
//                         rank-0.memory.pickle
//
// Outside of a profile there is no cost. Both files are made from the record of the rank, whose size limits them
// (TESSERA_RECORD_BYTES).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tessera/device/launch_records.h"
#include "tessera/train/config.h"

namespace tessera::train::detail {

/// Steps per requested profile.
inline constexpr std::int64_t kProfiledSteps = 3;

/// Profiles the rank that this thread works for.
class Profile {
 public:
  /// Profiles the steps of run.profile_steps in this run directory.
  Profile(const RunConfig& config, std::string directory);
  /// Profiles kProfiledSteps steps from this one on, unless a profile is active or planned.
  void ask(std::int64_t step);
  /// Called before a step.
  void before(std::int64_t step);
  /// Returns true if a profile ends after this step or begins after it, so that the work of the next step must not be
  /// enqueued yet.
  [[nodiscard]] bool is_edge(std::int64_t step) const { return step == last_ || step + 1 == first_; }
  /// Called after a step. Returns a line about the written files or the failure; empty if nothing was due.
  std::string after(std::int64_t step, bool is_last);

 private:
  [[nodiscard]] std::string write() const;

  std::string directory_;
  std::int64_t first_ = 0;
  std::int64_t last_ = 0;
  std::int64_t begun_ = 0;  // first step of the open profile
  std::uint64_t begin_ticks_ = 0;
  std::optional<device::ProfileWindow> window_;
};

}  // namespace tessera::train::detail
