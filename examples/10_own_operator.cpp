// An operator defined outside the library: softsign, x / (1 + abs(x)). This file defines its kernel, gradient and
// sharding rule; Tessera uses it like its own operators.
#include <tessera/tessera.h>

#include <cmath>
#include <iostream>

using namespace tessera;

namespace {

void infer(const tensor::Call& call, std::span<tensor::OutputInfo> outputs) {
  const Tensor& x = call.inputs[0];
  TESSERA_CHECK_CALL(call, x.dtype() == kF32, "x must be f32, not ", x.dtype());
  outputs[0] = {x.shape(), x.dtype()};
}

// The closure runs on the stream later. It holds addresses, and the launch declares the accessed bytes.
void run_on_host(const tensor::KernelCall& call) {
  const Tensor x = contiguous(call.inputs[0]);
  const auto* from = x.data_as<float>();
  auto* to = call.outputs[0].data_as<float>();
  const std::int64_t count = x.numel();
  const device::Access accesses[] = {device::reads(from, x.nbytes()), device::writes(to, x.nbytes())};
  call.stream().run(
      [=] {
        for (std::int64_t i = 0; i < count; ++i) to[i] = from[i] / (1 + std::abs(from[i]));
      },
      {.label = "softsign", .accesses = accesses});
}

// The derivative is 1 / (1 + abs(x))^2. It consists of operators and can be differentiated again.
void gradient(tensor::GradientCall& call) { call.set(0, call.grad() / (call.input(0).abs() + 1).square()); }

// Elementwise and increasing: the maximum of partial values commutes with the operator.
layout::FactorRule rule(const tensor::Call& call) {
  const Shape shapes[] = {call.inputs[0].shape()};
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
  const Tensor x = arange(-3, 4, 1, {.dtype = kF32}).requires_grad_();
  const Tensor y = softsign(x);
  y.sum().backward();
  std::cout << "softsign  " << y << "\ngradient  " << x.grad() << "\n";

  const Layout sharding = Layout::parse("tp=2 {Shard(0)}");
  const Shape shapes[] = {x.shape()};
  const layout::Operand input{x.shape(), sharding};
  Tensor out;
  const tensor::Call call{kSoftsign, std::span(&x, 1), {}, std::span(&out, 1)};
  const auto found = layout::propagate(kSoftsign->def.rule(call), std::span(&input, 1), shapes);
  std::cout << "with a sharded input it is " << found.outputs.at(0).placements_text() << "\n";
  return x.grad().sum().item<double>() > 1 ? 0 : 1;
}
