// Random programs on an allocator; testing/allocator_program.h describes them and the checks.
//
//   allocator_fuzz [--runs N] [--seed FIRST] [--seconds LIMIT]
#include "tessera/base/testing/fuzz.h"
#include "tessera/memory/testing/allocator_program.h"

int main(int argc, char** argv) {
  return tessera::fuzz::run(argc, argv, "random programs on an allocator",
                            [](std::uint64_t seed) { return tessera::memory::testing::check_allocator_program(seed); });
}
