// The tensors of a checkpoint one at a time, as a whole, whatever ranks saved them.
#pragma once

#include <span>
#include <vector>

#include "tessera/train/checkpoint/checkpoint.h"
#include "tessera/train/checkpoint/detail/index.h"
#include "tessera/train/checkpoint/detail/read_plan.h"

namespace tessera::train::detail {

/// An open checkpoint, all of whose files are there, as large as the index and the layouts say; IoError names one that
/// is not. Holds the last tensor read, and no other.
class WholeTensors {
 public:
  explicit WholeTensors(const CheckpointInfo& from);
  WholeTensors(const WholeTensors&) = delete;
  WholeTensors& operator=(const WholeTensors&) = delete;

  [[nodiscard]] const CheckpointIndex& index() const { return index_; }
  /// The elements of a tensor, dense; good until the next is read.
  std::span<const std::byte> read(std::size_t tensor);

 private:
  std::filesystem::path path_;
  CheckpointIndex index_;
  ReadPlanner planner_;
  std::vector<std::byte> elements_;
};

}  // namespace tessera::train::detail
