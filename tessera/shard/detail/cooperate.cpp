#include "tessera/shard/detail/cooperate.h"

#include "tessera/base/error.h"
#include "tessera/base/mutant.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/shard/detail/counts.h"
#include "tessera/shard/detail/reduce_kind.h"
#include "tessera/shard/detail/tracing.h"
#include "tessera/shard/groups.h"
#include "tessera/tensor/cooperation.h"
#include "tessera/tensor/device_context.h"

namespace tessera::shard::detail {
namespace {

// The statistics of a phase, all-reduced in one launch. Those of this rank stay as they are: later phases read them.
std::vector<Tensor> reduced(const tensor::Call& global, const tensor::CooperativePhase& phase,
                            std::vector<Tensor>& statistics, const layout::Mesh& mesh,
                            std::span<const layout::SubAxis> axes) {
  TESSERA_CHECK_CALL(global, statistics.size() == phase.reductions.size(), "a phase gives ", statistics.size(),
                     " statistics for ", phase.reductions.size(), " reductions");
  const comm::ProcessGroup& group = group_along(mesh, axes);
  std::vector<Tensor> out;
  std::vector<comm::Operation> operations;
  std::int64_t nbytes = 0;
  for (std::size_t s = 0; s < statistics.size(); ++s) {
    Tensor& mine = statistics[s] = ops::contiguous(statistics[s]);
    const tensor::CurrentDevice where = tensor::current_device(mine.device());
    out.push_back(Tensor::allocate(mine.shape(), mine.dtype(), where));
    if (mine.numel() == 0) continue;
    mine.storage().use_on(*where.stream);
    operations.push_back({.kind = comm::OpKind::kAllReduce,
                          .dtype = mine.dtype(),
                          .reduction = {.kind = reduce_kind(phase.reductions[s])},
                          .in = mine.data(),
                          .out = out.back().data(),
                          .count = mine.numel()});
    nbytes += 2 * (group.size() - 1) * static_cast<std::int64_t>(mine.nbytes()) / group.size();
  }
  if (operations.empty()) return out;
  group.launch(operations, tensor::current_stream(out[0].device()));
  Counters& counts = counters();
  counts.collectives.fetch_add(1, std::memory_order_relaxed);
  counts.nbytes.fetch_add(static_cast<std::uint64_t>(nbytes), std::memory_order_relaxed);
  if (is_tracing()) trace_cooperation(global, mesh, axes, static_cast<int>(operations.size()), nbytes);
  return out;
}

}  // namespace

std::vector<Tensor> cooperate(const tensor::Call& global, const tensor::Call& local, const Entry& entry,
                              std::span<const layout::LocalOperand> inputs) {
  check_may_communicate(tessera::detail::concat(global.op.name(), " along a dimension that is cut"));
  const tensor::Cooperation& how = *global.op->def.cooperation;
  std::vector<Tensor> all;
  std::vector<Tensor> own;
  for (std::size_t p = 0; p < how.phases.size(); ++p) {
    std::vector<Tensor> statistics = how.phases[p].statistics({local, global, inputs, all, own});
    if (statistics.empty()) continue;
    std::vector<Tensor> sums = statistics;
    if (!entry.phases[p].empty() && !TESSERA_MUTANT("shard.statistics_not_reduced"))
      sums = reduced(global, how.phases[p], statistics, entry.mesh, entry.phases[p]);
    own.insert(own.end(), statistics.begin(), statistics.end());
    all.insert(all.end(), sums.begin(), sums.end());
  }
  return how.finish({local, global, inputs, all, own});
}

}  // namespace tessera::shard::detail
