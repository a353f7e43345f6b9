// Random graphs that share memory, announced, added or dropped, removed and replayed on several streams, to test
// ReplayOrder (detail/replay_order.h).
//
// The model is an array of bytes. Each stores the replay that wrote it last and the replays that have read it since. A
// replay is invalid if a byte of an input was last written by another than the expected writer (without one: by any
// graph since the reader was added), or if a conflicting replay of another graph does not happen before it. In most
// programs the clocks know that replays of one graph are ordered; then a replay must be rejected if and only if it is
// invalid. In the others they do not, as on a real device; then no invalid replay may pass, and a replay may be
// rejected only if the rule of replay_order.h, evaluated byte by byte over all replays, rejects it.
#pragma once

#include <cstdint>
#include <string>

namespace tessera::memory::testing {

/// Counts over many programs, to check that both answers are common.
struct ReplayCounts {
  std::uint64_t accepted = 0;
  std::uint64_t refused = 0;
};

/// Generates and checks the program of a seed. Returns the failure; empty if none.
std::string check_replay_program(std::uint64_t seed, ReplayCounts* counts = nullptr);

}  // namespace tessera::memory::testing
