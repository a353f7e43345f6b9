#include "tessera/memory/snapshot.h"

#include <fmt/format.h>

namespace tessera::memory {
namespace {

void add(Totals& sums, const SegmentView& segment) {
  sums.reserved_nbytes += segment.nbytes;
  for (const BlockView& block : segment.blocks) {
    switch (block.state) {
      case BlockState::kLive:
        sums.live_nbytes += block.requested_nbytes;
        sums.rounding_nbytes += block.nbytes - block.requested_nbytes;
        ++sums.live_blocks;
        break;
      case BlockState::kPending:
        sums.pending_nbytes += block.nbytes;
        ++sums.pending_blocks;
        break;
      case BlockState::kCached:
        sums.cached_nbytes += block.nbytes;
        ++sums.cached_blocks;
        break;
    }
  }
}

bool passes_the_end(std::uint64_t address, std::uint64_t nbytes) { return address + nbytes < address; }

std::string problem_of(const SegmentView& segment) {
  const auto in_segment = [&] { return fmt::format("segment {:#x} of {} bytes", segment.address, segment.nbytes); };
  if (segment.nbytes == 0) return in_segment() + " is empty";
  if (passes_the_end(segment.address, segment.nbytes)) return in_segment() + " exceeds the address space";
  std::uint64_t next = segment.address;
  for (const BlockView& block : segment.blocks) {
    const auto in_block = [&] {
      return fmt::format("{}: block {:#x} of {} bytes", in_segment(), block.address, block.nbytes);
    };
    if (block.address != next) return fmt::format("{} should start at {:#x}", in_block(), next);
    if (block.nbytes == 0) return in_block() + " is empty";
    if (block.nbytes > segment.address + segment.nbytes - next) return in_block() + " exceeds its segment";
    if (block.requested_nbytes > block.nbytes)
      return fmt::format("{} is smaller than the requested {}", in_block(), block.requested_nbytes);
    if (block.state == BlockState::kCached && block.requested_nbytes != 0)
      return fmt::format("{} is cached, but {} are requested", in_block(), block.requested_nbytes);
    next += block.nbytes;
  }
  if (next != segment.address + segment.nbytes) return fmt::format("{}: its blocks end at {:#x}", in_segment(), next);
  return {};
}

}  // namespace

std::string_view to_string(BlockState state) {
  switch (state) {
    case BlockState::kLive: return "live";
    case BlockState::kPending: return "pending";
    case BlockState::kCached: return "cached";
  }
  return "unknown";
}

std::string_view to_string(Action action) {
  switch (action) {
    case Action::kAlloc: return "alloc";
    case Action::kFreeRequested: return "free requested";
    case Action::kFreeCompleted: return "free completed";
    case Action::kMap: return "map";
    case Action::kUnmap: return "unmap";
    case Action::kOutOfMemory: return "out of memory";
    case Action::kSnapshot: return "snapshot";
  }
  return "unknown";
}

Totals Snapshot::totals() const {
  Totals sums;
  for (const SegmentView& segment : segments) add(sums, segment);
  return sums;
}

Totals Snapshot::totals(PoolId pool) const {
  Totals sums;
  for (const SegmentView& segment : segments) {
    if (segment.pool == pool) add(sums, segment);
  }
  return sums;
}

std::string Snapshot::inconsistency() const {
  const SegmentView* before = nullptr;
  for (const SegmentView& segment : segments) {
    if (std::string problem = problem_of(segment); !problem.empty()) return problem;
    if (before != nullptr && segment.address < before->address)
      return fmt::format("segment {:#x} comes after {:#x}", segment.address, before->address);
    if (before != nullptr && segment.address < before->address + before->nbytes)
      return fmt::format("segment {:#x} overlaps the {} bytes at {:#x}", segment.address, before->nbytes,
                         before->address);
    before = &segment;
  }
  return {};
}

}  // namespace tessera::memory
