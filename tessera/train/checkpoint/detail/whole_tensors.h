// Reads the tensors of a checkpoint one at a time as global tensors, for any mesh.
#pragma once

#include <span>
#include <vector>

#include "tessera/train/checkpoint/checkpoint.h"
#include "tessera/train/checkpoint/detail/index.h"
#include "tessera/train/checkpoint/detail/read_plan.h"

namespace tessera::train::detail {

/// An open checkpoint whose files all exist with the sizes that the index and the layouts state. Throws IoError for
/// others. Holds only the last tensor read.
class WholeTensors {
 public:
  explicit WholeTensors(const CheckpointInfo& from);
  WholeTensors(const WholeTensors&) = delete;
  WholeTensors& operator=(const WholeTensors&) = delete;

  [[nodiscard]] const CheckpointIndex& index() const { return index_; }
  /// Returns the dense elements of a tensor, valid until the next read.
  std::span<const std::byte> read(std::size_t tensor);

 private:
  std::filesystem::path path_;
  CheckpointIndex index_;
  ReadPlanner planner_;
  std::vector<std::byte> elements_;
};

}  // namespace tessera::train::detail
