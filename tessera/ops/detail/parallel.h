// Runs the pieces of a loop on the threads of the rank. Which pieces there are depends on the sizes alone, never on how
// many threads run them, so that results have the same bits for any budget (TESSERA_THREADS).
//
// Called by host kernels when they run, on a stream's thread. The caller works too. A loop inside a loop, or beside
// another stream's, runs on its caller alone.
#pragma once

#include <cstdint>

#include "tessera/base/export.h"

namespace tessera::ops::detail {

/// A function of a piece, without owning it.
struct PieceFn {
  void (*call)(const void* body, std::int64_t begin, std::int64_t end);
  const void* body;
};

/// Threads that a loop of this rank may use, the caller among them.
TESSERA_API int thread_budget();
/// Changes it for this rank; at least 1. For tests and benches.
TESSERA_API void set_thread_budget(int threads);
/// Returns how many helping threads the loops of this rank have requested so far. For tests.
TESSERA_API std::uint64_t helpers_requested();
/// The untyped form of parallel_for.
TESSERA_API void run_pieces(std::int64_t count, std::int64_t grain, PieceFn piece);

/// Calls body(begin, end) for [0, grain), [grain, 2 * grain) ... up to `count`, in any order and side by side. Rethrows
/// the error of the first piece that failed.
template <class F>
void parallel_for(std::int64_t count, std::int64_t grain, const F& body) {
  if (count <= grain) {
    if (count > 0) body(std::int64_t{0}, count);
    return;
  }
  run_pieces(
      count, grain,
      {[](const void* at, std::int64_t begin, std::int64_t end) { (*static_cast<const F*>(at))(begin, end); }, &body});
}

}  // namespace tessera::ops::detail
