// Carries out a plan: reads regions of files into parts of tensors that lie dense in host memory.
#pragma once

#include <filesystem>
#include <vector>

#include "tessera/train/checkpoint/detail/read_plan.h"

namespace tessera::train::detail {

/// Where a wanted tensor's part goes.
struct Target {
  std::byte* data = nullptr;  ///< first element; dense, last dimension fastest
  std::size_t item = 1;       ///< bytes of an element
};

/// Reads all of the plan; `targets` stand for the wanted tensors, in their order. A file's header is checked before
/// anything is read of it.
void fill(const std::filesystem::path& directory, const CheckpointIndex& index, const ReadPlan& plan,
          const std::vector<Target>& targets);

}  // namespace tessera::train::detail
