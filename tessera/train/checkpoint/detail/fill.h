// Executes a read plan: reads regions of files into dense shards in host memory.
#pragma once

#include <filesystem>
#include <vector>

#include "tessera/train/checkpoint/detail/read_plan.h"

namespace tessera::train::detail {

/// Destination of a wanted shard.
struct ShardTarget {
  std::byte* data = nullptr;  ///< First element; dense, last dimension fastest.
  std::size_t item = 1;       ///< Bytes per element.
};

/// Reads the complete plan; `targets[i]` belongs to wanted tensor i. The header of a file is checked before the file is
/// read.
void fill(const std::filesystem::path& directory, const CheckpointIndex& index, const ReadPlan& plan,
          const std::vector<ShardTarget>& targets);

}  // namespace tessera::train::detail
