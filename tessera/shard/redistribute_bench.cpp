// Host cost of redistribute without transfers. This process acts as rank 0 of a mesh of 8 whose axes select a backend
// in this file, which accepts operations and does nothing. The measurement includes all work of a real call, such as
// result allocation, launch and argument checks, except for the start of a transfer in a real backend.
#include <memory>

#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/base/testing/bench.h"
#include "tessera/comm/communicator.h"
#include "tessera/layout/arithmetic.h"
#include "tessera/shard/redistribute.h"
#include "tessera/shard/scopes.h"

namespace tessera::shard {
namespace {

using layout::Layout;
using layout::Mesh;

class NothingCommunicator final : public comm::Communicator {
 public:
  [[nodiscard]] const comm::Capabilities& capabilities() const override {
    static const comm::Capabilities all{.kinds = comm::kAllOpKinds, .device_kinds = {"host"}, .has_fixed_order = true};
    return all;
  }
  void enqueue(const std::shared_ptr<comm::Task>& task, const device::Stream& /*stream*/) override {
    task->is_done.store(1, std::memory_order_release);
  }
  void abort(std::string_view /*reason*/) noexcept override {}
  [[nodiscard]] std::vector<int> gone() const override { return {}; }
  void extend_deadline(std::chrono::nanoseconds /*by*/) override {}
  [[nodiscard]] std::uint64_t sequence() const override { return 0; }
};

const comm::BackendRegistration kNothing{
    {.name = "nothing",
     .preference = -1,
     .why_not = [](const comm::ConnectRequest&) { return std::string(); },
     .connect = [](const comm::ConnectRequest&) -> std::shared_ptr<comm::Communicator> {
       return std::make_shared<NothingCommunicator>();
     }}};

// Makes this process rank 0 of 8 during its lifetime.
struct OneOfEight {
  OneOfEight() : rank(std::make_shared<RankContext>(RankPlace{.rank = Rank(0), .world_size = 8})), scope(rank) {}
  std::shared_ptr<RankContext> rank;
  RankScope scope;
};

void measure(bench::Context& context, const std::string& name, const Mesh& mesh, const char* from, const char* to) {
  if (!context.wants(name)) return;
  const OneOfEight world;
  const Shape shape{64, 64};
  const Layout source = Layout::parse(mesh, from);
  const Layout target = Layout::parse(mesh, to);
  const Tensor part =
      Tensor::allocate(layout::local_shape(source, shape, Rank(0)), DType::kF32, device::Device::get("host"));
  const Tensor x = Tensor::sharded(shape, DType::kF32, source, part);
  const std::uint64_t before = shard_counts().collectives;
  bench::do_not_optimize(redistribute(x, target));
  TESSERA_CHECK(shard_counts().collectives == before + 1, name, ": the move is not one launch");
  context.measure(
      {.name = name, .unit = "us", .ours = [&] { bench::do_not_optimize(redistribute(x, target)); }, .must = 3});
}

const std::vector<std::pair<std::string, std::string>> kOptions = {{"backend", "nothing"}};

TESSERA_BENCH(redistribute_cpu_8) {
  const Mesh mesh = Mesh::create({{"x", 8, layout::Link::kMemory, kOptions}});
  measure(context, "redistribute_cpu_S_R_8", mesh, "S0", "R");
  measure(context, "redistribute_cpu_P_R_8", mesh, "P", "R");
}

TESSERA_BENCH(redistribute_cpu_2x4) {
  const Mesh mesh =
      Mesh::create({{"a", 2, layout::Link::kMemory, kOptions}, {"b", 4, layout::Link::kMemory, kOptions}});
  measure(context, "redistribute_cpu_S_R_2x4", mesh, "S0,S0", "R,R");
  measure(context, "redistribute_cpu_P_R_2x4", mesh, "P,P", "R,R");
}

}  // namespace
}  // namespace tessera::shard
