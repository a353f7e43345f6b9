// The run directory, and communication of the ranks of a run outside of steps: rank 0 selects the directory and
// collects the results of all. Texts go through the store of the world. Ranks wait in the group of all ranks, which
// fails immediately when one of them dies.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tessera/base/run_directory.h"
#include "tessera/train/checkpoint/checkpoint.h"
#include "tessera/train/config.h"
#include "tessera/train/on_progress.h"
#include "tessera/train/summary.h"

namespace tessera::train::detail {

/// Receives a progress line.
using Say = std::function<void(const std::string&)>;

/// Start of a run.
struct RunStart {
  std::filesystem::path directory = {};   ///< Absolute path of the run directory.
  std::filesystem::path checkpoint = {};  ///< Checkpoint to resume from; empty: start at the first step.
  std::filesystem::path init = {};        ///< Checkpoint whose weights the run starts from; empty: new weights.
  bool is_finished = false;               ///< The directory holds this run, with all steps taken.
  /// Set on rank 0: keeps other runs out of the directory, and detects that the directory was removed.
  std::shared_ptr<const RunDirectoryLock> lock = {};
};

/// Returns the directory of the checkpoints of a run.
std::filesystem::path checkpoint_directory(const CheckpointConfig& config, const std::filesystem::path& run_directory);

/// Returns the checkpoint that `given` names: itself, or the last valid one of a directory of checkpoints or of a run.
/// `option` names it in errors. Reads it fully.
CheckpointInfo named_checkpoint(const std::string& option, const std::filesystem::path& given, const Say& say,
                                const OnProgress& on_progress);

/// Checks a directory before ranks are started: returns whether it holds this run, finished, and the newest checkpoint
/// to resume from, by its index alone; empty if none exists. Throws what would make the ranks reject the start, as far
/// as that is known without reading checkpoints fully. Changes nothing.
RunStart look_at_directory(const std::filesystem::path& directory, const Config& config);

/// The ranks of one run. All ranks create one at the same point. Two runs in one world do not interfere.
class RunRanks {
 public:
  RunRanks();
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }

  /// Rank 0 creates and locks the directory, and all ranks return its full path. If the directory already holds a run,
  /// the run resumes from the last valid checkpoint; starts again if it has none and the options are the same; does
  /// nothing if the same run is finished; and throws otherwise. Files are not changed yet. An error of rank 0,
  /// including AskedToEnd from `on_progress`, is thrown on all ranks. On rank 0, `say` receives lines and `on_progress`
  /// verified bytes of checkpoints.
  [[nodiscard]] RunStart open_directory(const Config& config, const Say& say, const OnProgress& on_progress = {}) const;
  /// Called when nothing can reject the start any more: rank 0 writes config.toml, and removes later steps from the
  /// files of an earlier run. An error of rank 0 is thrown on all ranks.
  void take_directory(const RunStart& start, const Config& config, const Say& say) const;
  /// Returns the results of all ranks on rank 0; other ranks send theirs. Throws AbortedError if a rank was lost.
  [[nodiscard]] std::vector<RankNumbers> collect(const RankNumbers& own) const;
  /// Returns true if this rank, which ends with an error, is the first to fail. Its error is that of the run.
  [[nodiscard]] bool is_first_to_fail() const noexcept;
  /// On rank 0: records that the summary is written. Ranks lost later do not make the run a failure.
  void note_written() const;
  /// Waits for all ranks: if one ended with an error before rank 0 has written, its launcher could end rank 0. Throws
  /// AbortedError if a rank was lost before.
  void finish() const;

 private:
  [[nodiscard]] std::string told_by_first(const std::string& name, const std::function<std::string()>& work) const;
  [[nodiscard]] bool is_written() const noexcept;
  [[nodiscard]] std::string key(const std::string& name) const;

  int rank_;
  int size_;
  int run_;  // number of the run in this world
};

}  // namespace tessera::train::detail
