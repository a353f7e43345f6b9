// The mean loss of a model over numbered samples.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/nn/language_model.h"
#include "tessera/train/on_progress.h"
#include "tessera/train/plan.h"

namespace tessera::train {

/// Writes sample `number`, sequence + 1 tokens, to `tokens`.
using SampleReader = std::function<void(std::uint64_t number, std::span<std::int32_t> tokens)>;

/// Returns the mean loss over the first `samples` samples of `sequence` tokens; the same on all ranks. Computes batches
/// of plan.rows() samples in evaluation mode. Calls `on_progress` with batches after each batch but the last. If it
/// throws, it must do so on all ranks after the same batch: a batch holds collectives.
TESSERA_API double evaluate(const nn::LanguageModel& model, const ParallelPlan& plan, std::int64_t sequence,
                            const SampleReader& read, std::int64_t samples, const OnProgress& on_progress = {});

namespace detail {

/// Rows of held-out samples that a rank computes: sequence + 1 tokens each. Rows from `real` on are padding.
struct HeldOutRows {
  std::vector<std::int32_t> tokens;
  std::int64_t real = 0;
};

/// Reads the rows of this rank of the batch that begins with sample `first` of `samples`.
HeldOutRows held_out_rows(const SampleReader& read, std::int64_t first, std::int64_t samples, std::int64_t sequence,
                          const ParallelPlan& plan);
/// Returns the sum of loss_of(first) over batches of `rows` samples, in evaluation mode; see evaluate(). Returns 0 on a
/// device without values.
double sum_of_losses(const nn::Module& model, std::int64_t rows, std::int64_t samples,
                     const std::function<Tensor(std::int64_t first)>& loss_of, const OnProgress& on_progress);

}  // namespace detail
}  // namespace tessera::train
