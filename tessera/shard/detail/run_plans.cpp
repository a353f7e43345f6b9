#include "tessera/shard/detail/run_plans.h"

#include <algorithm>
#include <vector>

#include "tessera/ops/create/create.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/shard/detail/counts.h"
#include "tessera/shard/detail/tracing.h"
#include "tessera/tensor/call.h"

namespace tessera::shard::detail {
namespace {

Tensor view_of(const Tensor& dense, const Region& region) {
  return dense.as_strided(region.shape, region.strides, dense.offset() + region.offset);
}

Tensor new_part(const CompiledStep& step, const Tensor& part, const tensor::CurrentDevice& where) {
  if (step.fill) return ops::full(step.after, *step.fill, {part.dtype(), part.device()});
  return Tensor::allocate(step.after, part.dtype(), where);
}

// A prepared operation: its buffers, and the shard that it produces.
struct Prepared {
  comm::Operation operation;
  Tensor sent;
  Tensor received;  // the shard itself, if it is the receive buffer
  Tensor part;
};

Prepared prepare(const CompiledStep& step, const Tensor& part, const tensor::CurrentDevice& where) {
  Prepared out;
  const Tensor dense = ops::contiguous(part);
  out.sent = dense;
  if (step.packs) {
    out.sent = Tensor::allocate(Shape{step.packed_numel}, part.dtype(), where);
    copy_regions(out.sent, dense, step.pack);
  }
  out.part = new_part(step, part, where);
  copy_regions(out.part, dense, step.keep);
  out.received = step.unpacks ? Tensor::allocate(Shape{step.received_numel}, part.dtype(), where) : out.part;
  out.sent.storage().use_on(*where.stream);
  out.operation = step.operation;
  out.operation.in = out.sent.address();
  out.operation.out = out.received.address();
  return out;
}

Tensor finish(const CompiledStep& step, const Prepared& prepared) {
  if (step.unpacks) copy_regions(prepared.part, prepared.received, step.unpack);
  if (step.divisor != 1) ops::div_(prepared.part, Scalar(step.divisor));
  return prepared.part;
}

void count(const CompiledStep& step, std::uint64_t launches) {
  AtomicShardCounts& all = counters();
  all.collectives.fetch_add(launches, std::memory_order_relaxed);
  all.nbytes.fetch_add(static_cast<std::uint64_t>(step.nbytes), std::memory_order_relaxed);
}

// Runs the steps of one tensor up to its next communication.
const CompiledStep* next_communication(PlanRun& move) {
  for (; move.step < move.how->steps.size(); ++move.step) {
    const CompiledStep& step = move.how->steps[move.step];
    if (step.group != nullptr) return &step;
    const Tensor dense = ops::contiguous(move.part);
    const Tensor part = new_part(step, dense, tensor::current_device(dense.device()));
    copy_regions(part, dense, step.keep);
    move.part = part;
  }
  return nullptr;
}

void run_one(PlanRun& move) {
  while (const CompiledStep* step = next_communication(move)) {
    const tensor::CurrentDevice where = tensor::current_device(move.part.device());
    const Prepared prepared = prepare(*step, move.part, where);
    (void)step->group->launch(prepared.operation, *where.stream);
    count(*step, 1);
    move.part = finish(*step, prepared);
    ++move.step;
  }
}

// Launches those of `waiting` that match the first one, in one launch.
void launch_together(std::span<PlanRun> moves, std::vector<std::size_t>& waiting) {
  const CompiledStep& first = moves[waiting[0]].how->steps[moves[waiting[0]].step];
  const tensor::CurrentDevice where = tensor::current_device(moves[waiting[0]].part.device());
  std::vector<std::size_t> left;
  std::vector<std::size_t> taken;
  std::vector<Prepared> prepared;
  std::vector<comm::Operation> operations;
  for (const std::size_t i : waiting) {
    const CompiledStep& step = moves[i].how->steps[moves[i].step];
    const bool goes_along = step.group == first.group && step.operation.kind == first.operation.kind &&
                            moves[i].part.device() == where.context->device;
    if (!goes_along) {
      left.push_back(i);
      continue;
    }
    taken.push_back(i);
    prepared.push_back(prepare(step, moves[i].part, where));
    operations.push_back(prepared.back().operation);
  }
  (void)first.group->launch(operations, *where.stream);
  for (std::size_t t = 0; t < taken.size(); ++t) {
    PlanRun& move = moves[taken[t]];
    const CompiledStep& step = move.how->steps[move.step];
    count(step, t == 0 ? 1 : 0);
    move.part = finish(step, prepared[t]);
    ++move.step;
  }
  waiting = std::move(left);
}

}  // namespace

void copy_regions(const Tensor& to, const Tensor& from, std::span<const RegionCopy> copies) {
  for (const RegionCopy& copy : copies) ops::copy_(view_of(to, copy.to), view_of(from, copy.from));
}

void run_plans(std::span<PlanRun> moves) {
  const tensor::GradModeScope no_grad(false);
  if (is_tracing()) [[unlikely]] {
    for (const PlanRun& move : moves) trace_move(move.part.dtype(), move.how->plan);
  }
  if (moves.size() == 1) {
    run_one(moves[0]);
    return;
  }
  for (;;) {
    std::vector<std::size_t> waiting;
    for (std::size_t i = 0; i < moves.size(); ++i) {
      if (next_communication(moves[i]) != nullptr) waiting.push_back(i);
    }
    if (waiting.empty()) return;
    while (!waiting.empty()) launch_together(moves, waiting);
  }
}

}  // namespace tessera::shard::detail
