// Short training runs of a small model on synthetic samples, and their results, to compare meshes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/train/config.h"
#include "tessera/train/trainer.h"

namespace tessera::train::testing {

/// Returns a configuration, resolved for one rank, of a model for any mesh of up to 4 ranks.
Config small_config();
/// Returns the preset `tiny`, resolved for one rank, with unlimited steps, for benches. If `is_brief`, for runs that
/// only check that rows work, returns a smaller one.
Config bench_config(bool is_brief);
/// Returns the configuration on these axes.
Config on_mesh(Config config, int dp, int fsdp, int tp);
/// Returns "dp 2 x tp 2".
std::string mesh_name(const MeshConfig& mesh);

/// Returns learnable sequences: a token follows from the previous one and the number of the sample.
SampleReader synthetic_samples(const Config& config);

/// Results of a run.
struct Curve {
  std::vector<std::vector<float>> weights;  ///< Initial global weights by parameter.
  std::vector<double> losses;               ///< Losses by step.
  std::vector<double> norms;                ///< Gradient norms before clipping.
};
/// Takes config.train.steps steps, on every rank of the world. Only the first rank returns weights.
Curve run(const Config& config);
/// Calls run() on the ranks of the mesh, as threads of this process. Returns the result of the first one.
Curve run_on_ranks(const Config& config);
/// Compares a run with the expected one: initial weights bitwise, losses and norms within a relative `tolerance` at
/// every step. Returns the first difference; empty if none.
std::string difference(const Curve& got, const Curve& want, double tolerance);

}  // namespace tessera::train::testing
