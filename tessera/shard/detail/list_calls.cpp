// Updates over lists. The check of each tensor is one comparison of layouts and one of shapes. List indices whose
// layouts differ or are partial are looked up as separate calls.
#include "tessera/shard/detail/list_calls.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/shard/detail/conflict_text.h"
#include "tessera/shard/detail/counts.h"
#include "tessera/shard/detail/plan_cache.h"
#include "tessera/shard/detail/tracing.h"
#include "tessera/shard/redistribute.h"
#include "tessera/shard/scopes.h"

namespace tessera::shard::detail {
namespace {

using layout::Layout;
using layout::Mesh;
using tensor::Call;
using tensor::detail::TensorState;
using EntryRef = std::shared_ptr<const DispatchPlan>;

TensorState* part_of(const Tensor& tensor) {
  TensorState* state = tensor.state();
  return state != nullptr && state->has_layout ? state->local.get() : state;
}

// Properties of a layout, computed once per call: lists have many tensors and few layouts.
class KnownLayouts {
 public:
  struct Known {
    const Layout* layout = nullptr;  // empty layout: plain
    bool is_partial = false;
    bool is_here = false;  // this rank is on its mesh
  };
  Known of(const Layout& layout) {
    if (last_.layout == nullptr || !(*last_.layout == layout)) [[unlikely]]
      last_ = find(layout);
    return last_;
  }
  [[nodiscard]] std::span<const Known> all() const { return all_; }

 private:
  [[gnu::noinline]] Known find(const Layout& layout) {
    for (const Known& each : all_) {
      if (*each.layout == layout) return each;
    }
    const bool is_plain = !layout;
    all_.push_back(
        {&layout, !is_plain && !layout.partials().empty(), is_plain || layout.mesh().contains(current_place().rank)});
    return all_.back();
  }

  std::vector<Known> all_;
  Known last_ = {};
};

bool are_there(std::span<const Tensor> tensors) {
  return std::ranges::all_of(tensors, [](const Tensor& each) { return static_cast<bool>(each); });
}

// State of one call.
class ByPlace {
 public:
  explicit ByPlace(const Call& call)
      : call_(call),
        lists_(call.op->input_lists),
        singles_(call.op->input_singles),
        count_((call.inputs.size() - singles_) / lists_),
        inputs_(call.inputs.size()),
        outputs_(call.outputs.size()) {
    for (const tensor::OpArgument& output : call.op->outputs) output_lists_ += output.is_list ? 1 : 0;
    for (std::size_t list = 0; list < output_lists_; ++list) {
      twins_.push_back(twin_of(list));
      if (twins_[list] == kNoTwin) has_targets_ &= are_there(call.outputs.subspan(list * count_, count_));
    }
    has_targets_ &= are_there(call.outputs.subspan(output_lists_ * count_));
    if (!has_targets_) layouts_.resize(call.outputs.size());
  }

  void run() {
    for (std::size_t i = 0; i < count_; i += kBlock) take_block(i, std::min(kBlock, count_ - i));
    if (redistribute_mode() == RedistributeMode::kAutomatic) move_singles();
    if (!moved_.empty()) {
      move_and_call(call_, moved_, targets_);
      return;
    }
    for (std::size_t s = 0; s < singles_; ++s) take_single(s);
    if (has_targets_) {
      call_into_targets();
    } else {
      call_for_results();
    }
    AtomicShardCounts& counts = counters();
    counts.calls.fetch_add(1, std::memory_order_relaxed);
    counts.hits.fetch_add(1, std::memory_order_relaxed);
    if (is_tracing()) [[unlikely]]
      trace_list_call(call_);
  }

 private:
  [[nodiscard]] const Tensor& in(std::size_t list, std::size_t i) const { return call_.inputs[list * count_ + i]; }
  [[nodiscard]] Tensor& out(std::size_t list, std::size_t i) const { return call_.outputs[list * count_ + i]; }

  [[nodiscard]] std::size_t twin_of(std::size_t list) const;
  void take_block(std::size_t begin, std::size_t size);
  void take_first(std::size_t begin, std::size_t size);
  void take_list(std::span<const Tensor> tensors, tensor::BorrowedTensors& parts, std::size_t at);
  void take_twins();
  void look_at(std::size_t i, const KnownLayouts::Known& known);
  void look_up(std::size_t i);
  [[nodiscard]] bool is_alike(std::size_t i) const;
  void check_place(std::size_t i) const;
  [[nodiscard]] EntryRef entry_of(const Call& call, std::size_t i) const;
  void gather_around_first(std::size_t i);
  void move_singles();
  void take_single(std::size_t s);
  [[nodiscard]] std::size_t places_here() const { return count_ - absent_; }
  [[nodiscard]] std::vector<TensorState*> without_absent(std::span<const Tensor> all, std::size_t lists) const;
  void call_into_targets();
  void call_for_results();

  static constexpr std::size_t kNoTwin = ~std::size_t{0};
  static constexpr std::size_t kBlock = 32;  // indices processed together, list by list: one bit of `unlike_` each

  const Call& call_;
  std::size_t lists_;
  std::size_t singles_;
  std::size_t count_;
  std::size_t output_lists_ = 0;
  std::vector<std::size_t> twins_;  // per output list: the input list that it overwrites
  bool has_targets_ = true;         // every result is written into a given tensor
  tensor::BorrowedTensors inputs_;
  tensor::BorrowedTensors outputs_;  // if all have targets
  std::uint32_t unlike_ = 0;         // indices of the block whose tensors differ or need another check
  std::size_t absent_ = 0;           // indices on meshes without this rank
  KnownLayouts known_layouts_;
  std::vector<Layout> layouts_;       // of the results, unless all have targets
  std::vector<std::size_t> moved_;    // inputs that must be redistributed first
  std::vector<Layout> targets_ = {};  // target layouts of `moved_`
};

// Lists are long, and each tensor is read once, from outside the nearest caches, with one or two cache lines. This
// prefetches the data of the next block.
void fetch(const TensorState* state) {
  if (state == nullptr) return;
  __builtin_prefetch(&state->numel);
  __builtin_prefetch(&state->local);
}

// Checks that all tensors at an index have one layout and one size. The local call checks the shapes of the shards,
// which are sharded equally.
void ByPlace::take_block(std::size_t begin, std::size_t size) {
  unlike_ = has_targets_ ? 0 : ~std::uint32_t{0};
  take_first(begin, size);
  for (std::size_t at = count_ + begin; at < lists_ * count_; at += count_) {
    take_list(call_.inputs.subspan(at, size), inputs_, at);
  }
  for (std::size_t list = 0; list < output_lists_ && has_targets_; ++list) {
    const std::size_t at = list * count_ + begin;
    if (twins_[list] == kNoTwin) take_list(call_.outputs.subspan(at, size), outputs_, at);
  }
  for (std::size_t i = 0; unlike_ != 0 && i < size; ++i) {
    if ((unlike_ >> i & 1) != 0) look_at(begin + i, known_layouts_.of(call_.inputs[begin + i].layout()));
  }
}

// Reads the first list, with which the others are compared.
void ByPlace::take_first(std::size_t begin, std::size_t size) {
  for (std::size_t i = begin; i < begin + size; ++i) {
    if (i + kBlock < count_) fetch(call_.inputs[i + kBlock].state());
    const Tensor& first = call_.inputs[i];
    TESSERA_CHECK(first, call_.op.name(), ": ", argument_text(call_, i), " must be a tensor");
    const KnownLayouts::Known known = known_layouts_.of(first.layout());
    absent_ += known.is_here ? 0 : 1;
    unlike_ |= std::uint32_t{known.is_partial} << (i - begin);
    inputs_.set(i, part_of(first));
  }
}

// Reads the block of another list, which begins at index `at`.
void ByPlace::take_list(std::span<const Tensor> tensors, tensor::BorrowedTensors& parts, std::size_t at) {
  const Tensor* const firsts = call_.inputs.data() + at % count_;
  const std::size_t left = count_ - at % count_;  // indices up to the end of the lists
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (i + kBlock < left) fetch(tensors.data()[i + kBlock].state());
    const TensorState* const state = tensors[i].state();
    const TensorState& first = *firsts[i].state();
    const bool is_alike = state != nullptr && state->numel == first.numel && state->layout == first.layout;
    unlike_ |= std::uint32_t{!is_alike} << i;
    parts.set(at + i, part_of(tensors[i]));
  }
}

// Finds the input list that an in-place update overwrites. Its tensors need no second check.
std::size_t ByPlace::twin_of(std::size_t list) const {
  const Tensor* const targets = call_.outputs.data() + list * count_;
  std::size_t twin = 0;
  while (twin < lists_ && count_ > 0 && !in(twin, 0).is_same(targets[0])) ++twin;
  if (twin == lists_ || count_ == 0 || !targets[0]) return kNoTwin;
  std::uintptr_t difference = 0;
  for (std::size_t i = 0; i < count_; ++i) {
    difference |=
        reinterpret_cast<std::uintptr_t>(in(twin, i).state()) ^ reinterpret_cast<std::uintptr_t>(targets[i].state());
  }
  return difference == 0 ? twin : kNoTwin;
}

void ByPlace::take_twins() {
  const Tensor* const parts = inputs_.tensors().data();
  for (std::size_t list = 0; list < output_lists_; ++list) {
    if (twins_[list] == kNoTwin) continue;
    for (std::size_t i = 0; i < count_; ++i) outputs_.set(list * count_ + i, parts[twins_[list] * count_ + i].state());
  }
}

// Checks plain tensors and meshes, which deserve more specific errors than those of one call.
void ByPlace::check_place(std::size_t i) const {
  const Tensor* on_mesh = nullptr;
  const auto look_at = [&](const Tensor& tensor) {
    if (!tensor || !tensor.has_layout()) return;
    if (on_mesh == nullptr) on_mesh = &tensor;
    TESSERA_CHECK(on_mesh->layout().mesh() == tensor.layout().mesh(), call_.op.name(), ": tensors at index ", i,
                  " of the lists must be on one mesh, got ", on_mesh->layout().text(), " and ", tensor.layout().text(),
                  "; bring them to one mesh with gather() and distribute()");
  };
  for (std::size_t list = 0; list < lists_; ++list) look_at(in(list, i));
  for (std::size_t list = 0; list < output_lists_; ++list) look_at(out(list, i));
  for (std::size_t list = 0; list < lists_; ++list) {
    const Tensor& tensor = in(list, i);
    TESSERA_CHECK(tensor, call_.op.name(), ": ", argument_text(call_, list * count_ + i), " must be a tensor");
    if (on_mesh != nullptr && !tensor.has_layout()) refuse_plain(call_, list * count_ + i);
  }
  for (std::size_t list = 0; list < output_lists_; ++list) {
    const Tensor& target = out(list, i);
    TESSERA_CHECK(!target || target.has_layout() == (on_mesh != nullptr), call_.op.name(), ": the result at index ", i,
                  " of the lists cannot be written into ", tensor::describe(target),
                  "; give a tensor with the layout of the inputs, or none");
  }
}

EntryRef ByPlace::entry_of(const Call& call, std::size_t i) const {
  try {
    const std::uint64_t hash = hash_of(call);
    EntryRef entry = EntryCache::of_process().find(call, hash);
    if (entry == nullptr) {
      entry = make_entry(call, hash);
      counters().evictions.fetch_add(EntryCache::of_process().add(entry), std::memory_order_relaxed);
    }
    if (!entry->moved.empty() && redistribute_mode() != RedistributeMode::kAutomatic) refuse_moves(call);
    return entry;
  } catch (const InvalidArgument& error) {
    const bool is_pending =
        std::ranges::any_of(call.inputs, [](const Tensor& x) { return x && !x.layout().partials().empty(); });
    TESSERA_THROW(InvalidArgument, call_.op.name(), ": index ", i, " of the lists: ", error.message(),
                  is_pending ? "; reduce_gradients() reduces partial gradients" : "");
  }
}

// Returns true if all tensors at an index, including given outputs, have one layout and one shape.
bool ByPlace::is_alike(std::size_t i) const {
  const Tensor& first = in(0, i);
  const auto fits = [&](const Tensor& x) { return x.layout() == first.layout() && x.shape() == first.shape(); };
  for (std::size_t list = 1; list < lists_; ++list) {
    if (!in(list, i) || !fits(in(list, i))) return false;
  }
  for (std::size_t list = 0; list < output_lists_; ++list) {
    if (out(list, i) && !fits(out(list, i))) return false;
  }
  return true;
}

void ByPlace::look_at(std::size_t i, const KnownLayouts::Known& known) {
  if (!is_alike(i) || known.is_partial) {
    look_up(i);
    return;
  }
  for (std::size_t list = 0; list < output_lists_ && !has_targets_; ++list) {
    layouts_[list * count_ + i] = *known.layout;
  }
}

// Looks up the index as a separate call, with scalars replicated on its mesh.
void ByPlace::look_up(std::size_t i) {
  check_place(i);
  if (!in(0, i).has_layout()) return;  // all are plain: the local call reports mismatches
  if (call_.op->outputs.size() > output_lists_) {
    gather_around_first(i);
    return;
  }
  const Mesh& mesh = in(0, i).layout().mesh();
  std::vector<Tensor> inputs;
  for (std::size_t list = 0; list < lists_; ++list) inputs.push_back(in(list, i));
  for (std::size_t s = 0; s < singles_; ++s) {
    const Tensor& number = call_.inputs[lists_ * count_ + s];
    inputs.push_back(number ? Tensor::sharded(number.shape(), number.dtype(), Layout::replicated(mesh), number.local())
                            : Tensor());
  }
  std::vector<Tensor> outputs;
  for (std::size_t list = 0; list < output_lists_; ++list) outputs.push_back(out(list, i));
  outputs.resize(call_.op->outputs.size());
  const EntryRef entry = entry_of({call_.op, inputs, call_.attributes, outputs}, i);
  for (std::size_t list = 0; list < lists_ && !entry->moved.empty(); ++list) {
    if (!entry->moved[list]) continue;
    moved_.push_back(list * count_ + i);
    targets_.push_back(entry->moved[list]);
  }
  for (std::size_t list = 0; list < output_lists_ && !has_targets_ && entry->moved.empty(); ++list) {
    layouts_[list * count_ + i] = entry->outputs[list];
  }
}

// For operators whose rule cannot describe one index (a result that is not a list, such as the step count, has none of
// its dimensions): redistributes all tensors to the layout of the first one, the parameter.
void ByPlace::gather_around_first(std::size_t i) {
  const Layout& first = in(0, i).layout();
  const bool is_pending = !first.partials().empty();
  TESSERA_CHECK(!has_targets_ || !is_pending, call_.op.name(), ": ", argument_text(call_, i), " is ",
                tensor::describe(in(0, i)), ", which is partial and cannot be written into; redistribute() it");
  const Layout target = is_pending ? Layout::replicated(first.mesh()) : first;
  for (std::size_t list = 0; list < lists_; ++list) {
    const Tensor& each = in(list, i);
    const std::size_t at = list * count_ + i;
    // Shards of different global shapes may have equal shapes on some ranks.
    TESSERA_CHECK(each.shape() == in(0, i).shape(), call_.op.name(), ": index ", i,
                  " of the lists: ", argument_text(call_, at), " must have shape ", in(0, i).shape(), ", got ",
                  each.shape());
    if (each.layout() == target) continue;
    TESSERA_CHECK(redistribute_mode() == RedistributeMode::kAutomatic, call_.op.name(), ": index ", i,
                  " of the lists: ", argument_text(call_, at), " is ", tensor::describe(each), ", but ",
                  argument_text(call_, i), " is ", tensor::describe(in(0, i)), "; redistribute() it to ", target.text(),
                  each.layout().partials().empty() ? "" : "; reduce_gradients() reduces partial gradients");
    moved_.push_back(at);
    targets_.push_back(target);
  }
  for (std::size_t list = 0; list < output_lists_; ++list) {
    const Tensor& given = out(list, i);
    TESSERA_CHECK(!given || (given.layout() == target && given.shape() == in(0, i).shape()), call_.op.name(),
                  ": index ", i, " of the lists: the output must have shape ", in(0, i).shape(), " and layout ",
                  target.text(), ", got ", tensor::describe(given));
    if (!has_targets_) layouts_[list * count_ + i] = target;
  }
}

void ByPlace::move_singles() {
  for (std::size_t at = lists_ * count_; at < call_.inputs.size(); ++at) {
    const Tensor& number = call_.inputs[at];
    if (!number || !number.has_layout() || number.layout().is_replicated()) continue;
    moved_.push_back(at);
    targets_.push_back(Layout::replicated(number.layout().mesh()));
  }
}

// A scalar tensor is plain, per rank, or replicated on a mesh with all ranks that need it.
void ByPlace::take_single(std::size_t s) {
  const std::size_t at = lists_ * count_ + s;
  const Tensor& number = call_.inputs[at];
  inputs_.set(at, part_of(number));
  if (!number || !number.has_layout()) return;
  TESSERA_CHECK(number.layout().is_replicated(), call_.op.name(), ": ", argument_text(call_, at), " is ",
                tensor::describe(number), ", but must be replicated; redistribute() it");
  const Mesh& mesh = number.layout().mesh();
  for (const KnownLayouts::Known& known : known_layouts_.all()) {
    TESSERA_CHECK(!*known.layout || holds_ranks_of(mesh, known.layout->mesh()), call_.op.name(), ": ",
                  argument_text(call_, at), " is on mesh ", mesh.text(), ", which lacks ranks of ",
                  known.layout->mesh().text(), ", the mesh of tensors in the lists; give a plain tensor");
  }
  TESSERA_CHECK(number.local() || places_here() == 0, call_.op.name(),
                ": this rank has plain tensors in the lists, but no shard of ", argument_text(call_, at), ", ",
                tensor::describe(number), "; give a plain tensor");
}

// Returns `lists` lists and the following tensors, without the indices that this rank holds no shard of.
std::vector<TensorState*> ByPlace::without_absent(std::span<const Tensor> all, std::size_t lists) const {
  std::vector<TensorState*> out;
  const std::span<const Tensor> first = inputs_.tensors();
  for (std::size_t list = 0; list < lists; ++list) {
    for (std::size_t i = 0; i < count_; ++i) {
      if (first[i]) out.push_back(part_of(all[list * count_ + i]));
    }
  }
  for (std::size_t k = lists * count_; k < all.size(); ++k) out.push_back(part_of(all[k]));
  return out;
}

tensor::BorrowedTensors borrowed(const std::vector<TensorState*>& states) {
  tensor::BorrowedTensors out(states.size());
  for (std::size_t i = 0; i < states.size(); ++i) out.set(i, states[i]);
  return out;
}

void ByPlace::call_into_targets() {
  if (absent_ == 0) [[likely]] {
    take_twins();
    for (std::size_t o = output_lists_ * count_; o < call_.outputs.size(); ++o) {
      outputs_.set(o, part_of(call_.outputs[o]));
    }
    tensor::call_below(tensor::HookKind::kShard, {call_.op, inputs_.tensors(), call_.attributes, outputs_.tensors()});
    return;
  }
  const tensor::BorrowedTensors inputs = borrowed(without_absent(call_.inputs, lists_));
  const tensor::BorrowedTensors outputs = borrowed(without_absent(call_.outputs, output_lists_));
  // Without list indices there may still be a scalar to update: the step count.
  const bool has_work = std::ranges::any_of(outputs.tensors(), [](const Tensor& target) { return bool(target); });
  if (!has_work) return;
  tensor::call_below(tensor::HookKind::kShard, {call_.op, inputs.tensors(), call_.attributes, outputs.tensors()});
}

void ByPlace::call_for_results() {
  const std::vector<tensor::OutputInfo> infos = tensor::infer(call_);
  const tensor::BorrowedTensors inputs = borrowed(without_absent(call_.inputs, lists_));
  std::vector<Tensor> results;
  std::vector<std::size_t> places;
  for (std::size_t o = 0; o < call_.outputs.size(); ++o) {
    const bool is_single = o >= output_lists_ * count_;
    if (!is_single && !inputs_.tensors()[o % count_]) continue;
    results.push_back(call_.outputs[o] ? call_.outputs[o].local() : Tensor());
    places.push_back(o);
  }
  const bool has_work = std::ranges::any_of(inputs.tensors(), [](const Tensor& part) { return bool(part); });
  if (has_work) {
    tensor::call_below(tensor::HookKind::kShard, {call_.op, inputs.tensors(), call_.attributes, results});
  }
  std::vector<Tensor> parts(call_.outputs.size());
  for (std::size_t r = 0; r < places.size(); ++r) parts[places[r]] = std::move(results[r]);
  for (std::size_t o = 0; o < call_.outputs.size(); ++o) {
    if (call_.outputs[o]) continue;
    // A scalar result uses the layout of the first tensor.
    const bool is_single = o >= output_lists_ * count_;
    const Layout& of = is_single && layouts_[0] ? Layout::replicated(layouts_[0].mesh()) : layouts_[o];
    call_.outputs[o] = of ? Tensor::sharded(infos[o].shape, infos[o].dtype, of, std::move(parts[o])) : parts[o];
  }
}

}  // namespace

bool holds_ranks_of(const Mesh& mesh, const Mesh& other) {
  if (mesh == other) return true;
  if (mesh.size() < other.size()) return false;
  const layout::RankSet ranks = other.ranks();
  for (std::int64_t place = 0; place < ranks.size(); ++place) {
    if (!mesh.contains(ranks.at(place))) return false;
  }
  return true;
}

void move_and_call(const Call& call, std::span<const std::size_t> inputs, std::span<const Layout> to) {
  std::vector<Tensor> all(call.inputs.begin(), call.inputs.end());
  std::vector<Tensor> moving;
  for (const std::size_t input : inputs) moving.push_back(all[input]);
  {
    const AutomaticRedistributes moves(call.op.name());
    moving = redistribute(moving, to);
  }
  counters().automatic.fetch_add(moving.size(), std::memory_order_relaxed);
  for (std::size_t m = 0; m < moving.size(); ++m) all[inputs[m]] = std::move(moving[m]);
  call_lists({call.op, all, call.attributes, call.outputs});
}

bool goes_by_lists(const Call& call) {
  const tensor::OperatorState& op = *call.op.operator->();
  return op.input_lists != 0 && (op.def.traits.is_pointwise || op.def.cooperation != nullptr);
}

void call_lists(const Call& call) {
  if (call.op->def.cooperation != nullptr) {
    call_together(call);
  } else {
    call_by_place(call);
  }
}

void call_by_place(const Call& call) { ByPlace(call).run(); }

}  // namespace tessera::shard::detail
