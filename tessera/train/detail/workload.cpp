#include "tessera/train/detail/workload.h"

#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/nn/packing.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/tensor/device_context.h"
#include "tessera/train/data/detail/permutation.h"
#include "tessera/train/detail/batch.h"
#include "tessera/train/detail/host_copies.h"
#include "tessera/train/make_model.h"

namespace tessera::train::detail {

LanguageWorkload::LanguageWorkload(const Config& config, const ParallelPlan& plan,
                                   const std::shared_ptr<shard::ExposedTime>& exposed, BatchSource rows,
                                   std::optional<std::uint32_t> end_of_text)
    : plan_(plan),
      model_(make_model(config, plan, exposed)),
      rows_(std::move(rows)),
      sequence_(config.model.sequence),
      step_tokens_(static_cast<double>(config.train.batch * config.model.sequence)) {
  if (!config.data.pack) return;
  TESSERA_CHECK(end_of_text.has_value(), "data.pack: requires the end-of-text token of the data, got none");
  end_of_text_ = end_of_text;
}

Batch LanguageWorkload::batch(std::uint64_t k) { return batch_of_rows(rows_(k), plan_.own_rows()); }

Batch LanguageWorkload::batch_of_rows(std::span<const std::int32_t> rows, std::int64_t real) const {
  Batch batch = batch_of(rows, plan_, real);
  if (!end_of_text_) return batch;
  const auto width = static_cast<std::size_t>(sequence_) + 1;
  std::vector<std::int32_t> tokens;
  for (std::size_t at = 0; at < rows.size(); at += width)
    tokens.insert(tokens.end(), rows.begin() + static_cast<std::ptrdiff_t>(at),
                  rows.begin() + static_cast<std::ptrdiff_t>(at + width - 1));
  const nn::Packing packing = nn::packing_of(tokens, plan_.own_rows(), *end_of_text_);
  batch.push_back(uploaded(packing.offsets));
  batch.push_back(laid_out(packing.positions, plan_));
  return batch;
}

Tensor LanguageWorkload::loss(const Batch& batch, double count) const {
  nn::set_packing(model_->module(), end_of_text_ ? nn::Packing{batch[2], batch[3]} : nn::Packing());
  return model_->loss(batch[0], batch[1], count);
}

TaskWorkload::TaskWorkload(const Config& config, const ParallelPlan& plan,
                           const std::shared_ptr<shard::ExposedTime>& exposed, const Task& task)
    : plan_(plan),
      model_(make_model(config, plan, exposed, task)),
      task_(task),
      seed_(config.train.seed),
      share_(1.0 / static_cast<double>(config.train.accumulate)) {}

Batch read_samples(const Task& task, const TaskData& data, std::span<const std::uint64_t> samples) {
  // The host writes rows into memory that earlier work may still use, and callers read them, both without stream order.
  const device::Device host = tensor::host_device();
  host.synchronize();
  const tensor::DeviceScope on_host(host);  // the model may compute on another device
  Batch batch = data.read(samples);
  tensor::current_stream(host).synchronize();
  TESSERA_CHECK(!batch.empty(), "task ", task.name, ": read must return a tensor or more, got none");
  for (const Tensor& each : batch) {
    TESSERA_CHECK(each && !each.has_layout() && each.is_contiguous() && each.shape().ndim() > 0 &&
                      each.size(0) == std::ssize(samples),
                  "task ", task.name, ": read must return plain contiguous tensors with one row per sample (",
                  samples.size(), "), got ", each ? tensor::describe(each) : "an empty tensor");
  }
  return batch;
}

Batch TaskWorkload::read(const TaskData& data, std::span<const std::uint64_t> samples) const {
  Batch batch = read_samples(task_, data, samples);
  for (Tensor& each : batch) each = laid_out(each, plan_);
  return batch;
}

Batch TaskWorkload::batch(std::uint64_t k) {
  std::vector<std::uint64_t> samples = plan_.sample_numbers(k, current_place().rank);
  for (std::uint64_t& each : samples) each = shuffled(each, task_.training.size, seed_);
  return read(task_.training, samples);
}

Tensor TaskWorkload::mean_loss(const Batch& batch) const {
  Tensor loss = model_->loss(batch);
  TESSERA_CHECK(loss && loss.numel() == 1, "task ", task_.name, ": loss must be a tensor of one element, got ",
                loss ? to_string(loss.shape()) : "an empty tensor", "; take the mean over the batch");
  return loss;
}

Tensor TaskWorkload::loss(const Batch& batch) const {
  const Tensor loss = mean_loss(batch);
  return share_ == 1 ? loss : ops::mul(loss, share_);
}

Tensor TaskWorkload::held_out_loss(std::uint64_t first) const {
  std::vector<std::uint64_t> samples;
  const auto own = static_cast<std::uint64_t>(plan_.data_place(current_place().rank) * plan_.own_rows());
  for (std::int64_t i = 0; i < plan_.own_rows(); ++i)
    samples.push_back((first + own + static_cast<std::uint64_t>(i)) % task_.held_out.size);
  return mean_loss(read(task_.held_out, samples));
}

std::uint64_t shuffled(std::uint64_t number, std::uint64_t size, std::uint64_t seed) {
  return Permutation(size, key_of({seed, number / size}))(number % size);
}

}  // namespace tessera::train::detail
