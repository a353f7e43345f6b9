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
  std::int64_t shards = 0;              ///< parts of tensors that were checked
  std::vector<CheckpointFault> faults;  ///< none: it is good
};

/// Reads everything and compares sizes and checksums. A checkpoint that cannot be read is one with a fault.
TESSERA_API CheckpointVerdict verify_checkpoint(const std::filesystem::path& path);
/// "rank-000003.safetensors, layers.0.query: the checksum is wrong".
TESSERA_API std::string to_string(const CheckpointFault& fault);

}  // namespace tessera::train
