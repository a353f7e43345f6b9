// Random programs on random layouts against one device: sequences of operators, redistributions if operands do not fit,
// gradients of all leaves (testing/random_program.h). One in four runs its ranks in turns, in an order of the seed.
//   shard_programs_fuzz [--runs N] [--seed S] [--seconds T]
#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/base/testing/fuzz.h"
#include "tessera/comm/world.h"
#include "tessera/device/device.h"
#include "tessera/shard/testing/all_ranks.h"
#include "tessera/shard/testing/random_program.h"

namespace tessera::shard::testing {
namespace {

using tessera::detail::concat;

// Runs one rank and adds its results: tensors by line, then gradients by leaf.
std::string run_rank(const RandomProgram& program, Results& results) {
  const ProgramRun run = program.run_sharded();
  device::Device::get("host").synchronize();
  if (!run.refused.empty()) return run.refused;
  for (std::size_t i = 0; i < run.tensors.size(); ++i) {
    if (!run.tensors[i].has_layout()) return concat("%", i, " has no layout");
    results.hand_in(i, run.tensors[i]);
  }
  for (std::size_t g = 0; g < run.gradients.size(); ++g) {
    if (run.gradients[g]) results.hand_in(program.lines().size() + g, run.gradients[g]);
  }
  return {};
}

std::string wrong_in(const RandomProgram& program, const ProgramRun& want, const Results& results) {
  for (std::size_t i = 0; i < want.tensors.size(); ++i) {
    const std::string wrong = results.wrong_with(i, ops::testing::read(want.tensors[i]), program.tolerance());
    if (!wrong.empty()) return concat("%", i, ": ", wrong);
  }
  for (std::size_t g = 0; g < want.gradients.size(); ++g) {
    if (!want.gradients[g]) continue;
    const Whole gradient = ops::testing::read(want.gradients[g]);
    const std::string wrong = results.wrong_with(program.lines().size() + g, gradient, program.tolerance() * 100);
    if (!wrong.empty()) return concat("gradient of floating leaf ", g, ": ", wrong);
  }
  return {};
}

std::string check_one(std::uint64_t seed) {
  const RandomProgram program(seed);
  const ProgramRun want = program.run_whole();
  ops::testing::wait_for_work();
  if (!want.refused.empty()) return concat("one device: ", want.refused, "\n", program.text());
  Results results(program.world_size());
  std::vector<std::string> refused(static_cast<std::size_t>(program.world_size()));
  SimulateOptions how;
  if (seed % 4 == 0) how.seed = seed;
  std::string wrong;
  try {
    simulate(
        program.world_size(),
        [&] { refused[static_cast<std::size_t>(current_place().rank.value())] = run_rank(program, results); }, how);
    for (std::size_t rank = 0; rank < refused.size() && wrong.empty(); ++rank) {
      if (!refused[rank].empty()) wrong = concat("rank ", rank, ": ", refused[rank]);
    }
    if (wrong.empty()) wrong = wrong_in(program, want, results);
  } catch (const std::exception& error) {
    wrong = error.what();
  }
  return wrong.empty() ? wrong : concat(wrong, "\n", program.text(), "\n");
}

}  // namespace
}  // namespace tessera::shard::testing

int main(int argc, char** argv) {
  return tessera::fuzz::run(argc, argv, "programs", tessera::shard::testing::check_one);
}
