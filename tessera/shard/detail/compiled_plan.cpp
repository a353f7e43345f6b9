#include "tessera/shard/detail/compiled_plan.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>

#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/shard/detail/cost_models.h"
#include "tessera/shard/detail/counts.h"
#include "tessera/shard/detail/geometry.h"
#include "tessera/shard/detail/rank_state.h"
#include "tessera/shard/groups.h"
#include "tessera/shard/redistribute.h"

namespace tessera::shard::detail {
namespace {

using comm::OpKind;
using layout::StepKind;

Region region_of(const Chunk& chunk, const Shape& shape, std::int64_t offset, bool is_from) {
  const Strides dense = contiguous_strides(shape);
  SmallVector<std::int64_t, 8> sizes;
  SmallVector<std::int64_t, 8> strides;
  for (std::size_t d = 0; d < chunk.dims.size(); ++d) {
    const CommonRun& run = chunk.dims[d];
    offset += (is_from ? run.from : run.to) * dense[d];
    if (run.count > 1) {
      sizes.push_back(run.count);
      strides.push_back((is_from ? run.from_stride : run.to_stride) * dense[d]);
    }
    if (run.length > 1) {
      sizes.push_back(run.length);
      strides.push_back(dense[d]);
    }
  }
  return {Shape(std::span<const std::int64_t>(sizes)), Strides(std::span<const std::int64_t>(strides)), offset};
}

Region repeated(const Region& region, std::int64_t count, std::int64_t stride) {
  SmallVector<std::int64_t, 8> sizes = {count};
  SmallVector<std::int64_t, 8> strides = {stride};
  for (const std::int64_t size : region.shape) sizes.push_back(size);
  for (const std::int64_t step : region.strides) strides.push_back(step);
  return {Shape(std::span<const std::int64_t>(sizes)), Strides(std::span<const std::int64_t>(strides)), region.offset};
}

bool is_dense_at(const Region& region, std::int64_t offset) {
  return region.offset == offset && is_contiguous(region.shape, region.strides);
}

// Reduction of the partial axes of the step, and the number of ranks of an average.
struct Settled {
  Reduction reduction = Reduction::kSum;
  std::int64_t averaged = 1;
};

// Returns the common sub-axis of two sub-axes; size 1 if none exists.
layout::SubAxis common_part(const layout::SubAxis& a, const layout::SubAxis& b) {
  const std::int64_t begin = std::max(a.before, b.before);
  const std::int64_t end = std::min(a.before * a.size, b.before * b.size);
  return {a.axis, begin, a.axis == b.axis && begin < end ? end / begin : 1};
}

Settled settled_by(const layout::Step& step) {
  Settled out;
  for (const layout::PartialAxis& partial : step.before.partials()) {
    for (const layout::SubAxis& axis : step.axes) {
      const layout::SubAxis part = common_part(partial.by, axis);
      if (part.size == 1) continue;
      if (partial.reduction == Reduction::kAvg) {
        out.averaged *= part.size;
      } else {
        out.reduction = partial.reduction;
      }
    }
  }
  return out;
}

void set_reduction(CompiledStep& out, const layout::Step& step, DType dtype) {
  const Settled settled = settled_by(step);
  comm::ReduceOp& reduction = out.operation.reduction;
  if (settled.reduction != Reduction::kSum && settled.reduction != Reduction::kAvg) {
    reduction.kind = settled.reduction;
    return;
  }
  if (settled.averaged == 1) return;
  if (settled.averaged == out.group->size()) {
    reduction.kind = Reduction::kAvg;
  } else if (comm::can_reduce(dtype, Reduction::kPremultiply)) {
    reduction = {Reduction::kPremultiply, 1.0 / static_cast<double>(settled.averaged)};
  } else {
    TESSERA_CHECK_AS(NotSupported, is_complex(dtype), "redistribute: values of ", to_string(dtype), " under ",
                     step.before.placements_text(),
                     " mix sum and avg, which integers do not support; cast to a floating type first");
    out.divisor = settled.averaged;
  }
}

// Returns true if this rank keeps its values when they become partial: it is the first along every new sum or product
// axis.
bool keeps_values(const layout::Step& step, Rank rank) {
  const layout::Mesh& mesh = step.after.mesh();
  const layout::Coordinates at = mesh.coordinates(rank);
  for (const layout::PartialAxis& partial : step.after.partials()) {
    if (partial.reduction != Reduction::kSum && partial.reduction != Reduction::kProd) continue;
    for (const layout::SubAxis& axis : step.axes) {
      const layout::SubAxis part = common_part(partial.by, axis);
      if (part.size == 1) continue;
      const std::int64_t behind = mesh.axis(part.axis).size / (part.before * part.size);
      if (at[static_cast<std::size_t>(part.axis)] / behind % part.size != 0) return false;
    }
  }
  return true;
}

void set_counts(std::int64_t& count, SmallVector<std::int64_t, 8>& counts, std::span<const std::int64_t> all) {
  if (std::ranges::all_of(all, [&](std::int64_t each) { return each == all[0]; })) {
    count = all[0];
    return;
  }
  for (const std::int64_t each : all) counts.push_back(each);
}

// Compiles one kind of step per function. `self` is the group rank of this rank.
class StepCompiler {
 public:
  StepCompiler(CompiledStep& out, const layout::Step& step, const Shape& shape) : out_(out), step_(step) {
    const Rank rank = current_place().rank;
    before_ = shard_maps(step.before, shape, rank);
    after_ = shard_maps(step.after, shape, rank);
    out.after = shape_of(after_);
    if (out.group == nullptr) return;
    parts_ = group_shards(step, shape, out.group->ranks());
    self_ = static_cast<std::size_t>(out.group->rank());
  }

  void inside() {
    if (step_.kind == StepKind::kPartition && !keeps_values(step_, current_place().rank)) {
      out_.fill = tensor::Scalar(step_.after.partials()[0].reduction == Reduction::kProd ? 1 : 0);
      return;
    }
    if (step_.kind == StepKind::kZeroFill) out_.fill = tensor::Scalar(0);
    add(out_.keep, common_chunks(before_, after_), shape_of(before_), 0, out_.after, 0);
    merge_copies(out_.keep);
  }

  void all_reduce() {
    out_.operation.kind = OpKind::kAllReduce;
    out_.operation.count = out_.after.numel();
  }

  // Messages are complete shards of the other ranks.
  void all_gather() {
    out_.operation.kind = OpKind::kAllGather;
    std::vector<std::int64_t> counts;
    std::int64_t offset = 0;
    for (const ShardMaps& part : parts_.before) {
      const Shape shape = shape_of(part);
      add(out_.unpack, common_chunks(part, after_), shape, offset, out_.after, 0);
      counts.push_back(shape.numel());
      offset += shape.numel();
    }
    out_.received_numel = offset;
    out_.unpacks = !are_in_place(out_.unpack, offset);
    set_counts(out_.operation.count, out_.operation.out_counts, counts);
    settle_copies();
  }

  // Messages are complete new shards of the other ranks.
  void reduce_scatter() {
    out_.operation.kind = OpKind::kReduceScatter;
    std::vector<std::int64_t> counts;
    std::int64_t offset = 0;
    for (const ShardMaps& part : parts_.after) {
      const Shape shape = shape_of(part);
      add(out_.pack, common_chunks(before_, part), shape_of(before_), 0, shape, offset);
      counts.push_back(shape.numel());
      offset += shape.numel();
    }
    out_.packed_numel = offset;
    out_.packs = !are_in_place(out_.pack, offset);
    set_counts(out_.operation.count, out_.operation.in_counts, counts);
    settle_copies();
  }

  // Shards of equal size that change their owner completely.
  bool permute() {
    const auto numel_of_part = [](const ShardMaps& part) { return shape_of(part).numel(); };
    const std::int64_t numel = out_.after.numel();
    for (std::size_t p = 0; p < parts_.after.size(); ++p) {
      if (numel_of_part(parts_.after[p]) != numel || numel_of_part(parts_.before[p]) != numel) return false;
    }
    const std::vector<std::vector<int>> chosen = choose_holders(parts_);
    std::vector<int> targets(parts_.after.size(), -1);
    for (std::size_t taker = 0; taker < chosen.size(); ++taker) {
      if (chosen[taker].size() != 1) return false;
      int& target = targets[static_cast<std::size_t>(chosen[taker][0])];
      if (target != -1) return false;
      target = static_cast<int>(taker);
    }
    out_.operation.kind = OpKind::kPermute;
    out_.operation.count = numel;
    for (const int target : targets) out_.operation.targets.push_back(target);
    return true;
  }

  // Messages contain the missing elements of each rank, chunk by chunk.
  void exchange() {
    out_.operation.kind = OpKind::kAllToAll;
    Exchange messages = exchange_of(parts_, static_cast<int>(self_));
    const Shape before = shape_of(before_);
    const bool sends_part = add_messages(messages.sends, before, out_.pack, true);
    const bool receives_part = add_messages(messages.receives, out_.after, out_.unpack, false);
    out_.packs = !sends_part;
    out_.unpacks = !receives_part;
    if (out_.packs && out_.unpacks) {  // local data needs no message
      add(out_.keep, messages.sends[self_], before, 0, out_.after, 0);
      messages.sends[self_].clear();
      messages.receives[self_].clear();
      out_.pack.clear();
      out_.unpack.clear();
      add_messages(messages.sends, before, out_.pack, true);
      add_messages(messages.receives, out_.after, out_.unpack, false);
    }
    for (const auto& chunks : messages.sends) out_.operation.in_counts.push_back(numel_of(chunks));
    for (const auto& chunks : messages.receives) out_.operation.out_counts.push_back(numel_of(chunks));
    settle_copies();
    merge_copies(out_.keep);
  }

 private:
  static void add(std::vector<RegionCopy>& copies, std::span<const Chunk> chunks, const Shape& from,
                  std::int64_t from_offset, const Shape& to, std::int64_t to_offset) {
    for (const Chunk& chunk : chunks) copies.push_back(region_copy(chunk, from, from_offset, to, to_offset));
  }

  // Adds copies between a shard and contiguous messages, with each chunk dense in its message. Returns true if the
  // shard already has the form of these messages.
  bool add_messages(std::span<const std::vector<Chunk>> messages, const Shape& part, std::vector<RegionCopy>& copies,
                    bool is_sent) {
    std::int64_t offset = 0;
    for (const std::vector<Chunk>& chunks : messages) {
      for (const Chunk& chunk : chunks) {
        const Region in_part = region_of(chunk, part, 0, is_sent);
        const Region in_message = {in_part.shape, contiguous_strides(in_part.shape), offset};
        copies.push_back(is_sent ? RegionCopy{in_part, in_message} : RegionCopy{in_message, in_part});
        offset += chunk.numel();
      }
    }
    (is_sent ? out_.packed_numel : out_.received_numel) = offset;
    return are_in_place(copies, offset);
  }

  // Returns true if the copies are contiguous identity copies of dense regions.
  static bool are_in_place(std::span<const RegionCopy> copies, std::int64_t numel) {
    std::int64_t offset = 0;
    for (const RegionCopy& copy : copies) {
      if (!is_dense_at(copy.from, offset) || !is_dense_at(copy.to, offset)) return false;
      offset += copy.from.shape.numel();
    }
    return offset == numel;
  }

  void settle_copies() {
    if (!out_.packs) out_.pack.clear();
    if (!out_.unpacks) out_.unpack.clear();
    merge_copies(out_.pack);
    merge_copies(out_.unpack);
  }

  CompiledStep& out_;
  const layout::Step& step_;
  ShardMaps before_;
  ShardMaps after_;
  GroupShards parts_;
  std::size_t self_ = 0;
};

struct MoveKey {
  layout::LayoutId from;
  layout::LayoutId to;
  DType dtype;
  std::uint64_t costs;
  Shape shape;
  friend bool operator==(const MoveKey&, const MoveKey&) = default;
};
struct MoveHash {
  std::size_t operator()(const MoveKey& key) const {
    std::uint64_t sum = key.from.value() * 0x9e3779b97f4a7c15U ^ key.to.value();
    for (const std::int64_t size : key.shape) sum = (sum ^ static_cast<std::uint64_t>(size)) * 0x9e3779b97f4a7c15U;
    sum ^= static_cast<std::uint64_t>(key.dtype) ^ key.costs;
    return sum ^ sum >> 32;
  }
};
// Cached plans of one rank.
struct RankMoves {
  std::mutex mutex;
  std::unordered_map<MoveKey, std::shared_ptr<const CompiledPlan>, MoveHash> known;
};

void check_allowed(const layout::Layout& from, const layout::Layout& to, const Shape& shape, DType dtype) {
  if (redistribute_mode() != RedistributeMode::kForbidden) return;
  check_may_communicate(tessera::detail::concat("redistribute of ", to_string(dtype), shape, " from ",
                                                from.placements_text(), " to ", to.placements_text()));
}

std::shared_ptr<const CompiledPlan> compile(const layout::Layout& from, const layout::Layout& to, const Shape& shape,
                                            DType dtype) {
  auto move = std::make_shared<CompiledPlan>();
  move->plan = plan_between(from, to, shape, dtype);
  const bool communicates =
      std::ranges::any_of(move->plan->steps, [](const layout::Step& step) { return layout::communicates(step.kind); });
  if (communicates) check_allowed(from, to, shape, dtype);  // before any group is created
  for (const layout::Step& step : move->plan->steps) {
    // A deterministic reduction uses mesh order, so that its result does not depend on the destination of the shards.
    std::vector<layout::SubAxis> axes = step.axes;
    if (step.kind == StepKind::kReduceScatter || step.kind == StepKind::kAllReduce) std::ranges::sort(axes);
    const comm::ProcessGroup* group =
        layout::communicates(step.kind) ? &group_along(step.before.mesh(), axes) : nullptr;
    move->steps.push_back(compile_step(step, shape, dtype, group));
    move->communicates |= group != nullptr;
  }
  return move;
}

}  // namespace

RegionCopy region_copy(const Chunk& chunk, const Shape& from, std::int64_t from_offset, const Shape& to,
                       std::int64_t to_offset) {
  return {region_of(chunk, from, from_offset, true), region_of(chunk, to, to_offset, false)};
}

void merge_copies(std::vector<RegionCopy>& copies) {
  std::vector<RegionCopy> merged;
  for (std::size_t i = 0; i < copies.size();) {
    const RegionCopy& first = copies[i];
    std::size_t end = i + 1;
    std::int64_t from_step = 0;
    std::int64_t to_step = 0;
    for (; end < copies.size(); ++end) {
      const RegionCopy& next = copies[end];
      const RegionCopy& last = copies[end - 1];
      if (next.from.shape != first.from.shape || next.from.strides != first.from.strides ||
          next.to.strides != first.to.strides)
        break;
      const std::int64_t from_next = next.from.offset - last.from.offset;
      const std::int64_t to_next = next.to.offset - last.to.offset;
      if (end > i + 1 && (from_next != from_step || to_next != to_step)) break;
      from_step = from_next;
      to_step = to_next;
    }
    const auto count = static_cast<std::int64_t>(end - i);
    if (count == 1) {
      merged.push_back(first);
    } else {
      merged.push_back({repeated(first.from, count, from_step), repeated(first.to, count, to_step)});
    }
    i = end;
  }
  copies = std::move(merged);
}

CompiledStep compile_step(const layout::Step& step, const Shape& shape, DType dtype, const comm::ProcessGroup* group) {
  CompiledStep out;
  out.kind = step.kind;
  out.group = group;
  out.nbytes = step.nbytes;
  out.operation.dtype = dtype;
  if (group != nullptr) set_geometry_between(out.operation.geometry, shape, step.before, step.after);
  StepCompiler compiler(out, step, shape);
  switch (step.kind) {
    case StepKind::kAllGather: compiler.all_gather(); break;
    case StepKind::kAllToAll:
    case StepKind::kBoxExchange: compiler.exchange(); break;
    case StepKind::kPermute:
      if (!compiler.permute()) compiler.exchange();
      break;
    case StepKind::kReduceScatter:
      compiler.reduce_scatter();
      set_reduction(out, step, dtype);
      break;
    case StepKind::kAllReduce:
      compiler.all_reduce();
      set_reduction(out, step, dtype);
      break;
    default: compiler.inside(); break;
  }
  return out;
}

std::shared_ptr<const layout::Plan> plan_between(const layout::Layout& from, const layout::Layout& to,
                                                 const Shape& shape, DType dtype) {
  const layout::PlanRequest request{from, to, shape, static_cast<std::int64_t>(itemsize(dtype))};
  try {
    return planner().plan(request);
  } catch (const InvalidArgument&) {
    if (from.is_replicated() || to.is_replicated()) throw;
  }
  const layout::Layout whole = layout::Layout::replicated(from.mesh());
  auto both = std::make_shared<layout::Plan>();
  both->request = request;
  both->is_exact = false;
  for (const auto& [start, end] : {std::pair(from, whole), std::pair(whole, to)}) {
    const auto part = planner().plan({start, end, shape, request.itemsize});
    both->steps.insert(both->steps.end(), part->steps.begin(), part->steps.end());
    both->nbytes += part->nbytes;
    both->peak_nbytes = std::max(both->peak_nbytes, part->peak_nbytes);
    both->us += part->us;
  }
  return both;
}

std::shared_ptr<const CompiledPlan> compiled_plan(const layout::Layout& from, const layout::Layout& to,
                                                  const Shape& shape, DType dtype) {
  RankMoves& moves = rank_state<RankMoves>();
  const MoveKey key{from.id(), to.id(), dtype, costs().number().load(std::memory_order_relaxed), shape};
  {
    const std::lock_guard lock(moves.mutex);
    if (const auto found = moves.known.find(key); found != moves.known.end()) {
      if (found->second->communicates) check_allowed(from, to, shape, dtype);
      return found->second;
    }
  }
  // Without the lock: the first group of some ranks waits for the others.
  std::shared_ptr<const CompiledPlan> made = compile(from, to, shape, dtype);
  const std::lock_guard lock(moves.mutex);
  if (moves.known.size() >= kMaxPlans) moves.known.clear();
  return moves.known.try_emplace(key, std::move(made)).first->second;
}

}  // namespace tessera::shard::detail
