// Random graphs that share memory, announced, added or dropped, removed and replayed on several streams, against which
// ReplayOrder (detail/replay_order.h) is held.
//
// The model is an array of bytes. Each remembers which replay wrote it last and which have read it since. A replay is
// bad if a byte of an input was last written by another than the expected writer (where no graph is: by any since the
// reader was added), or if a replay of another graph that it conflicts with on some byte does not happen before it. In
// most programs the clocks know that replays of one graph follow each other; then a replay must be refused if and only
// if it is bad. In the others they do not, as on a real device; then no bad replay may pass, and none may be refused
// unless the rule of replay_order.h, evaluated byte by byte over all replays there ever were, says so.
#pragma once

#include <cstdint>
#include <string>

namespace tessera::memory::testing {

/// Counts over many programs, to see that both answers are common.
struct ReplayCounts {
  std::uint64_t accepted = 0;  ///< replays made
  std::uint64_t refused = 0;   ///< replays refused
};

/// Makes and checks the program of a seed. Returns what went wrong; empty: nothing.
std::string check_replay_program(std::uint64_t seed, ReplayCounts* counts = nullptr);

}  // namespace tessera::memory::testing
