// Access to the memory of other ranks. A backend translates a buffer to a location (a Place) that is valid for all
// ranks, and a peer's location to a local address.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "tessera/comm/detail/peer_memory/group_memory.h"
#include "tessera/comm/detail/peer_memory/waiting.h"

namespace tessera::comm::detail {

/// One rank's view of the memory of its group. Thread-safe.
class PeerMemory {
 public:
  virtual ~PeerMemory() = default;
  /// Returns the shared memory of the group.
  [[nodiscard]] virtual const GroupMemory& group() const = 0;
  /// Returns the wait strategy of this rank.
  [[nodiscard]] virtual const Waiting& waiting() const = 0;
  /// Returns the location of a buffer of this rank.
  [[nodiscard]] virtual BufferLocation place_of(const void* address, std::size_t nbytes) = 0;
  /// Returns the local address of a reachable location of `peer`.
  [[nodiscard]] virtual std::byte* reach(int peer, const BufferLocation& place) = 0;
  /// Returns the world rank of a group rank.
  [[nodiscard]] virtual int world_rank(int peer) const = 0;
  /// Returns true if `peer` is known to have died.
  [[nodiscard]] virtual bool is_dead(int peer) const = 0;
  /// A wait for a word that `peer` raises, and its description: "all_gather of group 0-1".
  struct WordWait {
    int peer;
    const std::atomic<std::uint64_t>& word;
    std::uint64_t least;
    const std::function<bool()>& is_over;  ///< returns true if the wait ends for another reason; called from any thread
    std::string what;
  };
  /// Notes that this rank waits. Returns a description of the wait cycle that contains it; empty if it is in no cycle
  /// or that is unknown. end_wait() must follow before the wait ends.
  [[nodiscard]] virtual std::string cycle_of(const WordWait& wait) {
    (void)wait;
    return {};
  }
  virtual void end_wait() {}
};

/// Looks for a wait cycle while a rank waits, and removes the noted wait.
class CycleView {
 public:
  explicit CycleView(PeerMemory& memory) : memory_(memory) {}
  ~CycleView() {
    if (has_noted_) memory_.end_wait();
  }
  CycleView(const CycleView&) = delete;
  CycleView& operator=(const CycleView&) = delete;
  /// Returns true if the wait is part of a cycle.
  bool finds(const PeerMemory::WordWait& wait) {
    has_noted_ = true;
    cycle_ = memory_.cycle_of(wait);
    return !cycle_.empty();
  }
  /// Describes the cycle; empty if none was found.
  [[nodiscard]] std::string text() const { return cycle_.empty() ? "" : "deadlock cycle: " + cycle_; }

 private:
  PeerMemory& memory_;
  std::string cycle_;
  bool has_noted_ = false;
};

}  // namespace tessera::comm::detail
