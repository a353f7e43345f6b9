// CPU cost of layouts in an optimizer step, clipping and backward: time of the calling thread, which enqueues kernels
// and runs none. This process is rank 0 of a mesh of 8 on the backend of redistribute_bench.cpp, which accepts
// operations and transfers nothing. References are the same calls on the plain shards of this rank.
#include <ctime>
#include <memory>

#include "tessera/autograd/autograd.h"
#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/base/testing/bench.h"
#include "tessera/ops/create/create.h"
#include "tessera/ops/matrix/matrix.h"
#include "tessera/ops/pointwise/activations.h"
#include "tessera/ops/reduce/reduce.h"
#include "tessera/ops/update/update.h"
#include "tessera/shard/redistribute.h"
#include "tessera/shard/scopes.h"

namespace tessera::shard {
namespace {

using layout::Layout;
using layout::Mesh;
using Tensors = std::vector<Tensor>;

// Makes this process rank 0 of 8 during its lifetime.
struct OneOfEight {
  OneOfEight() : rank(std::make_shared<RankContext>(RankPlace{.rank = Rank(0), .world_size = 8})), scope(rank) {}
  std::shared_ptr<RankContext> rank;
  RankScope scope;
};

Mesh silent_mesh() {
  const std::vector<std::pair<std::string, std::string>> options = {{"backend", "nothing"}};
  return Mesh::create({{"dp", 2, layout::Link::kMemory, options}, {"tp", 4, layout::Link::kMemory, options}});
}

double thread_us() {
  timespec now = {};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
}

// Returns the CPU time of the calling thread per call.
template <class F>
double cpu_us(int calls, const F& body) {
  const double begin = thread_us();
  for (int i = 0; i < calls; ++i) body();
  const double spent = thread_us() - begin;
  device::Device::get("host").synchronize();
  return spent / calls;
}

Tensors list_of(std::size_t count, const Mesh& mesh) {
  const char* const kinds[] = {"R,S0", "R,R", "S0,S1", "R,S1"};
  Tensors out;
  for (std::size_t i = 0; i < count; ++i)
    out.push_back(ops::zeros({8, 16}, {.layout = Layout::parse(mesh, kinds[i * 4 / count])}));
  return out;
}
Tensors parts_of(const Tensors& tensors) {
  Tensors out;
  for (const Tensor& each : tensors) out.push_back(each.local());
  return out;
}

// Four lists of an optimizer and a step on them.
struct Optimizer {
  Tensors params, grads, first, second;
  Tensor step = ops::zeros({}, {.dtype = DType::kI64});
  ops::StepScalars scalars = {.learning_rate = ops::zeros({})};
  void operator()() const { ops::adamw_(params, grads, first, second, step, scalars); }
};

TESSERA_BENCH(foreach_adamw) {
  const autograd::NoGrad no_grad;
  constexpr std::size_t kTensors = 1000;
  const std::string name = "foreach_adamw_1000";
  if (!context.wants(name)) return;
  const OneOfEight world;
  const Mesh mesh = silent_mesh();
  const Optimizer sharded{list_of(kTensors, mesh), list_of(kTensors, mesh), list_of(kTensors, mesh),
                          list_of(kTensors, mesh)};
  const Optimizer local{parts_of(sharded.params), parts_of(sharded.grads), parts_of(sharded.first),
                        parts_of(sharded.second)};
  context.measure({.name = name,
                   .unit = "us",
                   .ours = [&]() -> double { return cpu_us(5, sharded) - cpu_us(5, local); },
                   .reference_name = "the local step itself",
                   .reference = [&]() -> double { return cpu_us(5, local); },
                   .must = 1 + 0.01 * kTensors});
}

TESSERA_BENCH(clip_grad_norm) {
  const std::string name = "clip_grad_norm_300";
  if (!context.wants(name)) return;
  const OneOfEight world;
  const Tensors grads = list_of(300, silent_mesh());
  const Tensors parts = parts_of(grads);
  const std::uint64_t before = shard_counts().collectives;
  ops::clip_grad_norm_(grads, 1);
  TESSERA_CHECK(shard_counts().collectives == before + 1, name, ": not one launch");
  context.measure({.name = name,
                   .unit = "us",
                   .ours = [&]() -> double { return cpu_us(5, [&] { ops::clip_grad_norm_(grads, 1); }); },
                   .reference_name = "clipping the local parts",
                   .reference = [&]() -> double { return cpu_us(5, [&] { ops::clip_grad_norm_(parts, 1); }); },
                   .must = 100});
}

// x up, relu, down: columns of the first and rows of the second sharded by tp, the batch by dp.
struct Mlp {
  Tensor x, up, down;
  Layout settled;  // layout of the reduced second product; empty: plain

  [[nodiscard]] Tensor loss() const {
    Tensor out = ops::mm(ops::relu(ops::mm(x, up)), down);
    if (settled) out = redistribute(out, settled);
    return ops::sum(out);
  }
  // Returns the time per operator that backward calls.
  [[nodiscard]] double backward_us(std::uint64_t operators) const {
    constexpr int kRuns = 20;
    Tensors losses;
    for (int i = 0; i < kRuns; ++i) losses.push_back(loss());
    device::Device::get("host").synchronize();
    int next = 0;
    return cpu_us(kRuns, [&] { autograd::backward(losses[static_cast<std::size_t>(next++)]); }) /
           static_cast<double>(operators);
  }
};

Mlp leaves(Mlp of) {
  autograd::set_requires_grad(of.up, true);
  autograd::set_requires_grad(of.down, true);
  return of;
}

TESSERA_BENCH(backward_mlp) {
  const std::string name = "backward_mlp_2x4";
  if (!context.wants(name)) return;
  const OneOfEight world;
  const Mesh mesh = silent_mesh();
  const Mlp sharded =
      leaves({ops::zeros({8, 32}, {.layout = Layout::parse(mesh, "S0,R")}),
              ops::zeros({32, 64}, {.layout = Layout::parse(mesh, "R,S1")}),
              ops::zeros({64, 32}, {.layout = Layout::parse(mesh, "R,S0")}), Layout::parse(mesh, "S0,R")});
  const Mlp local = leaves({sharded.x.local(), sharded.up.local().detach(), sharded.down.local().detach(), {}});
  const Tensor loss = sharded.loss();
  const std::uint64_t before = shard_counts().calls;
  autograd::backward(loss);
  const std::uint64_t operators = shard_counts().calls - before;
  context.measure({.name = name,
                   .unit = "us",
                   .ours = [&]() -> double { return sharded.backward_us(operators); },
                   .reference_name = "backward of the local parts",
                   .reference = [&]() -> double { return local.backward_us(operators); },
                   .must = 1});
}

}  // namespace
}  // namespace tessera::shard
