#include <algorithm>
#include <cstring>

#include "tessera/autograd/autograd.h"
#include "tessera/autograd/detail/run.h"
#include "tessera/base/rank.h"
#include "tessera/layout/planner.h"

namespace tessera::autograd {
namespace {

using detail::BackwardRun;

// Returns the address of the number 1 in a differentiable dtype.
const void* one_of(DType dtype) {
  static const double kF64[] = {1, 0};  // with an imaginary part for complex numbers
  static const float kF32[] = {1, 0};
  static const f16 kF16{1.0F};
  static const bf16 kBF16{1.0F};
  switch (dtype) {
    case DType::kF64:
    case DType::kC128: return kF64;
    case DType::kF32:
    case DType::kC64: return kF32;
    case DType::kF16: return &kF16;
    case DType::kBF16: return &kBF16;
    default: return nullptr;
  }
}

// Writes the number 1. A fill can be captured on every device; a copy from host memory cannot.
void write_one(const Tensor& to, const void* one, const device::Stream& stream) {
  const std::size_t nbytes = itemsize(to.dtype());
  for (std::size_t at = 0; at < nbytes; at += 4) {
    std::uint32_t word = 0;
    const std::size_t word_nbytes = std::min<std::size_t>(nbytes, 4);
    std::memcpy(&word, static_cast<const std::byte*>(one) + at, word_nbytes);
    stream.fill(to.address() + at, word, word_nbytes, 1, "gradient_of_loss");
  }
}

// Returns a gradient of 1 for `loss`. If the loss has a layout, the gradient has the dual layout: sharded as the loss,
// and replicated where the loss is partial.
Tensor one_like(const Tensor& loss) {
  const void* one = one_of(loss.dtype());
  TESSERA_CHECK(loss.numel() == 1 && one != nullptr,
                "backward: a loss of more than one element requires a gradient, got ", tensor::describe(loss));
  const auto plain_one = [&](const Shape& shape) {
    const tensor::CurrentDevice where = tensor::current_device(loss.device());
    Tensor gradient = Tensor::allocate(shape, loss.dtype(), where);
    if (gradient.numel() > 0) write_one(gradient, one, *where.stream);
    return gradient;
  };
  if (!loss.has_layout()) return plain_one(loss.shape());
  const layout::Layout dual = layout::gradient_layout(loss.layout());
  Tensor local;
  if (loss.local()) local = plain_one(layout::local_shape(dual, loss.shape(), current_place().rank));
  return Tensor::sharded(loss.shape(), loss.dtype(), dual, std::move(local));
}

void start(BackwardRun& run, const std::vector<Tensor>& outputs, const std::vector<Tensor>& gradients,
           const char* what) {
  TESSERA_CHECK(!outputs.empty(), what, ": requires at least one output");
  TESSERA_CHECK(gradients.empty() || gradients.size() == outputs.size(), what, ": requires one gradient per output (",
                outputs.size(), "), got ", gradients.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Tensor& output = outputs[i];
    TESSERA_CHECK(output, what, ": output ", i, " must be a tensor, got an empty handle");
    TESSERA_CHECK(output.is_tracked(), what, ": output must depend on a tensor that requires a gradient, got ",
                  tensor::describe(output),
                  "; call requires_grad_() on a leaf, and compute the output outside of NoGrad");
    Tensor gradient = i < gradients.size() && gradients[i] ? gradients[i] : one_like(output);
    TESSERA_CHECK(gradient.shape() == output.shape() && gradient.dtype() == output.dtype(), what,
                  ": gradient must have the shape and dtype of ", tensor::describe(output), ", got ",
                  tensor::describe(gradient));
    run.start_at(output, detail::placed(std::move(gradient), output.layout()));
  }
}

}  // namespace

void backward(const Tensor& loss, const Tensor& gradient, const BackwardOptions& options) {
  backward(std::vector<Tensor>{loss}, std::vector<Tensor>{gradient}, options);
}

void backward(const std::vector<Tensor>& outputs, const std::vector<Tensor>& gradients,
              const BackwardOptions& options) {
  BackwardRun run(options.retain_graph || options.create_graph, options.create_graph);
  start(run, outputs, gradients, "backward");
  run.execute();
}

std::vector<Tensor> gradients(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                              const std::vector<Tensor>& grad_outputs, const GradientsOptions& options) {
  if (inputs.empty()) return {};
  BackwardRun run(options.retain_graph || options.create_graph, options.create_graph);
  start(run, outputs, grad_outputs, "gradients");
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    TESSERA_CHECK(inputs[i] && inputs[i].is_tracked(), "gradients: input ", i, " must require a gradient, got ",
                  tensor::describe(inputs[i]), "; call set_requires_grad() on it");
    run.want(inputs[i]);
  }
  std::vector<Tensor> results = run.execute();
  for (std::size_t i = 0; i < results.size() && !options.allow_unused; ++i) {
    TESSERA_CHECK(results[i], "gradients: an output must depend on input ", i, ", but none does, got ",
                  tensor::describe(inputs[i]), "; set allow_unused to get an empty tensor");
  }
  return results;
}

}  // namespace tessera::autograd
