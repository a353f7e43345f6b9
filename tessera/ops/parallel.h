// Runs the chunks of a loop on the threads of the rank. The chunks depend only on the sizes, never on the number of
// threads, so that results have the same bits for any thread budget (TESSERA_THREADS).
//
// Internal to the library; trainers and benches read and set the thread budget. Host kernels call this on the thread of
// a stream when they run. The caller also works. A nested loop, or a loop that runs while another stream of the rank
// has the helpers, runs on its caller only.
#pragma once

#include <cstdint>

#include "tessera/base/export.h"

namespace tessera::ops::detail {

/// A non-owning reference to the function of a chunk.
struct PieceFn {
  void (*call)(const void* body, std::int64_t begin, std::int64_t end);
  const void* body;
};

/// Returns the number of threads that a loop of this rank may use, including the caller.
TESSERA_API int thread_budget();
/// Sets the thread budget of this rank, at least 1. For tests and benches.
TESSERA_API void set_thread_budget(int threads);
/// Returns the number of helper threads that the loops of this rank have requested so far. For tests.
TESSERA_API std::uint64_t helpers_requested();
/// Type-erased form of parallel_for.
TESSERA_API void run_pieces(std::int64_t count, std::int64_t grain, PieceFn piece);

/// Calls body(begin, end) for [0, grain), [grain, 2 * grain) ... up to `count`, in any order and concurrently. Rethrows
/// the error of the first chunk that failed.
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
