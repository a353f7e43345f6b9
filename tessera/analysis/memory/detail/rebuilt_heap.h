// The memory of one allocator rebuilt from records, by address: mapped runs, and their blocks that are not cached. The
// later record is valid: it replaces everything it overlaps. Records may be lost, torn or wrong, so nothing is assumed
// to fit: runs() returns blocks that tile for any input.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "tessera/base/probe/schema.h"

namespace tessera::analysis::detail {

/// Owner of a mapped run.
struct RunOwner {
  std::uint32_t stream = 0;
  std::uint32_t pool = 0;  // number of its MemoryPoolRow
  bool is_expandable = false;
  friend bool operator==(const RunOwner&, const RunOwner&) = default;
};

/// A block that is not cached.
struct RebuiltBlock {
  std::uint64_t nbytes = 0;
  std::uint64_t requested = 0;
  std::uint32_t stream = 0;
  std::uint32_t pool = 0;  // number of its MemoryPoolRow
  bool is_pending = false;
  probe::StringId label;
  probe::StringId stack;
  std::int64_t time_ns = 0;
};

/// A run of mapped memory with its blocks that are not cached, in address order.
struct RebuiltRun {
  std::uint64_t address = 0;
  std::uint64_t nbytes = 0;
  RunOwner owner;
  std::vector<std::pair<std::uint64_t, RebuiltBlock>> blocks;
};

/// Rebuilt memory. Ranges must not exceed the address space, and sizes must not be 0.
class RebuiltHeap {
 public:
  void map(std::uint64_t address, std::uint64_t nbytes, const RunOwner& owner);
  /// Removes the blocks there, too.
  void unmap(std::uint64_t address, std::uint64_t nbytes);
  void put(std::uint64_t address, const RebuiltBlock& block);
  /// Returns the block that starts there, or null.
  RebuiltBlock* find(std::uint64_t address);
  void erase(std::uint64_t address) { blocks_.erase(address); }

  /// Returns runs in address order, each block inside one. Blocks outside all runs get one; `unmapped` counts these.
  [[nodiscard]] std::vector<RebuiltRun> runs(std::uint64_t* unmapped) const;

 private:
  struct HeapRun {
    std::uint64_t end = 0;
    RunOwner owner;
  };
  using Runs = std::map<std::uint64_t, HeapRun>;

  static void cut(Runs& runs, std::uint64_t begin, std::uint64_t end);
  static void insert(Runs& runs, std::uint64_t begin, std::uint64_t end, RunOwner owner);
  static Runs::const_iterator run_at(const Runs& runs, std::uint64_t address);
  void erase_overlapping(std::uint64_t begin, std::uint64_t end);

  Runs runs_;
  std::map<std::uint64_t, RebuiltBlock> blocks_;
};

}  // namespace tessera::analysis::detail
