// Random programs on an allocator: buffers of several streams filled, copied, handed from stream to stream and freed;
// pools, captures with forks and joins, replays, trims and limits, on a host device in all its modes.
//
// A program does only what its holder may do: it orders its own work on what it holds, says use_on, and orders a replay
// after its own eager work on buffers of the graph's pool. All else is the allocator's duty, and is checked in two
// ways:
//   order    a checked device refuses work that conflicts with other work that is not ordered before it, and what
//            touches memory that is not given out
//   values   every buffer has a value known from the program, compared with the memory when all streams are done
// After each program the identity closes by walking, and with all freed nothing is left.
#pragma once

#include <cstdint>
#include <string>

namespace tessera::memory::testing {

/// Counts over many programs, to see that everything is common.
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

/// Makes, runs and checks the program of a seed. Returns what went wrong; empty: nothing.
std::string check_allocator_program(std::uint64_t seed, AllocatorProgramCounts* counts = nullptr);

}  // namespace tessera::memory::testing
