// Checkpoints: the state of a run on disk, cut as it lies on the ranks, and read back by any number of ranks.
//
//   DIRECTORY/step-000000120/index.json                 step, mesh, tensors with shape, dtype and layout; files; texts
//                            rank-000000.safetensors    what rank 0 owns: of parts that several ranks hold, one writes
//                            rank-000001.safetensors
//
//   CheckpointWriter writer({.directory = "run/checkpoints"});
//   writer.save(120, state);                                      // all ranks, at the same steps
//
//   const auto last = last_good("run/checkpoints", say);          // what is damaged is passed over
//   if (last) texts = load_checkpoint(*last, state);              // each rank reads its own part
//
// A checkpoint is written aside (step-N.partial) and renamed once every rank has written, so that one that is there is
// whole. docs/checkpoints.md has the format. What a rank reads follows from the index alone: ranks do not talk.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/tensor/tensor.h"
#include "tessera/train/on_progress.h"

namespace tessera::train {

/// What a checkpoint holds. The same names in the same order on all ranks.
struct CheckpointState {
  /// By name; with a layout each rank has its part, a plain one is the same on all ranks.
  std::vector<std::pair<std::string, Tensor>> tensors;
  /// Small things by name: step, schedule, position in the data, random state, configuration. Those of rank 0 are kept.
  std::map<std::string, std::string> texts;
};

/// Where checkpoints go.
struct CheckpointOptions {
  std::filesystem::path directory;  ///< of all checkpoints of the run; made when it is not there
  int keep = 3;                     ///< how many are kept, the latest; at least 1
  /// How long a rank that has written waits for the others.
  std::chrono::nanoseconds timeout = std::chrono::minutes(10);
};

/// Writes checkpoints in the background. Made and called by all ranks of the world, at the same steps, from one thread
/// each.
class TESSERA_API CheckpointWriter {
 public:
  /// Touches nothing yet: a directory that cannot be written is an error of the first save.
  explicit CheckpointWriter(const CheckpointOptions& options);
  /// Waits for what is being written; when an exception ends its scope, for other ranks only some seconds.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  /// Copies this rank's parts aside, behind the work on the current streams, and returns: work that is enqueued after
  /// it may change the tensors. A thread writes. Waits first for the write before it. InvalidArgument for what can
  /// never be saved (partial values, a name twice); what goes wrong while it is written is kept for take_errors().
  void save(std::int64_t step, const CheckpointState& state);
  /// Waits until what was saved is on disk and in its place, or has failed.
  void finish();
  /// Gives up what is being written, without waiting for other ranks: for a world that has lost one. What is complete
  /// stays, and nothing more can be saved.
  void abandon();
  /// What went wrong since this was last asked; the run may go on, and the last good checkpoint is still there.
  [[nodiscard]] std::vector<std::string> take_errors();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// A checkpoint on disk.
struct CheckpointInfo {
  std::filesystem::path path;           ///< its own directory
  std::int64_t step = 0;                ///< after which it was saved
  int world_size = 1;                   ///< ranks that wrote it
  std::uint64_t nbytes = 0;             ///< of all files of ranks
  std::string mesh;                     ///< "dp=2,tp=2"; empty: no tensor has a layout
  std::int64_t tensors = 0;             ///< how many
  std::int64_t written_at_seconds = 0;  ///< since 1970, by the clock of rank 0
};

/// The checkpoint in this directory, of which only the index is read; IoError says what is wrong with it.
TESSERA_API CheckpointInfo open_checkpoint(const std::filesystem::path& path);
/// Those with an index that can be read, the newest first. None when there is no such directory.
TESSERA_API std::vector<CheckpointInfo> checkpoints_in(const std::filesystem::path& directory);
/// The newest whose files are all there and have the right checksums: everything is read. `say` gets a line, with its
/// end, about each newer one that was passed over, and why. Calls `on_progress` with bytes of the checkpoint that is
/// being read.
TESSERA_API std::optional<CheckpointInfo> last_good(const std::filesystem::path& directory,
                                                    const std::function<void(const std::string&)>& say,
                                                    const OnProgress& on_progress = {});
/// Fills these tensors in place, each rank its own part, whatever mesh they were saved from, and gives the texts back;
/// those of `into` are not used. Waits for the devices of the tensors. Tensors of the checkpoint that are not asked for
/// are left out. MismatchError names a tensor that is not there or has another shape or dtype, before anything is
/// written; IoError a file that is not as the index says.
TESSERA_API std::map<std::string, std::string> load_checkpoint(const CheckpointInfo& from, CheckpointState& into);
/// The texts alone.
TESSERA_API std::map<std::string, std::string> checkpoint_texts(const CheckpointInfo& from);

}  // namespace tessera::train
