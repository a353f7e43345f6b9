// Short training runs of a small model on synthetic samples, and what they gave: what meshes are held against.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/train/config.h"
#include "tessera/train/trainer.h"

namespace tessera::train::testing {

/// A resolved configuration of a model that any mesh of up to 4 ranks can be made of, on one rank.
Config small_config();
/// The preset `tiny`, resolved for one rank, for as many steps as one likes: what benches take steps of. Where rows are
/// only run to see that they work (`is_brief`), a smaller one.
Config bench_config(bool is_brief);
/// On these axes.
Config on_mesh(Config config, int dp, int fsdp, int tp);
/// "dp 2 x tp 2".
std::string mesh_name(const MeshConfig& mesh);

/// Sequences that can be learnt: a token follows from the one before it and the number of the sample.
SampleReader synthetic_samples(const Config& config);

/// What a run gave.
struct Curve {
  std::vector<std::vector<float>> weights;  ///< initial ones, whole, by parameter
  std::vector<double> losses;               ///< by step
  std::vector<double> norms;                ///< of gradients, before clipping
};
/// Takes config.train.steps steps, as every rank of the world does. The weights on the first rank alone.
Curve run(const Config& config);
/// run() on as many ranks, threads of this process, as the mesh has: what the first one saw.
Curve run_on_ranks(const Config& config);
/// What is wrong with a run, given what it is to be: initial weights bit for bit, losses and norms within `tolerance`
/// relative at every step. Empty: nothing.
std::string difference(const Curve& got, const Curve& want, double tolerance);

}  // namespace tessera::train::testing
