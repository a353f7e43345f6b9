// Two kinds of user code for sharded tensors. An operator with a rule: distances between points, sharded along any
// dimension without further code. And a kernel in local_map, for computations that no rule describes: a stencil over
// sharded rows, whose ranks exchange boundary rows with their neighbors.
#include <tessera/tessera.h>

#include <atomic>
#include <cstdio>
#include <vector>

using namespace tessera;

namespace {

// ---- distances: d[i, j] = sum over k of (x[i, k] - y[j, k])^2, for f32 and f64 ----

void infer_distances(const tensor::Call& call, std::span<tensor::OutputInfo> outputs) {
  const Tensor& x = call.inputs[0];
  const Tensor& y = call.inputs[1];
  TESSERA_CHECK_CALL(call, x.ndim() == 2 && y.ndim() == 2 && x.size(1) == y.size(1),
                     "x and y must be matrices of as many columns");
  TESSERA_CHECK_CALL(call, x.dtype() == y.dtype(), "x and y must have one dtype");
  outputs[0] = {Shape{x.size(0), y.size(0)}, x.dtype()};
}

template <class T>
void run_as(const tensor::KernelCall& call) {
  const Tensor a = contiguous(call.inputs[0]);
  const Tensor b = contiguous(call.inputs[1]);
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
  if (call.outputs[0].dtype() == kF64) return run_as<double>(call);
  run_as<float>(call);
}

// With g the gradient of d, the gradient of x is 2 (x * the row sums of g - g y). It consists of operators, so that it
// can be sharded and differentiated as they are.
void distances_gradient(tensor::GradientCall& call) {
  for (const int i : {0, 1}) {
    if (!call.needs(i)) continue;
    const Tensor g = i == 0 ? call.grad() : call.grad().transpose(0, 1);
    call.set(i, 2 * (call.input(i) * sum(g, {1}, true) - mm(g, call.input(1 - i))));
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
  const auto forward = [](FunctionCall& /*call*/, const std::vector<Tensor>& inputs) -> std::vector<Tensor> {
    const Tensor in = contiguous(inputs[0]);
    const Tensor out = empty({in.size(0) - 2, in.size(1)});
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
  const auto backward = [](FunctionCall& /*call*/, const std::vector<Tensor>& gradients) {
    return std::vector<Tensor>{add_neighbours(pad(gradients[0], {0, 0, 2, 2}))};
  };
  return apply_function("add_neighbours", forward, backward, {rows})[0];
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
    const Tensor before = shard::permute(narrow(mine, 0, mine.size(0) - 1, 1), down, along);
    const Tensor behind = shard::permute(narrow(mine, 0, 0, 1), up, along);
    return {add_neighbours(cat(std::vector<Tensor>{before, mine, behind}))};
  };
  return shard::local_map(stencil, {x.layout()}, {x.layout()})({x}, {{x.shape(), x.dtype()}})[0];
}

// ---- both, on four ranks and on one rank ----

bool is_close(const char* what, const Tensor& sharded, const Tensor& plain) {
  const bool is = allclose(sharded.gather(), plain, 1e-4, 1e-4);
  if (rank() == 0) {
    std::printf("%-24s %-26s %s\n", what, sharded.layout().placements_text().c_str(), is ? "as on one rank" : "WRONG");
  }
  return is;
}

bool body() {
  const Mesh mesh({{"tp", 4}});
  const Tensor x = randn({10, 6}, {.layout = {mesh, {{"tp", Shard(1)}}}});
  const Tensor y = randn({5, 6}, {.layout = {mesh, {{"tp", Shard(1)}}}});
  const Tensor rows = randn({10, 3}, {.layout = {mesh, {{"tp", Shard(0)}}}});
  const Tensor whole_x = x.gather();
  const Tensor whole_y = y.gather();
  const Tensor whole_rows = rows.gather();
  for (const Tensor& leaf : {x, rows, whole_x, whole_rows}) leaf.requires_grad_();

  bool is_right = true;
  const Tensor d = distances(x, y);  // columns are sharded: each rank has a partial sum, without communication
  const Tensor whole_d = distances(whole_x, whole_y);
  is_right &= is_close("distances", d, whole_d);
  d.sum().backward();
  whole_d.sum().backward();
  is_right &= is_close("  gradient", x.grad(), whole_x.grad());

  const Tensor s = smoothed(rows);
  const Tensor whole_s = add_neighbours(pad(whole_rows, {0, 0, 1, 1}));
  is_right &= is_close("smoothed", s, whole_s);
  s.square().sum().backward();
  whole_s.square().sum().backward();
  is_right &= is_close("  gradient", rows.grad(), whole_rows.grad());
  return is_right;
}

}  // namespace

int main() {
  std::atomic<bool> is_right = true;
  simulate(4, [&] {
    if (!body()) is_right = false;
  });
  return is_right ? 0 : 1;
}
