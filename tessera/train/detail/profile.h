// A profile of some steps of a run while it goes on: what each stream of the rank did, as a Chrome trace, and the
// memory at their end, as PyTorch's viewer loads it. All ranks profile the same steps.
//
//   DIRECTORY/profile-120/rank-0.trace.json
//                         rank-0.memory.pickle
//
// Between windows nothing of it costs anything. Both files are made from the rank's record, so that they hold as much
// as it has room for (TESSERA_RECORD_BYTES).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tessera/device/launch_records.h"
#include "tessera/train/config.h"

namespace tessera::train::detail {

/// Steps that are profiled when a run is asked to.
inline constexpr std::int64_t kProfiledSteps = 3;

/// See the head of this file. Of the rank this thread works for.
class Profile {
 public:
  /// Of a run in this directory; the steps that run.profile_steps names are profiled.
  Profile(const RunConfig& config, std::string directory);
  /// Profiles kProfiledSteps steps from this one on, unless some are being profiled, or are to be.
  void ask(std::int64_t step);
  /// Before a step.
  void before(std::int64_t step);
  /// After a step. A line about what was written, or why nothing was; empty: nothing was to be.
  std::string after(std::int64_t step, bool is_last);

 private:
  [[nodiscard]] std::string write() const;

  std::string directory_;
  std::int64_t first_ = 0;
  std::int64_t last_ = 0;
  std::int64_t begun_ = 0;  // the step before which the window was opened
  std::uint64_t begin_ticks_ = 0;
  std::optional<device::ProfileWindow> window_;
};

}  // namespace tessera::train::detail
