// Sources of memory for an allocator, in two forms:
//
//   Upstream             allocate, free: full segments with separate addresses (fixed segments)
//   ExpandableUpstream   reserve, release: addresses; map, unmap, move: memory at parts of them
//
// The upstream of a device is expandable (device_upstream.h). A custom
// upstream, for a pool of registered memory, implements the first. An allocator makes one call at a time, never on its
// hot path, and never releases memory during a capture. A call succeeds, or throws (OutOfMemory if there is no room)
// and changes nothing.
#pragma once

#include <cstddef>
#include <string>

#include "tessera/base/export.h"

namespace tessera::memory {

class ExpandableUpstream;

/// A source of fixed segments.
class TESSERA_API Upstream {
 public:
  virtual ~Upstream() = default;
  /// Returns a name for reports: "cuda:0", "pinned memory of cuda:0".
  [[nodiscard]] virtual std::string name() const = 0;
  /// Returns the unit of sizes, and of addresses inside a reservation: a power of two, at least 512.
  [[nodiscard]] virtual std::size_t granularity() const = 0;
  /// Returns the maximum that it can provide.
  [[nodiscard]] virtual std::size_t capacity_nbytes() const = 0;
  /// Returns memory at separate addresses, aligned to at least 512 bytes.
  virtual std::byte* allocate(std::size_t nbytes) = 0;
  /// Frees one complete result of allocate(). All work on it must have completed.
  virtual void free(std::byte* address, std::size_t nbytes) = 0;
  /// Returns the expandable form of this upstream; null if it has none.
  virtual ExpandableUpstream* as_expandable() { return nullptr; }
};

/// A source of addresses, and of memory to map at them.
class TESSERA_API ExpandableUpstream : public Upstream {
 public:
  /// Returns addresses without memory.
  virtual std::byte* reserve(std::size_t nbytes) = 0;
  /// Releases one complete result of reserve(). Nothing may be mapped there.
  virtual void release(std::byte* address, std::size_t nbytes) = 0;
  /// Maps new memory at [address, address + nbytes) as one chunk, which only unmap() or move() remove as a unit.
  virtual void map(std::byte* address, std::size_t nbytes) = 0;
  /// Unmaps the memory of one chunk. All work on it must have completed.
  virtual void unmap(std::byte* address, std::size_t nbytes) = 0;
  /// Moves the memory of one chunk to other, unmapped addresses. All work on it must have completed.
  virtual void move(std::byte* from, std::byte* to, std::size_t nbytes) = 0;

  /// Reserves and maps.
  std::byte* allocate(std::size_t nbytes) override;
  /// Unmaps and releases.
  void free(std::byte* address, std::size_t nbytes) override;
  ExpandableUpstream* as_expandable() override { return this; }
};

}  // namespace tessera::memory
