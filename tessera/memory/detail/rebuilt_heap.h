// The memory of one allocator as records tell it, address by address: which runs are mapped, which blocks in them are
// not cached. The later record is the truth: what is put replaces whatever it overlaps. Records may be lost, torn or
// false, so nothing is believed to fit: segments() gives blocks that tile whatever was put in.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "tessera/base/probe/schema.h"

namespace tessera::memory::detail {

/// Whom a mapped run belongs to.
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

/// One run of mapped memory with the blocks in it that are not cached, in address order.
struct RebuiltRun {
  std::uint64_t address = 0;
  std::uint64_t nbytes = 0;
  RunOwner owner;
  std::vector<std::pair<std::uint64_t, RebuiltBlock>> blocks;
};

/// See the head of this file. Addresses and sizes must not pass the end of all addresses; sizes are not 0.
class RebuiltHeap {
 public:
  void map(std::uint64_t address, std::uint64_t nbytes, const RunOwner& owner);
  /// Blocks there are gone.
  void unmap(std::uint64_t address, std::uint64_t nbytes);
  void put(std::uint64_t address, const RebuiltBlock& block);
  /// The block that starts there, or null.
  RebuiltBlock* find(std::uint64_t address);
  void erase(std::uint64_t address) { blocks_.erase(address); }

  /// Runs in address order, each block inside one. Blocks that lie in no run get one; `unmapped` counts these.
  [[nodiscard]] std::vector<RebuiltRun> runs(std::uint64_t* unmapped) const;

 private:
  struct Run {
    std::uint64_t end = 0;
    RunOwner owner;
  };
  using Runs = std::map<std::uint64_t, Run>;

  static void cut(Runs& runs, std::uint64_t begin, std::uint64_t end);
  static void insert(Runs& runs, std::uint64_t begin, std::uint64_t end, RunOwner owner);
  static Runs::const_iterator run_at(const Runs& runs, std::uint64_t address);
  void erase_overlapping(std::uint64_t begin, std::uint64_t end);

  Runs runs_;
  std::map<std::uint64_t, RebuiltBlock> blocks_;
};

}  // namespace tessera::memory::detail
