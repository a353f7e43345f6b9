// Random calls of operators. Where propagation says that inputs fit together, every rank computes from what it holds
// and must end up with the piece that was claimed.
//   layout_propagate_fuzz [--runs N] [--seed S] [--seconds T]
#include "tessera/base/testing/fuzz.h"
#include "tessera/layout/propagate.h"
#include "tessera/layout/testing/random_calls.h"
#include "tessera/layout/testing/rule_values.h"

namespace tessera::layout::testing {
namespace {

std::string check_one(std::uint64_t seed) {
  Random random(seed);
  const CallOptions options;
  const RandomCall call = random_call(random, random_mesh(random, options), options);
  const Propagation found = propagate(call.rule, call.inputs, call.outputs);
  if (!found.is_match()) return {};
  const std::string wrong = check_values(call.rule, call.inputs, call.outputs, found.outputs, seed);
  return wrong.empty() ? std::string() : wrong + "\n  " + call.text();
}

}  // namespace
}  // namespace tessera::layout::testing

int main(int argc, char** argv) {
  return tessera::fuzz::run(argc, argv, "random calls", tessera::layout::testing::check_one);
}
