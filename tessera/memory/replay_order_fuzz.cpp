// Random graphs that share memory, replayed in random orders on several streams; rejections are compared with a model
// of bytes (testing/replay_program.h).
//
//   replay_order_fuzz [--runs N] [--seed FIRST] [--seconds LIMIT]
#include "tessera/base/testing/fuzz.h"
#include "tessera/memory/testing/replay_program.h"

int main(int argc, char** argv) {
  return tessera::fuzz::run(argc, argv, "random replay orders compared with the model of bytes",
                            [](std::uint64_t seed) { return tessera::memory::testing::check_replay_program(seed); });
}
