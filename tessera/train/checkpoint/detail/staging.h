// Copy of the shards of a rank from which a checkpoint is written, in file order. Its memory is reused by later saves.
// The copy of host tensors is work on their streams. That of other devices runs on a separate stream, after the work
// that produced the tensors. A save only waits for the enqueue.
#pragma once

#include <span>
#include <vector>

#include "tessera/device/event.h"
#include "tessera/device/memory.h"
#include "tessera/train/checkpoint/checkpoint.h"
#include "tessera/train/checkpoint/detail/ownership.h"

namespace tessera::train::detail {

/// Buffer for one copy. Used by one thread at a time.
class Staging {
 public:
  /// Enqueues the copies of these shards of the tensors of `state`.
  void copy(const CheckpointState& state, const std::vector<FileShard>& pieces);
  /// Waits until they are done. Throws the error of a stream.
  void wait() const;
  /// Returns the shards, contiguous.
  [[nodiscard]] std::span<const std::byte> elements() const { return {memory_.data(), nbytes_}; }

 private:
  void copy_from(const device::Stream& current, const CheckpointState& state, const std::vector<FileShard>& pieces,
                 const std::vector<Tensor>& parts);

  device::PinnedMemory memory_;
  device::Stream side_;  // empty before the first copy from another device than the host
  std::size_t nbytes_ = 0;
  std::vector<device::Event> copied_;
};

}  // namespace tessera::train::detail
