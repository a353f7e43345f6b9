// Random captures to test the reuse prover (detail/capture_order.h): streams, overlapping launches, forks and joins,
// replaced dependencies, and blocks that are allocated, used, freed and requested again.
//
// The oracle knows every node and edge, and the nodes that used each block in all its lives. It computes from scratch
// which nodes complete before the next operation of a stream. Every answer is checked twice:
//   safe    yes only if every node that ever used the block is complete (of those that the prover can know: with
//           unobserved replacements, those before a dependency set that it received)
//   exact   yes if everything that the prover has to assume is complete. For each stream that used the block, with the
//           received dependency sets: the set in force at the allocation and all later ones; all nodes first found
//           before them since; and the direct dependencies of those nodes
#pragma once

#include <cstdint>
#include <string>

namespace tessera::memory::testing {

/// Counts over many programs, to check that both answers are common.
struct CaptureCounts {
  std::uint64_t proven = 0;
  std::uint64_t refused = 0;
};

/// Generates and checks the program of a seed. Returns the failure; empty if none.
std::string check_capture_program(std::uint64_t seed, CaptureCounts* counts = nullptr);

}  // namespace tessera::memory::testing
