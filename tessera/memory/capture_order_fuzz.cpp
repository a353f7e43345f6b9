// Random captures: the answers of the reuse prover are compared with a brute-force oracle (testing/capture_program.h).
//
//   capture_order_fuzz [--runs N] [--seed FIRST] [--seconds LIMIT]
#include "tessera/base/testing/fuzz.h"
#include "tessera/memory/testing/capture_program.h"

int main(int argc, char** argv) {
  return tessera::fuzz::run(argc, argv, "random captures compared with the oracle",
                            [](std::uint64_t seed) { return tessera::memory::testing::check_capture_program(seed); });
}
