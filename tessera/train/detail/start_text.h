// The lines that a run prints before its first step: model, data, mesh, compute, memory and run directory.
//
//   llama tiny: 0.8 M parameters, 4 layers, vocabulary 256, sequence 128
//   data: 105984 tokens for training, 11776 held out; from text
//   mesh dp=2, tp=2 on 4 ranks (shm, host); batch 8 x 128 tokens; f32 compute, f32 state
//   compute: oneDNN 2.6.3 (avx512_core_bf16), 101 GFLOP/s per thread; 2 threads per rank
//   memory: 14.2 MiB per rank predicted (parameters 1.6 MiB, ...); 21 GiB free on host
//   run directory: /data/runs/20261118-060308-25248
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/train/config.h"
#include "tessera/train/trainer.h"

namespace tessera::train::detail {

/// Values of the lines.
struct StartFacts {
  const Config& config;
  std::int64_t parameters = 0;                   ///< Parameter elements over all ranks.
  std::string name = {};                         ///< Name of a task; empty: a language model.
  std::uint64_t training = 0;                    ///< Tokens of the training data; samples of a task.
  std::uint64_t held_out = 0;                    ///< Tokens or samples; 0: no held-out data.
  std::string device = {};                       ///< Name of the device of this rank.
  std::string why_host = {};                     ///< Why no other device is used. Empty: no reason.
  std::string_view backend = {};                 ///< Backend of the world; empty: one rank.
  std::string compute = {};                      ///< Lines of compute_text().
  std::vector<OwnedBytes> predicted = {};        ///< Predicted memory of one rank, by owner.
  std::optional<std::int64_t> free_nbytes = {};  ///< Of `device`, before the model was created; unset: unknown.
  std::string directory = {};
};

/// Returns the FLOP/s that products of this dtype (f32 or bf16) reach on the threads of this rank. Measures for 50 ms.
double measured_flops(std::string_view dtype);
/// Returns the line on products of this dtype and threads of this rank, with a warning if products are slow. Measures
/// for 50 ms.
std::string compute_text(std::string_view dtype);
/// Returns the lines on the model and its mesh, each with its line end.
std::string plan_text(const StartFacts& facts);
/// Returns the lines, each with its line end.
std::string start_text(const StartFacts& facts);

}  // namespace tessera::train::detail
