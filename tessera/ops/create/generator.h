// Where random numbers come from: a seed and a count of the calls that drew. A rank has one generator; every rank of a
// run should be seeded alike, since a sharded tensor's numbers depend on the global index of an element alone.
#pragma once

#include <cstdint>

#include "tessera/base/export.h"
#include "tessera/tensor/tensor.h"

namespace tessera::ops {

/// What a random operator draws from.
struct GeneratorState {
  std::uint64_t seed = 0;  ///< the key of all draws
  std::uint64_t call = 0;  ///< of the next draw
  /// The same numbers to come.
  friend bool operator==(const GeneratorState&, const GeneratorState&) = default;
};

/// Starts this rank's generator anew. Without it a rank starts from seed 0.
TESSERA_API void manual_seed(std::uint64_t seed);
/// Where this rank's generator stands. Thread-safe.
TESSERA_API GeneratorState generator_state();
/// Sets it, to draw the same numbers again.
TESSERA_API void set_generator_state(const GeneratorState& state);
/// Takes the numbers of one call: the state as it was, with the count moved on.
TESSERA_API GeneratorState next_call();

/// While it lives, random operators that this thread calls add `counter` to the number of their call when they run, as
/// if each had been given it (random.h): what is captured meanwhile draws anew in each replay. Scopes nest.
class TESSERA_API GeneratorCounterScope {
 public:
  /// Begins. `counter` is one i64.
  explicit GeneratorCounterScope(Tensor counter);
  /// Ends.
  ~GeneratorCounterScope();
  GeneratorCounterScope(const GeneratorCounterScope&) = delete;
  GeneratorCounterScope& operator=(const GeneratorCounterScope&) = delete;

 private:
  friend Tensor generator_counter();
  Tensor counter_;
  GeneratorCounterScope* outer_;
};
/// The counter of the innermost scope of this thread; none outside.
TESSERA_API Tensor generator_counter();

}  // namespace tessera::ops
