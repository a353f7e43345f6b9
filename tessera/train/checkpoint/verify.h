// Whether a checkpoint is what was written: its index, every file, every shard.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/train/checkpoint/checkpoint.h"

namespace tessera::train {

/// Something that is wrong with a checkpoint.
struct CheckpointFault {
  std::string file;    ///< "rank-000003.safetensors"; "index.json"
  std::string tensor;  ///< whose shard is damaged; empty: the file as a whole
  std::string what;    ///< in words
};

/// What a check found.
struct CheckpointVerdict {
  CheckpointInfo info;                  ///< as far as the index can be read
  bool is_partial = false;              ///< it was not written to its end, or is being written
  std::int64_t shards = 0;              ///< parts of tensors whose checksums were compared
  std::vector<CheckpointFault> faults;  ///< none: it is good
};

/// How much of a checkpoint is looked at.
enum class CheckDepth : std::uint8_t {
  kSizes,       ///< the index, and that all files are there in their sizes
  kEverything,  ///< all checksums too: everything is read
};

/// Compares what is there with what was written. A checkpoint that cannot be read is one with a fault. Calls
/// `on_progress` for every MiB that was read, with bytes.
TESSERA_API CheckpointVerdict verify_checkpoint(const std::filesystem::path& path,
                                                CheckDepth depth = CheckDepth::kEverything,
                                                const OnProgress& on_progress = {});
/// All that lie in a directory of checkpoints, the newest first, what was not written to its end among them. Calls
/// `on_progress` with bytes of the checkpoint that is being read.
TESSERA_API std::vector<CheckpointVerdict> list_checkpoints(const std::filesystem::path& directory, CheckDepth depth,
                                                            const OnProgress& on_progress = {});
/// "rank-000003.safetensors, layers.0.query: the checksum is wrong".
TESSERA_API std::string to_string(const CheckpointFault& fault);

}  // namespace tessera::train
