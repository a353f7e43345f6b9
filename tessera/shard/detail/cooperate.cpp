#include "tessera/shard/detail/cooperate.h"

#include "tessera/base/error.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/ops/shape/shape.h"
#include "tessera/shard/detail/counts.h"
#include "tessera/shard/detail/geometry.h"
#include "tessera/shard/detail/tracing.h"
#include "tessera/shard/groups.h"
#include "tessera/tensor/cooperation.h"
#include "tessera/tensor/device_context.h"

namespace tessera::shard::detail {
namespace {

Shape stacked_shape(const Shape& shape, std::int64_t count) {
  SmallVector<std::int64_t, 8> sizes = {count};
  for (const std::int64_t size : shape) sizes.push_back(size);
  return Shape(std::span<const std::int64_t>(sizes));
}

// Reduces or gathers the statistics of a phase in one launch. The statistics of this rank stay unchanged, because later
// phases read them.
std::vector<Tensor> shared(const tensor::Call& global, const tensor::CooperativePhase& phase,
                           std::vector<Tensor>& statistics, const layout::Mesh& mesh,
                           std::span<const layout::SubAxis> axes) {
  const bool is_gathered = phase.is_gathered();
  TESSERA_CHECK_CALL(global, is_gathered || statistics.size() == phase.reductions.size(), "a phase must return ",
                     phase.reductions.size(), " statistics, one per reduction, got ", statistics.size());
  const comm::ProcessGroup& group = group_along(mesh, axes);
  std::vector<Tensor> out;
  std::vector<comm::Operation> operations;
  std::int64_t nbytes = 0;
  for (std::size_t s = 0; s < statistics.size(); ++s) {
    Tensor& mine = statistics[s] = ops::contiguous(statistics[s]);
    const tensor::CurrentDevice where = tensor::current_device(mine.device());
    const Shape shape = is_gathered ? stacked_shape(mine.shape(), group.size()) : mine.shape();
    out.push_back(Tensor::allocate(shape, mine.dtype(), where));
    if (mine.numel() == 0) continue;
    mine.storage().use_on(*where.stream);
    comm::Operation operation = {.kind = is_gathered ? comm::OpKind::kAllGather : comm::OpKind::kAllReduce,
                                 .dtype = mine.dtype(),
                                 .in = mine.address(),
                                 .out = out.back().address(),
                                 .count = mine.numel()};
    set_geometry(operation.geometry, mine.shape());
    if (!is_gathered) operation.reduction.kind = phase.reductions[s];
    operations.push_back(operation);
    const std::int64_t others = (group.size() - 1) * static_cast<std::int64_t>(mine.nbytes());
    nbytes += is_gathered ? others : 2 * others / group.size();
  }
  if (operations.empty()) return out;
  group.launch(operations, tensor::current_stream(out[0].device()));
  AtomicShardCounts& counts = counters();
  counts.collectives.fetch_add(1, std::memory_order_relaxed);
  counts.nbytes.fetch_add(static_cast<std::uint64_t>(nbytes), std::memory_order_relaxed);
  if (is_tracing()) trace_cooperation(global, mesh, axes, static_cast<int>(operations.size()), nbytes);
  return out;
}

}  // namespace

std::vector<Tensor> cooperate(const tensor::Call& global, const tensor::Call& local, const DispatchPlan& entry,
                              std::span<const layout::LocalOperand> inputs) {
  check_may_communicate(tessera::detail::concat(global.op.name(), " along a sharded dimension"));
  const tensor::Cooperation& how = *global.op->def.cooperation;
  std::vector<Tensor> all;
  std::vector<Tensor> own;
  for (std::size_t p = 0; p < how.phases.size(); ++p) {
    std::vector<Tensor> statistics = how.phases[p].statistics({local, global, inputs, all, own});
    if (statistics.empty()) continue;
    std::vector<Tensor> of_all = statistics;
    if (!entry.phases[p].empty()) {
      of_all = shared(global, how.phases[p], statistics, entry.mesh, entry.phases[p]);
    } else if (how.phases[p].is_gathered()) {
      for (Tensor& each : of_all) each = ops::unsqueeze(each, 0);
    }
    own.insert(own.end(), statistics.begin(), statistics.end());
    all.insert(all.end(), of_all.begin(), of_all.end());
  }
  return how.finish({local, global, inputs, all, own});
}

}  // namespace tessera::shard::detail
