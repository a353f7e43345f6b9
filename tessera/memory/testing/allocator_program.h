// Random programs on an allocator: buffers of several streams are filled, copied, passed between streams and freed;
// with pools, captures with forks and joins, replays, trims and limits, on a host device in all its modes.
//
// A program follows the rules for callers: it orders its own work on its buffers, calls use_on, and orders a replay
// after its own eager work on buffers of the pool of the graph. The allocator is responsible for the rest, which is
// checked in two ways:
//   order    a checked device rejects work that conflicts with unordered work, and accesses to memory that is not
//            allocated
//   values   every buffer has a value known from the program, compared with the memory when all streams are done
// After each program the identity of snapshot.h holds and, with all freed, nothing is left.
#pragma once

#include <cstdint>
#include <string>

namespace tessera::memory::testing {

/// Counts over many programs, to check that all cases are common.
struct AllocatorProgramCounts {
  std::uint64_t allocations = 0;
  std::uint64_t out_of_memory = 0;
  std::uint64_t device_waits = 0;
  std::uint64_t covered_reuses = 0;
  std::uint64_t capture_reuses = 0;
  std::uint64_t moves = 0;
  std::uint64_t captures = 0;
  std::uint64_t replays = 0;
  std::uint64_t refused_replays = 0;
  std::uint64_t values_compared = 0;
  std::uint64_t restores = 0;
};

/// Generates, runs and checks the program of a seed. Returns the failure; empty if none.
std::string check_allocator_program(std::uint64_t seed, AllocatorProgramCounts* counts = nullptr);

}  // namespace tessera::memory::testing
