#include "tessera/train/detail/step_graph.h"

#include <cstring>

#include "tessera/autograd/autograd.h"
#include "tessera/base/error.h"
#include "tessera/device/device.h"
#include "tessera/memory/allocator.h"
#include "tessera/memory/label.h"
#include "tessera/ops/create/create.h"
#include "tessera/ops/pointwise/compare.h"
#include "tessera/ops/reduce/host_values.h"
#include "tessera/tensor/device_context.h"
#include "tessera/train/detail/batch.h"

namespace tessera::train::detail {
namespace {

memory::Allocator allocator() { return memory::Allocator::of(tensor::default_device()); }

Tensor rows_of(const Tensor& tensor) { return tensor.has_layout() ? tensor.local() : tensor; }

// Returns a batch with the layouts of another, whose rows the host writes before a replay.
Batch batch_like(const Batch& batch, const ParallelPlan& plan) {
  const memory::Label label("activations");
  Batch out;
  for (const Tensor& each : batch) {
    const Tensor rows = rows_of(each);
    out.push_back(laid_out(Tensor::allocate(rows.shape(), rows.dtype(), rows.device()), plan));
  }
  tensor::default_device().synchronize();  // work that is not done may still use this memory
  return out;
}

// Returns the value of a tensor of one element that no pending work writes.
double value_of(const Tensor& x) {
  if (x.dtype() == DType::kF32) return static_cast<double>(*x.data_as<float>());
  return ops::item(x).as_double();
}

// Drops the gradients of a failed capture.
class DropGradients {
 public:
  explicit DropGradients(std::span<const Tensor> leaves) : leaves_(leaves) {}
  ~DropGradients() {
    for (const Tensor& leaf : leaves_) autograd::set_grad(leaf, {});
  }
  DropGradients(const DropGradients&) = delete;
  DropGradients& operator=(const DropGradients&) = delete;

 private:
  std::span<const Tensor> leaves_;
};

}  // namespace

StepGraph::StepGraph(std::int64_t micro_batches) : batches_(static_cast<std::size_t>(micro_batches)) {
  const memory::Label label("activations");
  counter_ = ops::zeros({}, {.dtype = DType::kI64});
  learning_rate_ = ops::zeros({});
  max_ = ops::zeros({}, {.dtype = DType::kF64});
  // The host writes all of these without stream order.
  tensor::default_device().synchronize();
}

bool StepGraph::is_ready() const { return graph_ && ops::generator_state().seed == begin_.seed; }

// Makes the decision of Trainer::State::judged() for the same values.
Tensor StepGraph::skip_flag() const {
  const Tensor& norm = values_.norm.norm;
  const Tensor is_finite = ops::logical_and(ops::isfinite(values_.loss), ops::isfinite(norm));
  return ops::logical_not(ops::logical_and(is_finite, ops::le(norm, max_)));
}

void StepGraph::capture_body(const StepBody& body) {
  const ops::GeneratorCounterScope counted(counter_);
  values_ = body.compute(batches_);
  const autograd::NoGrad no_grad;
  {
    const memory::Label label("optimizer");
    skip_ = skip_flag();
  }
  body.update(values_, learning_rate_, skip_);
  for (const Tensor& leaf : body.leaves) gradients_.push_back(autograd::grad(leaf));
}

void StepGraph::capture(const StepBody& body, const device::Stream& stream) {
  graph_ = {};
  values_ = {};
  skip_ = {};
  gradients_.clear();
  begin_ = ops::generator_state();
  const DropGradients dropped(body.leaves);
  try {
    memory::GraphCapture capture(allocator(), stream, "step");
    capture_body(body);
    graph_ = capture.end();
  } catch (const Error& error) {
    ops::set_generator_state(begin_);
    const bool is_refusal = error.kind() == ErrorKind::kInvalidArgument || error.kind() == ErrorKind::kNotSupported;
    if (!is_refusal) throw;
    TESSERA_THROW(NotSupported, "train.graph: a step cannot be captured: ", error.message(),
                  "; omit train.graph, or the operation that cannot be captured");
  }
  calls_ = ops::generator_state().call - begin_.call;
  ops::set_generator_state(begin_);
}

void StepGraph::set_batch(std::int64_t m, const Batch& batch, const ParallelPlan& plan) {
  if (batches_[static_cast<std::size_t>(m)].empty()) batches_[static_cast<std::size_t>(m)] = batch_like(batch, plan);
  const Batch& own = batches_[static_cast<std::size_t>(m)];
  TESSERA_CHECK(own.size() == batch.size(), "train.graph: batches must have equal numbers of tensors, got ", own.size(),
                " and ", batch.size(), "; omit train.graph");
  for (std::size_t i = 0; i < own.size(); ++i) {
    TESSERA_CHECK(own[i].shape() == batch[i].shape() && own[i].dtype() == batch[i].dtype(),
                  "train.graph: batches must have equal shapes and dtypes, got ", tensor::describe(own[i]), " and ",
                  tensor::describe(batch[i]), "; omit train.graph");
    const Tensor from = rows_of(batch[i]);
    TESSERA_CHECK(from.is_contiguous(), "train.graph: tensors of batches must be contiguous, got ",
                  tensor::describe(from));
    if (from.storage().has_values()) std::memcpy(rows_of(own[i]).data(), from.data(), from.nbytes());
  }
}

void StepGraph::replay(double learning_rate, double most, const device::Stream& stream) {
  ops::GeneratorState now = ops::generator_state();
  *counter_.data_as<std::int64_t>() = static_cast<std::int64_t>(now.call - begin_.call);
  *learning_rate_.data_as<float>() = static_cast<float>(learning_rate);
  *max_.data_as<double>() = most;
  graph_.replay(stream);
  now.call += calls_;
  ops::set_generator_state(now);
}

double StepGraph::loss() const { return value_of(values_.loss); }
double StepGraph::grad_norm() const { return value_of(values_.norm.norm); }
bool StepGraph::is_skipped() const { return *skip_.data_as<bool>(); }

}  // namespace tessera::train::detail
