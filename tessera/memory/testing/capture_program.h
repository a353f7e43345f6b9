// Random captures against which the reuse prover (detail/capture_order.h) is held: streams, overlapping launches, forks
// and joins, replaced dependencies, and blocks that are allocated, used, freed and asked for again.
//
// The oracle knows every node and edge, and which nodes used which block in all its lives. It answers from scratch,
// each time, what is complete before a stream's next operation. Two things are checked of every answer:
//   safe    yes only if every node that ever used the block is complete (of those the prover can know: with
//           replacements nobody told it of, those behind a dependency set it was told of)
//   exact   yes whenever everything the prover has to assume is complete. For each stream that used the block, with the
//           dependency sets that were told: the set in force when the block was handed out and all later ones; all
//           nodes first found behind them since; and what those nodes directly depend on
#pragma once

#include <cstdint>
#include <string>

namespace tessera::memory::testing {

/// Counts over many programs, to see that both answers are common.
struct CaptureCounts {
  std::uint64_t proven = 0;   ///< reuses proven
  std::uint64_t refused = 0;  ///< reuses not proven
};

/// Makes and checks the program of a seed. Returns what went wrong; empty: nothing.
std::string check_capture_program(std::uint64_t seed, CaptureCounts* counts = nullptr);

}  // namespace tessera::memory::testing
