// Verification of checkpoints: the index, every file and every shard.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/train/checkpoint/checkpoint.h"

namespace tessera::train {

/// One fault of a checkpoint.
struct CheckpointFault {
  std::string file;    ///< "rank-000003.safetensors"; "index.json"
  std::string tensor;  ///< Tensor whose shard is corrupt. Empty if the fault concerns the file.
  std::string what;    ///< Description of the fault.
};

/// Result of a verification.
struct CheckpointVerdict {
  CheckpointInfo info;                  ///< Values of the index, as far as it is readable.
  bool is_partial = false;              ///< True if it is incomplete or being written.
  std::int64_t shards = 0;              ///< Number of shards whose checksums were compared.
  std::vector<CheckpointFault> faults;  ///< Faults. Empty if the checkpoint is valid.
};

/// Depth of a verification.
enum class CheckDepth : std::uint8_t {
  kSizes,       ///< The index, and the existence and size of all files.
  kEverything,  ///< Also all checksums, which reads everything.
};

/// Verifies a checkpoint. An unreadable checkpoint yields a fault and no exception. Calls `on_progress` for every MiB
/// read, with bytes.
TESSERA_API CheckpointVerdict verify_checkpoint(const std::filesystem::path& path,
                                                CheckDepth depth = CheckDepth::kEverything,
                                                const OnProgress& on_progress = {});
/// Verifies all checkpoints in a directory, including incomplete ones, the newest first. Calls `on_progress` with bytes
/// of the checkpoint that is being read.
TESSERA_API std::vector<CheckpointVerdict> list_checkpoints(const std::filesystem::path& directory, CheckDepth depth,
                                                            const OnProgress& on_progress = {});
/// Returns "rank-000003.safetensors, layers.0.mlp.up_proj.weight: the checksum is wrong".
TESSERA_API std::string to_string(const CheckpointFault& fault);

}  // namespace tessera::train
