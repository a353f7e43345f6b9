// Where an allocator's memory comes from. Two forms:
//
//   Upstream             allocate, free: whole segments with addresses of their own (fixed segments)
//   ExpandableUpstream   reserve, release: addresses; map, unmap, move: memory behind parts of them
//
// The device's own is expandable (device_upstream.h); decorators (decorators.h) wrap either form; a user's own, for a
// pool of registered memory, implements the first. Calls come one at a time from one allocator, never on its hot path,
// and never a call that gives memory back while a capture is under way. A call either does its work or throws
// (OutOfMemory where there is no room) and has changed nothing.
#pragma once

#include <cstddef>
#include <string>

#include "tessera/base/export.h"

namespace tessera::memory {

class ExpandableUpstream;

/// A source of whole segments.
class TESSERA_API Upstream {
 public:
  virtual ~Upstream() = default;
  /// For people: "cuda:0", "pinned memory of cuda:0".
  [[nodiscard]] virtual std::string name() const = 0;
  /// Sizes, and addresses inside a reservation, are multiples of it; a power of two, at least 512.
  [[nodiscard]] virtual std::size_t granularity() const = 0;
  /// The most it could ever give.
  [[nodiscard]] virtual std::size_t capacity_nbytes() const = 0;
  /// Memory with addresses of its own, aligned to 512 bytes at least.
  virtual std::byte* allocate(std::size_t nbytes) = 0;
  /// Gives back exactly what allocate() gave. All work on it has completed.
  virtual void free(std::byte* address, std::size_t nbytes) = 0;
  /// This upstream's expandable form; null when it has none.
  virtual ExpandableUpstream* as_expandable() { return nullptr; }
};

/// A source of addresses, and of memory to put behind them.
class TESSERA_API ExpandableUpstream : public Upstream {
 public:
  /// Addresses with nothing behind them.
  virtual std::byte* reserve(std::size_t nbytes) = 0;
  /// Gives back exactly what reserve() gave; nothing is mapped there.
  virtual void release(std::byte* address, std::size_t nbytes) = 0;
  /// Puts new memory behind [address, address + nbytes) as one piece, which only unmap() or move() take away whole.
  virtual void map(std::byte* address, std::size_t nbytes) = 0;
  /// Gives the memory of one piece back. All work on it has completed.
  virtual void unmap(std::byte* address, std::size_t nbytes) = 0;
  /// Moves the memory of one piece behind other addresses, where nothing is mapped. All work on it has completed.
  virtual void move(std::byte* from, std::byte* to, std::size_t nbytes) = 0;

  /// Reserves and maps.
  std::byte* allocate(std::size_t nbytes) override;
  /// Unmaps and releases.
  void free(std::byte* address, std::size_t nbytes) override;
  ExpandableUpstream* as_expandable() override { return this; }
};

}  // namespace tessera::memory
