// Converts a call on tensors with layouts to a local call on the shards of this rank. Data that is equal on all ranks
// comes from an entry (detail/entry.h). Each thread caches recent entries with data of its rank, the localized
// attributes. The second level is the cache of the process.
//
//   call --hash--> slot of the thread --miss--> cache of the process --miss--> propagation
#include <array>
#include <memory>

#include "tessera/autograd/hooks.h"
#include "tessera/base/rank.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/shard/detail/cooperate.h"
#include "tessera/shard/detail/cost_models.h"
#include "tessera/shard/detail/counts.h"
#include "tessera/shard/detail/list_calls.h"
#include "tessera/shard/detail/plan_cache.h"
#include "tessera/shard/detail/rearrange.h"
#include "tessera/shard/detail/tracing.h"
#include "tessera/shard/redistribute.h"
#include "tessera/shard/scopes.h"
#include "tessera/tensor/call.h"

namespace tessera::shard::detail {
namespace {

using tensor::Call;
using EntryRef = std::shared_ptr<const DispatchPlan>;

void add(std::atomic<std::uint64_t>& counter, std::uint64_t by = 1) {
  counter.fetch_add(by, std::memory_order_relaxed);
}

// An entry with the data of this rank.
struct RankPlan {
  EntryRef entry;
  tensor::Attributes localized;                                       // if the operator localizes
  std::unique_ptr<const std::vector<layout::LocalOperand>> operands;  // of the inputs, if ranks cooperate
  std::shared_ptr<const CompiledRearrangement> rearrangement;  // if elements change their rank; set after the first run
  bool is_on_mesh = true;
};

// Cache of a thread for the rank that it works for.
struct ThreadCache {
  static constexpr std::size_t kSlots = 1024;
  std::uint64_t of_rank = 0;  // rank_changes at its start
  Rank rank{0};
  AtomicShardCounts* counts = nullptr;
  const std::atomic<std::uint64_t>* costs = nullptr;  // number of the cost model, which redistributions depend on
  std::unique_ptr<RankPlan[]> slots;

  static ThreadCache& of_thread() {
    thread_local const auto kOwn = std::make_unique<ThreadCache>();
    ThreadCache& memory = *kOwn;
    if (memory.slots == nullptr || memory.of_rank != tessera::detail::rank_changes) [[unlikely]]
      memory.begin();
    return memory;
  }

 private:
  [[gnu::noinline]] void begin() {
    rank = current_place().rank;
    counts = &counters();
    costs = &tessera::shard::detail::costs().number();
    slots = std::make_unique<RankPlan[]>(kSlots);
    of_rank = tessera::detail::rank_changes;  // the query for the rank may have changed it
  }
};

// A list of tensors that is usually short.
class TensorList {
 public:
  explicit TensorList(std::size_t size) : size_(size) {
    if (size > few_.size()) many_ = std::make_unique<Tensor[]>(size);
  }
  [[nodiscard]] std::span<Tensor> get() { return {many_ ? many_.get() : few_.data(), size_}; }

 private:
  std::size_t size_;
  std::array<Tensor, 4> few_;
  std::unique_ptr<Tensor[]> many_;
};

std::vector<layout::LocalOperand> local_inputs(const DispatchPlan& entry, Rank rank) {
  std::vector<layout::LocalOperand> out;
  for (const OperandKey& input : entry.inputs) {
    if (!input.is_there) {
      out.emplace_back();
      continue;
    }
    const layout::Layout layout = input.layout ? input.layout : layout::Layout::replicated(entry.mesh);
    out.push_back(layout::localize(std::span(&input.shape, 1), std::span(&layout, 1), rank)[0]);
  }
  return out;
}

RankPlan make_slot(const Call& call, EntryRef entry, Rank rank) {
  RankPlan slot;
  slot.is_on_mesh = entry->mesh.contains(rank);
  const bool localizes = call.op->def.localize != nullptr;
  if (slot.is_on_mesh && entry->moved.empty() && (localizes || !entry->phases.empty())) {
    auto operands = std::make_unique<const std::vector<layout::LocalOperand>>(local_inputs(*entry, rank));
    if (localizes) {
      std::vector<Shape> shapes;
      for (const tensor::OutputInfo& info : entry->infos) shapes.push_back(info.shape);
      const auto results = layout::localize(shapes, entry->outputs, rank);
      slot.localized = call.op->def.localize({call, *operands, results});
    }
    if (!entry->phases.empty()) slot.operands = std::move(operands);
  }
  slot.entry = std::move(entry);
  return slot;
}

EntryRef find_entry(const Call& call, std::uint64_t hash, const ThreadCache& memory, bool& is_known) {
  EntryRef entry = EntryCache::of_process().find(call, hash);
  is_known = entry != nullptr;
  if (is_known) return entry;
  entry = make_entry(call, hash);
  add(memory.counts->evictions, EntryCache::of_process().add(entry));
  return entry;
}

void wrap_results(const Call& call, const DispatchPlan& entry, std::span<Tensor> locals) {
  for (std::size_t o = 0; o < call.outputs.size(); ++o) {
    if (call.outputs[o]) continue;  // given by the caller
    Tensor local = locals.empty() ? Tensor() : std::move(locals[o]);
    call.outputs[o] = Tensor::sharded(entry.infos[o].shape, entry.infos[o].dtype, entry.outputs[o], std::move(local));
  }
}

void run_together(const Call& call, const Call& local, const DispatchPlan& entry,
                  std::span<const layout::LocalOperand> operands) {
  std::vector<Tensor> none(call.outputs.size());
  std::vector<Tensor> results = cooperate(call, {local.op, local.inputs, local.attributes, none}, entry, operands);
  for (std::size_t o = 0; o < call.outputs.size(); ++o) {
    if (call.outputs[o]) ops::copy_(call.outputs[o].local(), results[o]);
  }
  wrap_results(call, entry, results);
}

// Sends elements that change their rank. Nested calls may replace the slot, so needed data is held, and a slot is
// written only if it still belongs to this call.
void run_rearrangement(const Call& call, RankPlan& slot) {
  const EntryRef held = slot.entry;
  const DispatchPlan& entry = *held;
  std::shared_ptr<const CompiledRearrangement> rearrangement = slot.rearrangement;
  if (rearrangement == nullptr) {
    rearrangement = compile_rearranged(call, *entry.rearranged, entry.infos[0].shape);
    if (slot.entry == held) slot.rearrangement = rearrangement;
  }
  std::vector<Tensor> parts;
  for (const Tensor& input : call.inputs) parts.push_back(input.local());
  const AutomaticRedistributes moves(call.op.name());
  Tensor result = run_rearranged(*entry.rearranged, *rearrangement, parts);
  if (call.outputs[0]) ops::copy_(call.outputs[0].local(), result);
  wrap_results(call, entry, std::span(&result, 1));
}

void run_local(const Call& call, RankPlan& slot) {
  const DispatchPlan& entry = *slot.entry;
  if (!slot.is_on_mesh) {
    wrap_results(call, entry, {});
    return;
  }
  if (entry.rearranged != nullptr) [[unlikely]] {
    run_rearrangement(call, slot);
    return;
  }
  TensorList inputs(call.inputs.size());
  TensorList outputs(call.outputs.size());
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    if (call.inputs[i]) inputs.get()[i] = call.inputs[i].local();
  }
  const bool localizes = call.op->def.localize != nullptr;
  const Call local{call.op, inputs.get(), localizes ? slot.localized.ref() : call.attributes, outputs.get()};
  if (slot.operands != nullptr) [[unlikely]] {
    run_together(call, local, entry, *slot.operands);
    return;
  }
  for (std::size_t o = 0; o < call.outputs.size(); ++o) {
    if (call.outputs[o]) local.outputs[o] = call.outputs[o].local();
  }
  tensor::call_below(tensor::HookKind::kShard, local);
  wrap_results(call, entry, local.outputs);
}

void dispatch(const Call& call);

// Redistributes the operands as the entry states, and calls again.
void run_moved(const Call& call, const DispatchPlan& entry, const ThreadCache& memory) {
  const bool is_silent = entry.is_free || (entry.is_local && autograd::is_in_backward());
  if (redistribute_mode() != RedistributeMode::kAutomatic && !is_silent) refuse_moves(call);
  std::vector<Tensor> inputs(call.inputs.begin(), call.inputs.end());
  {
    const AutomaticRedistributes moves(call.op.name());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!entry.moved[i]) continue;
      if (!inputs[i].has_layout()) inputs[i] = as_replicated(inputs[i], entry.mesh);
      inputs[i] = redistribute(inputs[i], entry.moved[i]);
      if (!is_silent) add(memory.counts->automatic);
    }
  }
  dispatch({call.op, inputs, call.attributes, call.outputs});
}

void run(const Call& call, RankPlan& slot, const ThreadCache& memory, bool is_known) {
  if (!slot.entry->moved.empty()) [[unlikely]] {
    const EntryRef held = slot.entry;  // redistributions may need the slot for nested calls
    run_moved(call, *held, memory);
    return;
  }
  if (slot.entry->rearranged != nullptr && slot.entry->rearranged->plan->nbytes > 0) [[unlikely]] {
    if (redistribute_mode() != RedistributeMode::kAutomatic) refuse_moves(call);
    add(memory.counts->automatic);
  }
  add(memory.counts->calls);
  if (is_known) add(memory.counts->hits);
  if (is_tracing()) [[unlikely]]
    trace_call(call, *slot.entry);
  run_local(call, slot);
}

void dispatch(const Call& call) {
  if (call.op->input_lists != 0 && goes_by_lists(call)) [[unlikely]] {
    call_lists(call);
    return;
  }
  ThreadCache& memory = ThreadCache::of_thread();
  // The attributes of a random operator differ in every call: nothing is cached.
  if (call.op->def.traits.is_random) {
    RankPlan slot = make_slot(call, make_entry(call, 0), memory.rank);
    run(call, slot, memory, false);
    return;
  }
  const std::uint64_t hash = hash_of(call) ^ memory.costs->load(std::memory_order_relaxed);
  RankPlan& slot = memory.slots[hash % ThreadCache::kSlots];
  bool is_known = true;
  if (slot.entry == nullptr || slot.entry->hash != hash || !slot.entry->matches(call)) [[unlikely]] {
    slot = make_slot(call, find_entry(call, hash, memory, is_known), memory.rank);
  }
  run(call, slot, memory, is_known);
}

[[maybe_unused]] const bool kIsInstalled = (tensor::set_hook(tensor::HookKind::kShard, dispatch), true);

}  // namespace
}  // namespace tessera::shard::detail
