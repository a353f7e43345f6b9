// CPU cost of a layout per call. Nothing is sent, so one rank of a mesh of 8 is sufficient. Warm: time relative to the
// same operator on the plain shard, measured alternately in one sample. Cold: layout propagation of an uncached call,
// up to the start of the local call.
#include <chrono>
#include <functional>
#include <string>

#include "tessera/base/error.h"
#include "tessera/base/testing/bench.h"
#include "tessera/ops/create/create.h"
#include "tessera/ops/matrix/matrix.h"
#include "tessera/ops/nn/softmax.h"
#include "tessera/ops/pointwise/activations.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/ops/reduce/reduce.h"
#include "tessera/ops/shape/shape.h"
#include "tessera/shard/detail/plan_cache.h"
#include "tessera/tensor/call.h"

namespace tessera::shard {
namespace {

using layout::Layout;
using layout::Mesh;
using Clock = std::chrono::steady_clock;

constexpr int kCalls = 200;

template <class F>
double microseconds(const F& body) {
  const auto begin = Clock::now();
  for (int i = 0; i < kCalls; ++i) body();
  const std::chrono::duration<double, std::micro> spent = Clock::now() - begin;
  device::Device::get("host").synchronize();  // kernels of one side must not run in the time of the other
  return spent.count() / kCalls;
}

struct WarmCase {
  std::string name;
  std::function<Tensor(const Tensor&, const Tensor&)> call;
  Tensor a;
  Tensor b;
};

void measure_warm(bench::Context& context, const WarmCase& of) {
  const Tensor plain_a = of.a.local();
  const Tensor plain_b = of.b.local();
  context.measure({.name = of.name,
                   .unit = "us",
                   .ours = [&]() -> double {
                     const double with = microseconds([&] { bench::do_not_optimize(of.call(of.a, of.b)); });
                     const double without = microseconds([&] { bench::do_not_optimize(of.call(plain_a, plain_b)); });
                     return with - without;
                   },
                   .reference_name = "the local operator itself",
                   .reference = [&]() -> double {
                     return microseconds([&] { bench::do_not_optimize(of.call(plain_a, plain_b)); });
                   },
                   .must = 0.3,
                   .better = bench::Better::kLower});
}

void measure_mesh(bench::Context& context, const std::string& suffix, const char* mesh_text, const char* rows,
                  const char* columns, const char* whole) {
  const Mesh mesh = Mesh::parse(mesh_text);
  const Layout by_rows = Layout::parse(mesh, rows);
  const Layout by_columns = Layout::parse(mesh, columns);
  const Tensor x = ops::ones({64, 16}, {.layout = by_rows});
  const Tensor w = ops::ones({16, 64}, {.layout = Layout::parse(mesh, whole)});
  const Tensor y = ops::ones({16, 64}, {.layout = by_columns});
  device::Device::get("host").synchronize();
  const WarmCase all[] = {
      {"warm_add_" + suffix, [](const Tensor& a, const Tensor& b) { return ops::add(a, b); }, x, x},
      {"warm_mm_" + suffix, [](const Tensor& a, const Tensor& b) { return ops::mm(a, b); }, x, w},
      {"warm_relu_" + suffix, [](const Tensor& a, const Tensor&) { return ops::relu(a); }, x, x},
      {"warm_sum_" + suffix, [](const Tensor& a, const Tensor&) { return ops::sum(a, {0}); }, x, x},
      {"warm_softmax_" + suffix, [](const Tensor& a, const Tensor&) { return ops::softmax(a, 0); }, y, y},
      {"warm_t_" + suffix, [](const Tensor& a, const Tensor&) { return ops::transpose(a, 0, 1); }, x, x},
  };
  for (const WarmCase& each : all) measure_warm(context, each);
}

TESSERA_BENCH(warm) {
  measure_mesh(context, "8", "x=8", "S0", "S1", "R");
  measure_mesh(context, "2x4", "x=2,y=4", "S0,S0", "S1,S1", "R,R");
}

TESSERA_BENCH(cold) {
  struct Case {
    const char* name;
    const char* mesh;
    const char* left;
    const char* right;
    double must;
  };
  const Case all[] = {{"cold_mm_8", "tp=8", "S1", "S0", 30},
                      {"cold_mm_2x4", "dp=2,tp=4", "S0,S1", "R,S0", 60},
                      {"cold_mm_2x2x2", "dp=2,cp=2,tp=2", "S0,S0,S1", "R,R,S0", 100}};
  for (const Case& each : all) {
    const Mesh mesh = Mesh::parse(each.mesh);
    const Tensor a = ops::empty({64, 64}, {.layout = Layout::parse(mesh, each.left)});
    const Tensor b = ops::empty({64, 64}, {.layout = Layout::parse(mesh, each.right)});
    const Tensor inputs[] = {a, b};
    Tensor out;
    const tensor::Call call{tensor::find_op("mm"), inputs, {}, std::span(&out, 1)};
    context.measure({.name = each.name,
                     .unit = "us",
                     .ours =
                         [&] {
                           const std::uint64_t hash = detail::hash_of(call);
                           detail::EntryCache::of_process().add(detail::make_entry(call, hash));
                         },
                     .must = each.must});
  }
}

}  // namespace
}  // namespace tessera::shard
