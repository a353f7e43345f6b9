#include "tessera/train/detail/step_graph.h"

#include "tessera/autograd/autograd.h"
#include "tessera/base/error.h"
#include "tessera/device/device.h"
#include "tessera/memory/allocator.h"
#include "tessera/memory/label.h"
#include "tessera/ops/create/create.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/tensor/device_context.h"
#include "tessera/train/detail/batch.h"
#include "tessera/train/detail/host_copies.h"

namespace tessera::train::detail {
namespace {

memory::Allocator allocator() { return memory::Allocator::of(tensor::default_device()); }

Tensor rows_of(const Tensor& tensor) { return tensor.has_layout() ? tensor.local() : tensor; }

// Returns a batch with the layouts of another, whose rows are written before a replay.
Batch batch_like(const Batch& batch, const ParallelPlan& plan) {
  const memory::Label label("activations");
  Batch out;
  for (const Tensor& each : batch) {
    const Tensor rows = rows_of(each);
    out.push_back(laid_out(Tensor::allocate(rows.shape(), rows.dtype(), rows.device()), plan));
  }
  return out;
}

// Copies rows on the current stream.
void copy_rows(const Tensor& to, const Tensor& from) {
  if (!from.storage().has_values() || from.nbytes() == 0) return;
  const device::Stream& stream = tensor::current_stream(to.device());
  to.storage().use_on(stream);
  from.storage().use_on(stream);
  stream.copy(to.address(), from.address(), from.nbytes(), "batch");
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
}

bool StepGraph::is_ready() const { return graph_ && ops::generator_state().seed == begin_.seed; }

void StepGraph::capture_body(const StepBody& body) {
  const ops::GeneratorCounterScope counted(counter_);
  const StepValues values = body.compute(batches_);
  const autograd::NoGrad no_grad;
  const Tensor skip = skip_flag(values, max_);
  outcome_ = outcome_of(values, skip);
  body.update(values, learning_rate_, skip);
  ops::copy_(max_, next_bound(skip, max_));
  for (const Tensor& leaf : body.leaves) gradients_.push_back(autograd::grad(leaf));
}

void StepGraph::capture(const StepBody& body, const device::Stream& stream) {
  graph_ = {};
  gradients_.clear();
  outcome_ = {};
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
    copy_rows(rows_of(own[i]), from);
  }
}

void StepGraph::replay(double learning_rate, std::optional<double> most, const device::Stream& stream) {
  ops::GeneratorState now = ops::generator_state();
  store(counter_, static_cast<std::int64_t>(now.call - begin_.call));
  store(learning_rate_, static_cast<float>(learning_rate));
  if (most) store(max_, *most);
  graph_.replay(stream);
  now.call += calls_;
  ops::set_generator_state(now);
}

}  // namespace tessera::train::detail
