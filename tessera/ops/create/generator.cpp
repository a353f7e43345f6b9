#include "tessera/ops/create/generator.h"

#include <mutex>

#include "tessera/base/rank.h"

namespace tessera::ops {
namespace {

struct Generator {
  std::mutex mutex;
  GeneratorState state;
};

Generator& generator() {
  return current_rank()->part<Generator>([] { return std::make_shared<Generator>(); });
}

thread_local GeneratorCounterScope* innermost = nullptr;

}  // namespace

void manual_seed(std::uint64_t seed) { set_generator_state({.seed = seed, .call = 0}); }

GeneratorState generator_state() {
  Generator& of_rank = generator();
  const std::lock_guard lock(of_rank.mutex);
  return of_rank.state;
}

void set_generator_state(const GeneratorState& state) {
  Generator& of_rank = generator();
  const std::lock_guard lock(of_rank.mutex);
  of_rank.state = state;
}

GeneratorState next_call() {
  Generator& of_rank = generator();
  const std::lock_guard lock(of_rank.mutex);
  const GeneratorState taken = of_rank.state;
  ++of_rank.state.call;
  return taken;
}

GeneratorCounterScope::GeneratorCounterScope(Tensor counter) : counter_(std::move(counter)), outer_(innermost) {
  innermost = this;
}
GeneratorCounterScope::~GeneratorCounterScope() { innermost = outer_; }

Tensor generator_counter() { return innermost != nullptr ? innermost->counter_ : Tensor(); }

}  // namespace tessera::ops
