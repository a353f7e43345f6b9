// An operator defined outside the library: softsign, x / (1 +
// x
// ). This file defines its kernel, gradient and sharding rule; Tessera uses it like its own operators.
#include <tessera/tessera.h>

#include <cmath>
#include <cstdio>

namespace tensor = tessera::tensor;
namespace ops = tessera::ops;
namespace autograd = tessera::autograd;
namespace layout = tessera::layout;
using tessera::Tensor;

namespace {

void infer(const tensor::Call& call, std::span<tensor::OutputInfo> outputs) {
  const Tensor& x = call.inputs[0];
  TESSERA_CHECK_CALL(call, x.dtype() == tessera::DType::kF32, "x must be f32, not ", x.dtype());
  outputs[0] = {x.shape(), x.dtype()};
}

// The closure runs on the stream later. It holds addresses, and the launch declares the accessed bytes.
void run_on_host(const tensor::KernelCall& call) {
  const Tensor x = ops::contiguous(call.inputs[0]);
  const auto* from = x.data_as<float>();
  auto* to = call.outputs[0].data_as<float>();
  const std::int64_t count = x.numel();
  const tessera::device::Access accesses[] = {tessera::device::reads(from, x.nbytes()),
                                              tessera::device::writes(to, x.nbytes())};
  call.stream().run(
      [=] {
        for (std::int64_t i = 0; i < count; ++i) to[i] = from[i] / (1 + std::abs(from[i]));
      },
      {.label = "softsign", .accesses = accesses});
}

// The derivative is 1 / (1 +
// x
// )^2. It consists of operators and can be differentiated again.
void gradient(tensor::GradientCall& call) { call.set(0, call.grad() / ops::square(ops::abs(call.input(0)) + 1)); }

// Elementwise and increasing: the maximum of partial values commutes with the operator.
layout::FactorRule rule(const tensor::Call& call) {
  const tessera::Shape shapes[] = {call.inputs[0].shape()};
  return layout::pointwise_rule("softsign", shapes, {.monotony = layout::Monotony::kUp});
}

const tensor::Operator kSoftsign = tensor::register_op({.name = "softsign",
                                                        .inputs = "x",
                                                        .infer = infer,
                                                        .host = run_on_host,
                                                        .gradient = gradient,
                                                        .saves = "x",
                                                        .rule = rule});

Tensor softsign(const Tensor& x) { return tensor::call(kSoftsign, {x}); }

}  // namespace

int main() {
  const Tensor x = ops::arange(-3, 4, 1, {.dtype = tessera::DType::kF32});
  autograd::set_requires_grad(x, true);
  const Tensor y = softsign(x);
  autograd::backward(ops::sum(y));
  std::printf("softsign  %s\n", tensor::to_string(y).c_str());
  std::printf("gradient  %s\n", tensor::to_string(autograd::grad(x)).c_str());

  const layout::Layout sharding = layout::Layout::parse("tp=2 {Shard(0)}");
  const tessera::Shape shapes[] = {x.shape()};
  const layout::Operand input{x.shape(), sharding};
  Tensor out;
  const tensor::Call call{kSoftsign, std::span(&x, 1), {}, std::span(&out, 1)};
  const auto found = layout::propagate(kSoftsign->def.rule(call), std::span(&input, 1), shapes);
  std::printf("cut in two it is %s\n", found.outputs.at(0).placements_text().c_str());
  return ops::item(ops::sum(autograd::grad(x))).as_double() > 1 ? 0 : 1;
}
