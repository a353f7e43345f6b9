// The copy of a rank's parts that a checkpoint is written from, lying as it will in the file. Its memory is kept from
// save to save. The copy is work on the streams of the tensors, behind what made them and ahead of what changes them
// next: who saves waits for nothing but the asking.
#pragma once

#include <span>
#include <vector>

#include "tessera/device/event.h"
#include "tessera/device/memory.h"
#include "tessera/train/checkpoint/checkpoint.h"
#include "tessera/train/checkpoint/detail/ownership.h"

namespace tessera::train::detail {

/// See the head of this file. For one thread at a time.
class Staging {
 public:
  /// Enqueues the copies of these pieces of the state's tensors.
  void copy(const CheckpointState& state, const std::vector<Piece>& pieces);
  /// Waits until they are done; throws what went wrong on a stream.
  void wait() const;
  /// The pieces, one behind the other.
  [[nodiscard]] std::span<const std::byte> elements() const { return {memory_.data(), nbytes_}; }

 private:
  device::PinnedMemory memory_;
  std::size_t nbytes_ = 0;
  std::vector<device::Event> copied_;
};

}  // namespace tessera::train::detail
