// The run directory, and what ranks tell each other around the steps of a run: rank 0 chooses the directory and
// collects the numbers of all. They go through the store of the world; where a rank waits for others it does so in the
// group of all, which ends at once when one of them dies.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tessera/base/run_directory.h"
#include "tessera/train/config.h"
#include "tessera/train/on_progress.h"
#include "tessera/train/summary.h"

namespace tessera::train::detail {

/// Takes a line about what is done.
using Say = std::function<void(const std::string&)>;

/// Where a run begins.
struct RunStart {
  std::filesystem::path directory = {};   ///< of the run, from the root
  std::filesystem::path checkpoint = {};  ///< to go on from; empty: from the first step
  bool is_finished = false;               ///< it holds this very run, which took all its steps
  /// Set on rank 0: keeps other runs out of the directory, and notices if the directory is removed.
  std::shared_ptr<const RunDirectoryLock> lock = {};
};

/// Where the checkpoints of a run in this directory are.
std::filesystem::path checkpoint_directory(const CheckpointConfig& config, const std::filesystem::path& run_directory);

/// For who starts ranks, before it does: whether the directory holds this very run, finished. Throws what will refuse
/// them as far as that can be told without reading whole checkpoints; changes nothing. Also the newest checkpoint that
/// will be gone on from, by its index alone; empty: there is none.
RunStart look_at_directory(const std::filesystem::path& directory, const Config& config);

/// The ranks of one run. All ranks make one at the same point; two runs in one world do not meet.
class RunRanks {
 public:
  RunRanks();
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }

  /// Rank 0 makes the directory and keeps other runs out; all get its full path. A directory that holds a run already:
  /// where it has a good checkpoint the run goes on from the last; where it has none and the options are the same, it
  /// begins anew; where that run is finished, and is the same, there is nothing to do; otherwise it is refused. Nothing
  /// in it is changed yet. An error of rank 0 is thrown on all, AskedToEnd from `on_progress` among them. `say` gets
  /// lines about it and `on_progress` bytes of checkpoints that were verified, on rank 0.
  [[nodiscard]] RunStart open_directory(const Config& config, const Say& say, const OnProgress& on_progress = {}) const;
  /// When nothing is left that could refuse the start: rank 0 writes config.toml, and cuts off what files of the run
  /// that was there tell of later steps. An error of rank 0 is thrown on all.
  void take_directory(const RunStart& start, const Config& config, const Say& say) const;
  /// On rank 0: the numbers of all ranks; on others: hands theirs in. AbortedError: a rank was lost.
  [[nodiscard]] std::vector<RankNumbers> collect(const RankNumbers& own) const;
  /// Whether this rank, which ends with an error, is the first to: its error is what the run ended of.
  [[nodiscard]] bool is_first_to_fail() const noexcept;
  /// On rank 0: the summary is written, and whoever is lost from now on does not make the run a failure.
  void note_written() const;
  /// Waits for all ranks: one that ends with an error before rank 0 has written could have its launcher end rank 0.
  /// AbortedError: a rank was lost before that.
  void finish() const;

 private:
  [[nodiscard]] std::string told_by_first(const std::string& name, const std::function<std::string()>& work) const;
  [[nodiscard]] bool is_written() const noexcept;
  [[nodiscard]] std::string key(const std::string& name) const;

  int rank_;
  int size_;
  int run_;  // counts the runs of this world
};

}  // namespace tessera::train::detail
