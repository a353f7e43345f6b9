// Prediction of a step on a large mesh (predict.h).
#include <fstream>
#include <string>

#include "tessera/base/testing/bench.h"
#include "tessera/train/predict.h"

namespace tessera::train {
namespace {

// Returns the largest resident memory of this process so far, in MiB.
double peak_resident() {
  std::ifstream in("/proc/self/status");
  for (std::string word; in >> word;) {
    double kib = 0;
    if (word == "VmHWM:" && in >> kib) return kib / 1024;
  }
  return 0;
}

TESSERA_BENCH(predict) {
  Config config;
  config.model.preset = context.is_brief() ? "tiny" : "8b";
  config.train.dtype = "bf16";
  config.train.batch = 64;
  config.mesh = {.dp = 4, .fsdp = 8, .tp = context.is_brief() ? 2 : 8};
  const int ranks = config.mesh.dp * config.mesh.fsdp * config.mesh.tp;
  context.measure({.name = "predict_8b_4x8x8",
                   .unit = "s",
                   .ours = [&]() -> double {
                     const auto start = std::chrono::steady_clock::now();
                     (void)predict(config, ranks);
                     return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
                   },
                   .reference_name = "memory, FLOPs and collectives of a step, of one rank",
                   .must = 5});
  context.measure({.name = "predict_8b_4x8x8_memory",
                   .unit = "MiB",
                   .ours = [] { return peak_resident(); },
                   .reference_name = "peak resident memory of the process",
                   .must = 1024});
}

}  // namespace
}  // namespace tessera::train
