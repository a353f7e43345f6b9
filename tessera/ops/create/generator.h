// The random number generator of a rank: a seed and a counter of the calls that drew numbers. Each rank has one
// generator. Seed all ranks of a run equally: the numbers of a sharded tensor depend on the global index of each
// element, not on the rank.
#pragma once

#include <cstdint>

#include "tessera/base/export.h"
#include "tessera/tensor/tensor.h"

namespace tessera::ops {

/// State of a generator. It determines all following draws.
struct GeneratorState {
  std::uint64_t seed = 0;  ///< key of all draws
  std::uint64_t call = 0;  ///< number of the next call
  /// Returns true if both states produce the same numbers.
  friend bool operator==(const GeneratorState&, const GeneratorState&) = default;
};

/// Restarts the generator of this rank. The initial seed is 0. Thread-safe.
TESSERA_API void manual_seed(std::uint64_t seed);
/// Returns the state of the generator of this rank. Thread-safe.
TESSERA_API GeneratorState generator_state();
/// Sets the state of the generator of this rank, for example to draw the same numbers again. Thread-safe.
TESSERA_API void set_generator_state(const GeneratorState& state);
/// Returns the state for one call and increments the call counter. Thread-safe.
TESSERA_API GeneratorState next_call();

/// Adds `counter` to the call number of all random operators that this thread calls during the lifetime of the scope,
/// as their `counter` argument does (random.h). Captured operators therefore draw new numbers in each replay. Scopes
/// nest.
class TESSERA_API GeneratorCounterScope {
 public:
  /// Begins the scope. `counter` is one i64.
  explicit GeneratorCounterScope(Tensor counter);
  /// Ends the scope.
  ~GeneratorCounterScope();
  GeneratorCounterScope(const GeneratorCounterScope&) = delete;
  GeneratorCounterScope& operator=(const GeneratorCounterScope&) = delete;

 private:
  friend Tensor generator_counter();
  Tensor counter_;
  GeneratorCounterScope* outer_;
};
/// Returns the counter of the innermost scope of this thread; an empty handle outside all scopes.
TESSERA_API Tensor generator_counter();

}  // namespace tessera::ops
