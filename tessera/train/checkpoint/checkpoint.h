// Checkpoints: the state of a run on disk, sharded as on the ranks, and readable by any number of ranks.
//
//   DIRECTORY/step-000000120/index.json                 step, mesh, tensors with shape, dtype and layout; files;
//   metadata
//                            rank-000000.safetensors    shards that rank 0 owns: one of the ranks writes a replica
//                            rank-000001.safetensors
//
//   CheckpointWriter writer({.directory = "run/checkpoints"});
//   writer.save(120, state);                                      // all ranks, at the same steps
//
//   const auto last = last_good("run/checkpoints", say);          // corrupt checkpoints are skipped and reported
//   if (last) texts = load_checkpoint(*last, state);              // each rank reads its own shard
//
// A checkpoint is written to a temporary directory (step-N.partial) and renamed when every rank has written, so an
// existing one is complete. docs/checkpoints.md has the format. Ranks read by the index alone and do not communicate.
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
#include "tessera/device/event.h"
#include "tessera/tensor/tensor.h"
#include "tessera/train/on_progress.h"

namespace tessera::train {

/// Contents of a checkpoint. All ranks pass the same names in the same order.
struct CheckpointState {
  /// Tensors by name. With a layout, each rank has its shard. A plain tensor is equal on all ranks.
  std::vector<std::pair<std::string, Tensor>> tensors;
  /// Metadata by name: step, schedule, position in the data, random state, configuration. That of rank 0 is stored.
  std::map<std::string, std::string> texts;
  /// Receives the events of copies that a save makes beside the work of the current streams. Work that changes the
  /// tensors must wait for them. Null: later work of the current streams waits.
  std::function<void(const device::Event& copied)> on_copied = {};
};

/// Options of a CheckpointWriter.
struct CheckpointOptions {
  std::filesystem::path directory;  ///< Directory of all checkpoints of the run. Created if needed.
  int keep = 3;                     ///< Number of checkpoints to keep, the latest ones; at least 1.
  /// Time that a rank waits for the others after it has written.
  std::chrono::nanoseconds timeout = std::chrono::minutes(10);
  /// Returns the ranks that have ended, for which no rank waits: `[all = comm::world()] { return all.lost(); }`. Called
  /// by the thread that writes. Null: ranks that end are awaited until the timeout.
  std::function<std::vector<int>()> lost = {};
};

/// Writes checkpoints in the background. All ranks of the world create it and call it at the same steps, each from one
/// thread.
class TESSERA_API CheckpointWriter {
 public:
  /// Does not access the disk: if the directory cannot be written, the first save fails.
  explicit CheckpointWriter(const CheckpointOptions& options);
  /// Waits for the write in progress. If an exception ends its scope, waits for other ranks only a few seconds.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  /// Copies the shards of this rank in the order of the current streams and returns. Work enqueued later may change the
  /// tensors, after the events of CheckpointState::on_copied, if set. A thread writes the copies. Waits first for the
  /// previous write. Throws InvalidArgument for state that can never be saved (partial values, duplicate names). Errors
  /// of the write are kept for take_errors().
  void save(std::int64_t step, const CheckpointState& state);
  /// Waits until the saved checkpoint is renamed to its final name, or has failed.
  void finish();
  /// Abandons the write in progress without waiting for other ranks, after the world has lost one. Complete checkpoints
  /// stay, and nothing more can be saved.
  void abandon();
  /// Returns the errors since the last call. The run may continue, and the last valid checkpoint still exists.
  [[nodiscard]] std::vector<std::string> take_errors();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// A checkpoint on disk.
struct CheckpointInfo {
  std::filesystem::path path;           ///< Directory of this checkpoint.
  std::int64_t step = 0;                ///< Step after which it was saved.
  int world_size = 1;                   ///< Number of ranks that wrote it.
  std::uint64_t nbytes = 0;             ///< Bytes of the files of all ranks.
  std::string mesh;                     ///< "dp=2,tp=2". Empty if no tensor has a layout.
  std::int64_t tensors = 0;             ///< Number of tensors.
  std::int64_t written_at_seconds = 0;  ///< Seconds since 1970, by the clock of rank 0.
};

/// Reads the index of the checkpoint in this directory. Throws IoError if the index is missing or corrupt.
TESSERA_API CheckpointInfo open_checkpoint(const std::filesystem::path& path);
/// Returns the checkpoints with a readable index, the newest first. Empty if the directory does not exist.
TESSERA_API std::vector<CheckpointInfo> checkpoints_in(const std::filesystem::path& directory);
/// Returns the newest checkpoint whose files all exist and have correct checksums; reads them fully. Calls `say` with a
/// line, including its line end, for each newer checkpoint that was skipped, with the reason. Calls `on_progress` with
/// bytes of the checkpoint that is being read.
TESSERA_API std::optional<CheckpointInfo> last_good(const std::filesystem::path& directory,
                                                    const std::function<void(const std::string&)>& say,
                                                    const OnProgress& on_progress = {});
/// Fills the tensors of `into` in place, each rank its own shard, from a checkpoint of any mesh. Returns the metadata;
/// that of `into` is ignored. Waits for the devices of the tensors. Other tensors of the checkpoint are not read.
/// Throws MismatchError, before anything is written, if a tensor is missing or has another shape or dtype. Throws
/// IoError if a file does not match the index.
TESSERA_API std::map<std::string, std::string> load_checkpoint(const CheckpointInfo& from, CheckpointState& into);
/// Returns only the metadata.
TESSERA_API std::map<std::string, std::string> checkpoint_texts(const CheckpointInfo& from);

}  // namespace tessera::train
