// Two kinds of user code for sharded tensors. An operator with a rule: distances between points, sharded along any
// dimension without further code. And a kernel in local_map, for computations that no rule describes: a stencil over
// sharded rows, whose ranks exchange boundary rows with their neighbors.
#include <tessera/tessera.h>

#include <atomic>
#include <cstdio>
#include <vector>

namespace tensor = tessera::tensor;
namespace ops = tessera::ops;
namespace autograd = tessera::autograd;
namespace layout = tessera::layout;
namespace shard = tessera::shard;
namespace device = tessera::device;
using layout::Layout;
using tessera::Tensor;

namespace {

// ---- distances: d[i, j] = sum over k of (x[i, k] - y[j, k])^2, for f32 and f64 ----

void infer_distances(const tensor::Call& call, std::span<tensor::OutputInfo> outputs) {
  const Tensor& x = call.inputs[0];
  const Tensor& y = call.inputs[1];
  TESSERA_CHECK_CALL(call, x.ndim() == 2 && y.ndim() == 2 && x.size(1) == y.size(1),
                     "x and y must be matrices of as many columns");
  TESSERA_CHECK_CALL(call, x.dtype() == y.dtype(), "x and y must have one dtype");
  outputs[0] = {tessera::Shape{x.size(0), y.size(0)}, x.dtype()};
}

template <class T>
void run_as(const tensor::KernelCall& call) {
  const Tensor a = ops::contiguous(call.inputs[0]);
  const Tensor b = ops::contiguous(call.inputs[1]);
  const auto* x = a.data_as<T>();
  const auto* y = b.data_as<T>();
  auto* out = call.outputs[0].data_as<T>();
  const std::int64_t rows = a.size(0);
  const std::int64_t columns = b.size(0);
  const std::int64_t depth = a.size(1);
  const device::Access accesses[] = {device::reads(x, a.nbytes()), device::reads(y, b.nbytes()),
                                     device::writes(out, call.outputs[0].nbytes())};
  call.stream().run(
      [=] {
        for (std::int64_t i = 0; i < rows; ++i) {
          for (std::int64_t j = 0; j < columns; ++j) {
            T sum = 0;  // remains 0 without columns, as an empty shard requires
            for (std::int64_t k = 0; k < depth; ++k) {
              const T difference = x[i * depth + k] - y[j * depth + k];
              sum += difference * difference;
            }
            out[i * columns + j] = sum;
          }
        }
      },
      {.label = "distances", .accesses = accesses});
}

void run_distances(const tensor::KernelCall& call) {
  if (call.outputs[0].dtype() == tessera::DType::kF64) return run_as<double>(call);
  run_as<float>(call);
}

// With g the gradient of d, the gradient of x is 2 (x * the row sums of g - g y). It consists of operators, so that it
// can be sharded and differentiated as they are.
void distances_gradient(tensor::GradientCall& call) {
  for (const int i : {0, 1}) {
    if (!call.needs(i)) continue;
    const Tensor g = i == 0 ? call.grad() : ops::transpose(call.grad(), 0, 1);
    call.set(i, 2 * (call.input(i) * ops::sum(g, {1}, true) - ops::mm(g, call.input(1 - i))));
  }
}

// The sharding rule: k is summed, so that sharding k yields a partial sum.
layout::FactorRule distances_rule(const tensor::Call& /*call*/) {
  return layout::FactorRule::parse("distances: [i,k],[j,k]->[i,j]; k=sum");
}

const tensor::Operator kDistances = tensor::register_op({.name = "distances",
                                                         .inputs = "x, y",
                                                         .infer = infer_distances,
                                                         .host = run_distances,
                                                         .gradient = distances_gradient,
                                                         .saves = "x, y",
                                                         .rule = distances_rule});

Tensor distances(const Tensor& x, const Tensor& y) { return tensor::call(kDistances, {x, y}); }

// ---- smoothed: adds the previous and the next row to each row; plain tensors, f32 ----

// Takes rows 0 to n + 1 and returns rows 1 to n. The gradient applies the same function to the zero-padded gradient.
Tensor add_neighbours(const Tensor& rows) {
  const auto forward = [](autograd::FunctionCall& /*call*/, const std::vector<Tensor>& inputs) -> std::vector<Tensor> {
    const Tensor in = ops::contiguous(inputs[0]);
    const Tensor out = ops::empty({in.size(0) - 2, in.size(1)});
    const std::int64_t columns = in.size(1);
    const std::int64_t count = out.numel();
    const auto* from = in.data_as<float>();
    auto* to = out.data_as<float>();
    const device::Access accesses[] = {device::reads(from, in.nbytes()), device::writes(to, out.nbytes())};
    tensor::current_stream(in.device())
        .run(
            [=] {
              for (std::int64_t i = 0; i < count; ++i) to[i] = from[i] + from[i + columns] + from[i + 2 * columns];
            },
            {.label = "add_neighbours", .accesses = accesses});
    return {out};
  };
  const auto backward = [](autograd::FunctionCall& /*call*/, const std::vector<Tensor>& gradients) {
    return std::vector<Tensor>{add_neighbours(ops::pad(gradients[0], {0, 0, 2, 2}))};
  };
  return autograd::apply_function("add_neighbours", forward, backward, {rows})[0];
}

// Smooths a tensor with sharded rows. permute() returns zeros if no rank sends: before the first row and after the
// last.
Tensor smoothed(const Tensor& x) {
  const shard::Along along(x.layout().mesh(), "tp");
  std::vector<int> up;
  std::vector<int> down;
  for (int place = 0; place < along.size(); ++place) {
    up.push_back(place - 1);
    down.push_back(place + 1 < along.size() ? place + 1 : -1);
  }
  const auto stencil = [&](const std::vector<Tensor>& parts) -> std::vector<Tensor> {
    const Tensor& mine = parts[0];
    const Tensor before = shard::permute(ops::narrow(mine, 0, mine.size(0) - 1, 1), down, along);
    const Tensor behind = shard::permute(ops::narrow(mine, 0, 0, 1), up, along);
    return {add_neighbours(ops::cat(std::vector<Tensor>{before, mine, behind}))};
  };
  return shard::local_map(stencil, {x.layout()}, {x.layout()})({x}, {{x.shape(), x.dtype()}})[0];
}

// ---- both, on four ranks and on one rank ----

bool is_close(const char* what, const Tensor& sharded, const Tensor& plain) {
  const bool is = ops::allclose(shard::gather(sharded), plain, 1e-4, 1e-4);
  if (tessera::current_place().rank == tessera::Rank(0)) {
    std::printf("%-24s %-26s %s\n", what, sharded.layout().placements_text().c_str(), is ? "as on one rank" : "WRONG");
  }
  return is;
}

bool body() {
  const layout::Mesh mesh = layout::Mesh::parse("tp=4");
  const Tensor x = shard::randn({10, 6}, Layout::create(mesh, {layout::Shard(1)}));
  const Tensor y = shard::randn({5, 6}, Layout::create(mesh, {layout::Shard(1)}));
  const Tensor rows = shard::randn({10, 3}, Layout::create(mesh, {layout::Shard(0)}));
  const Tensor whole_x = shard::gather(x);
  const Tensor whole_y = shard::gather(y);
  const Tensor whole_rows = shard::gather(rows);
  for (const Tensor& leaf : {x, rows, whole_x, whole_rows}) autograd::set_requires_grad(leaf, true);

  bool is_right = true;
  const Tensor d = distances(x, y);  // columns are sharded: each rank has a partial sum, without communication
  const Tensor whole_d = distances(whole_x, whole_y);
  is_right &= is_close("distances", d, whole_d);
  autograd::backward(ops::sum(d));
  autograd::backward(ops::sum(whole_d));
  is_right &= is_close("  gradient", autograd::grad(x), autograd::grad(whole_x));

  const Tensor s = smoothed(rows);
  const Tensor whole_s = add_neighbours(ops::pad(whole_rows, {0, 0, 1, 1}));
  is_right &= is_close("smoothed", s, whole_s);
  autograd::backward(ops::sum(ops::square(s)));
  autograd::backward(ops::sum(ops::square(whole_s)));
  is_right &= is_close("  gradient", autograd::grad(rows), autograd::grad(whole_rows));
  return is_right;
}

}  // namespace

int main() {
  std::atomic<bool> is_right = true;
  tessera::simulate(4, [&] {
    if (!body()) is_right = false;
  });
  return is_right ? 0 : 1;
}
