#include "tessera/train/evaluation.h"

#include <algorithm>
#include <vector>

#include "tessera/autograd/autograd.h"
#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/memory/label.h"
#include "tessera/nn/distribute.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/ops/reduce/host_values.h"
#include "tessera/shard/redistribute.h"
#include "tessera/tensor/device_context.h"
#include "tessera/train/detail/batch.h"

namespace tessera::train {
namespace {

// Switches a model to evaluation for the lifetime of the scope.
class EvaluationScope {
 public:
  explicit EvaluationScope(const nn::Module& model) : model_(model), was_training_(model.is_training()) {
    model_.eval();
  }
  ~EvaluationScope() { model_.train(was_training_); }
  EvaluationScope(const EvaluationScope&) = delete;
  EvaluationScope& operator=(const EvaluationScope&) = delete;

 private:
  nn::Module model_;
  bool was_training_;
  autograd::NoGrad no_grad_;
};

}  // namespace

double evaluate(const nn::LanguageModel& model, const ParallelPlan& plan, std::int64_t sequence,
                const SampleReader& read, std::int64_t samples, const OnProgress& on_progress) {
  const double count = static_cast<double>(samples * sequence);
  const auto loss_of = [&](std::int64_t first) {
    const detail::HeldOutRows own = detail::held_out_rows(read, first, samples, sequence, plan);
    const Batch batch = detail::batch_of(own.tokens, plan, own.real);
    return model.loss(batch[0], batch[1], count);
  };
  return detail::sum_of_losses(model.module(), plan.rows(), samples, loss_of, on_progress);
}

namespace detail {

HeldOutRows held_out_rows(const SampleReader& read, std::int64_t first, std::int64_t samples, std::int64_t sequence,
                          const ParallelPlan& plan) {
  const auto width = static_cast<std::size_t>(sequence) + 1;
  const std::int64_t own = plan.data_place(current_place().rank) * plan.own_rows();
  HeldOutRows rows{std::vector<std::int32_t>(static_cast<std::size_t>(plan.own_rows()) * width),
                   std::clamp<std::int64_t>(samples - first - own, 0, plan.own_rows())};
  for (std::int64_t i = 0; i < rows.real; ++i) {
    read(static_cast<std::uint64_t>(first + own + i),
         std::span(rows.tokens).subspan(static_cast<std::size_t>(i) * width, width));
  }
  return rows;
}

double sum_of_losses(const nn::Module& model, std::int64_t rows, std::int64_t samples,
                     const std::function<Tensor(std::int64_t first)>& loss_of, const OnProgress& on_progress) {
  const EvaluationScope evaluating(model);
  const memory::Label label("activations");
  Tensor loss;
  for (std::int64_t first = 0; first < samples; first += rows) {
    const Tensor part = loss_of(first);
    nn::release_gathered(model);
    loss = loss ? ops::add(loss, part) : part;
    if (!on_progress || first + rows >= samples) continue;
    tensor::current_stream(tensor::default_device()).synchronize();  // until here, work is only enqueued
    on_progress(static_cast<std::uint64_t>(first / rows + 1), static_cast<std::uint64_t>((samples + rows - 1) / rows));
  }
  if (!loss) return 0;
  const Tensor whole =
      loss.has_layout() ? shard::redistribute(loss, layout::Layout::replicated(loss.layout().mesh())).local() : loss;
  return whole.storage().has_values() ? ops::item(whole).as_double() : 0;
}

}  // namespace detail
}  // namespace tessera::train
