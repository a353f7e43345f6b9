#include "tessera/shard/gatherer.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "tessera/autograd/function.h"
#include "tessera/autograd/hooks.h"
#include "tessera/base/error.h"
#include "tessera/memory/label.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/shard/redistribute.h"
#include "tessera/tensor/call.h"
#include "tessera/tensor/device_context.h"

namespace tessera::shard {
namespace {

using layout::Layout;

// Parameters that are gathered together.
struct Unit {
  std::vector<Tensor> leaves;
  std::vector<Layout> in_use;  // empty: plain tensors
  std::string axis;
  bool is_read_in_backward = false;  // a gradient, or a repeated computation, reads these parameters
  [[nodiscard]] DType dtype() const { return leaves[0].dtype(); }
  [[nodiscard]] std::vector<std::uint64_t> versions() const {
    std::vector<std::uint64_t> out;
    for (const Tensor& leaf : leaves) out.push_back(leaf.version());
    return out;
  }
};

// A gathered unit.
struct Gathered {
  // Tensors in the memory of `other` do not count again.
  Gathered(std::vector<Tensor> parts, std::shared_ptr<HeldBytes> counter, const Gathered* other = nullptr)
      : tensors(std::move(parts)), held(std::move(counter)) {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const Tensor own = tensors[i].local();
      const bool is_shared = other != nullptr && &own.storage() == &other->tensors[i].local().storage();
      if (!is_shared) nbytes += static_cast<std::int64_t>(own.nbytes());
    }
    held->now += nbytes;
    held->peak = std::max(held->peak, held->now);
  }
  ~Gathered() { held->now -= nbytes; }
  Gathered(const Gathered&) = delete;
  Gathered& operator=(const Gathered&) = delete;

  std::vector<Tensor> tensors;
  std::shared_ptr<Gathered> kept;       // counts the memory that the tensors share with it
  std::vector<std::uint64_t> versions;  // of the leaves, when the gather was enqueued
  device::Event ready;                  // empty: on the requesting stream
  std::int64_t nbytes = 0;
  std::shared_ptr<HeldBytes> held;
};

// Returns the layout of a gradient on its way back: shards of its leaf, partial along all other axes.
Layout way_back(const Tensor& gradient, const Layout& leaf, const std::string& axis) {
  const int gathered = axis.empty() ? -1 : leaf.mesh().index_of(axis);
  layout::LayoutParts parts = leaf.parts();
  for (const layout::PartialAxis& pending : gradient.layout().partials()) {
    if (pending.by.axis != gathered) parts.partials.push_back(pending);
  }
  return Layout::create(leaf.mesh(), std::move(parts));
}

std::vector<Tensor> sent_back(const std::vector<Tensor>& gradients, const Unit& unit) {
  const memory::Label label("gradients");
  std::vector<Tensor> out(gradients.size());
  std::vector<Tensor> given;
  std::vector<Layout> to;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i] || !autograd::requires_grad(unit.leaves[i])) continue;  // a frozen leaf takes none
    if (!gradients[i].has_layout()) {
      out[i] = ops::cast(gradients[i], unit.dtype());
      continue;
    }
    given.push_back(gradients[i]);
    to.push_back(way_back(gradients[i], unit.leaves[i].layout(), unit.axis));
    places.push_back(i);
  }
  if (given.empty()) return out;
  std::vector<Tensor> moved = redistribute(given, to, {.forward_dtype = unit.dtype()});
  for (std::size_t m = 0; m < moved.size(); ++m) out[places[m]] = std::move(moved[m]);
  return out;
}

// Tape node: returns the gathered parameters, and sends the gradients back.
class GatherFunction final : public autograd::Function {
 public:
  GatherFunction(std::shared_ptr<const Unit> unit, std::vector<Tensor> gathered)
      : unit_(std::move(unit)), gathered_(std::move(gathered)) {}
  [[nodiscard]] std::string name() const override { return "gather"; }
  std::vector<Tensor> forward(autograd::FunctionCall& /*call*/, const std::vector<Tensor>& /*leaves*/) const override {
    return std::move(gathered_);  // applied once: the tape must not hold them
  }
  std::vector<Tensor> backward(autograd::FunctionCall& /*call*/, const std::vector<Tensor>& gradients) const override {
    return sent_back(gradients, *unit_);
  }

 private:
  std::shared_ptr<const Unit> unit_;
  mutable std::vector<Tensor> gathered_;
};

}  // namespace

struct Gatherer::State : std::enable_shared_from_this<Gatherer::State> {
  State(GathererOptions given, ExposedTime& waited) : options(std::move(given)), exposed(waited) {}

  // Units that are sharded over the axis need a stream to be gathered ahead.
  void add(std::shared_ptr<Unit> unit) {
    const layout::Mesh mesh = unit->in_use.empty() ? layout::Mesh() : unit->in_use[0].mesh();
    if (mesh && !options.axis.empty() && mesh.axis(mesh.index_of(options.axis)).size > 1) is_sharded = true;
    if (is_sharded && options.prefetches && !side)
      side = unit->leaves[0].device().create_stream({.name = "gather", .may_spin = true});
    units.push_back(std::move(unit));
    casts.emplace_back();
  }

  // Starts to gather a unit on the side stream, after the work enqueued on the current stream so far. The side stream
  // is therefore at most one unit ahead, and the memory of the previous unit is available.
  std::shared_ptr<Gathered> start(std::size_t number) {
    const memory::Label label("gathered");
    const tensor::GradModeScope no_grad(false);
    const Unit& unit = *units[number];
    std::optional<tensor::StreamScope> scope;
    if (side) {
      order(tensor::current_stream(side.device()), side);
      scope.emplace(side);
    }
    std::optional<ExposedTime::Scope> waiting;
    if (is_sharded && !side) waiting.emplace(exposed, tensor::current_stream(unit.leaves[0].device()));
    auto out = gathered(number);
    out->versions = unit.versions();
    waiting.reset();
    if (side) {
      out->ready = side.device().create_event();
      side.record(out->ready);
    }
    return out;
  }

  std::shared_ptr<Gathered> gathered(std::size_t number) {
    const Unit& unit = *units[number];
    if (keeps_casts && unit.dtype() != options.dtype) return gathered_cast(number);
    std::vector<Tensor> out;
    if (!unit.in_use.empty()) {
      out = redistribute(unit.leaves, unit.in_use, {.forward_dtype = options.dtype});
    } else {
      for (const Tensor& leaf : unit.leaves) out.push_back(ops::cast(leaf, options.dtype));
    }
    return std::make_shared<Gathered>(std::move(out), held);
  }

  // Gathers from shards that are cast once. Each use has other handles, because it has its own tape node.
  std::shared_ptr<Gathered> gathered_cast(std::size_t number) {
    const Unit& unit = *units[number];
    std::shared_ptr<Gathered>& cast = casts[number];
    if (!cast) {
      std::vector<Tensor> own;
      for (const Tensor& leaf : unit.leaves) own.push_back(ops::cast(leaf, options.dtype));
      cast = std::make_shared<Gathered>(std::move(own), held);
    }
    std::vector<Tensor> out;
    for (const Tensor& tensor : cast->tensors) out.push_back(tensor.detach());
    if (!unit.in_use.empty()) out = redistribute(out, unit.in_use);
    auto made = std::make_shared<Gathered>(std::move(out), held, cast.get());
    made->kept = cast;
    return made;
  }

  // Returns a unit for calls on the current stream, and starts the next one in this direction.
  std::shared_ptr<Gathered> take(std::size_t number) {
    const device::Stream current = tensor::current_stream(units[number]->leaves[0].device());
    std::optional<ExposedTime::Scope> waiting;
    // A replay may run the following gathers concurrently with the current stream or, in capture order, in between. In
    // both cases the current stream has nothing else to do until they were waited for.
    if (side && current.is_capturing()) waiting.emplace(exposed, current);
    std::shared_ptr<Gathered> out = std::move(ahead);
    ahead = nullptr;
    // A unit whose leaves were updated since is outdated.
    if (out && (ahead_of != number || out->versions != units[number]->versions())) out = nullptr;
    ahead_of.reset();
    if (!out) out = start(number);
    prefetch_behind(number);
    if (out->ready) {
      if (!waiting) waiting.emplace(exposed, current);
      current.wait(out->ready);
    }
    return out;
  }

  void prefetch_behind(std::size_t number) {
    if (!side) return;
    const bool is_backward = autograd::is_in_backward();
    if (is_backward ? number == 0 || !units[number - 1]->is_read_in_backward : number + 1 == units.size()) return;
    const std::size_t next = is_backward ? number - 1 : number + 1;
    ahead = start(next);
    ahead_of = next;
    if (!is_backward) return;
    autograd::at_end_of_run([state = weak_from_this()] {
      if (const auto alive = state.lock()) alive->drop_ahead();
    });
  }

  // Backward may end without reading the unit that it prefetched. A replay of the optimizer would then leave outdated
  // parameters there.
  void drop_ahead() {
    if (!ahead) return;
    tensor::current_stream(side.device()).wait(ahead->ready);
    ahead = nullptr;
    ahead_of.reset();
  }

  static void order(const device::Stream& first, const device::Stream& then) {
    const device::Event event = first.device().create_event();
    first.record(event);
    then.wait(event);
  }

  GathererOptions options;
  bool is_sharded = false;
  ExposedTime& exposed;
  device::Stream side;  // empty: units are gathered on the current stream when they are used
  std::vector<std::shared_ptr<Unit>> units;
  bool keeps_casts = false;
  std::vector<std::shared_ptr<Gathered>> casts;  // by unit; null: not kept
  std::shared_ptr<Gathered> ahead;
  std::optional<std::size_t> ahead_of;
  std::shared_ptr<HeldBytes> held = std::make_shared<HeldBytes>();
};

namespace {

// One use of a unit in forward, from which the gradients of its calls get it again.
class SavedUnit {
 public:
  SavedUnit(std::shared_ptr<Unit> unit, std::function<std::shared_ptr<Gathered>()> again)
      : unit_(std::move(unit)), again_(std::move(again)), versions_(unit_->versions()) {}
  void note_saved() {
    unit_->is_read_in_backward = true;
    ++left_;
  }
  Tensor tensor(std::size_t place) {
    if (!gathered_) {
      const Tensor& leaf = unit_->leaves[place];
      TESSERA_CHECK(leaf.version() == versions_[place], "gather: ", tensor::describe(leaf),
                    " must not change in place between forward and backward; change parameters after backward");
      gathered_ = again_();
    }
    Tensor out = gathered_->tensors[place];
    if (--left_ == 0) gathered_ = nullptr;
    return out;
  }

 private:
  std::shared_ptr<Unit> unit_;
  std::function<std::shared_ptr<Gathered>()> again_;
  std::vector<std::uint64_t> versions_;
  std::size_t left_ = 0;
  std::shared_ptr<Gathered> gathered_;
};

struct SavedPlace {
  std::shared_ptr<SavedUnit> unit;
  std::size_t place;
};

void save_as(const std::shared_ptr<SavedUnit>& unit, const std::vector<Tensor>& outputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].is_tracked()) continue;
    autograd::set_saved_hooks(outputs[i], {.pack = [unit, i](const Tensor& /*tensor*/) -> std::shared_ptr<void> {
                                             unit->note_saved();
                                             return std::make_shared<SavedPlace>(SavedPlace{unit, i});
                                           },
                                           .unpack =
                                               [](const std::shared_ptr<void>& packed) {
                                                 const auto& saved = *static_cast<const SavedPlace*>(packed.get());
                                                 return saved.unit->tensor(saved.place);
                                               }});
  }
}

}  // namespace

Gatherer::Gatherer(GathererOptions options, ExposedTime& exposed)
    : state_(std::make_shared<State>(std::move(options), exposed)) {}

Gatherer::~Gatherer() = default;

std::size_t Gatherer::add_unit(std::vector<UnitParameter> parameters) {
  TESSERA_CHECK(!parameters.empty(), "gather: a unit must have a parameter");
  auto unit = std::make_shared<Unit>();
  unit->axis = state_->options.axis;
  for (UnitParameter& parameter : parameters) {
    TESSERA_CHECK(parameter.leaf.dtype() == parameters[0].leaf.dtype(),
                  "gather: parameters of a unit must have one dtype, got ", parameters[0].leaf.dtype(), " and ",
                  parameter.leaf.dtype());
    const bool has_layout = static_cast<bool>(parameter.in_use);
    TESSERA_CHECK(
        has_layout == parameter.leaf.has_layout() && has_layout == parameters[0].leaf.has_layout(),
        "gather: parameters of a unit must all be plain tensors, or all have a stored layout and a layout in use");
    if (has_layout) unit->in_use.push_back(std::move(parameter.in_use));
    unit->leaves.push_back(parameter.leaf);
  }
  state_->add(std::move(unit));
  return state_->units.size() - 1;
}

GatheredUnit Gatherer::use(std::size_t number, SavedWeights saved) {
  Unit& unit = *state_->units[number];
  GatheredUnit out;
  out.tensors_ = unit.leaves;
  if (!state_->is_sharded && state_->options.dtype == unit.dtype()) return out;
  const std::shared_ptr<Gathered> gathered = state_->take(number);
  out.hold_ = gathered;
  out.tensors_ = gathered->tensors;
  if (!tensor::is_grad_enabled()) return out;
  {
    std::optional<tensor::StreamScope> scope;
    if (state_->side) scope.emplace(state_->side);
    out.tensors_ = autograd::apply_function(
        std::make_shared<const GatherFunction>(state_->units[number], gathered->tensors), unit.leaves);
  }
  if (saved == SavedWeights::kGatheredAgain) {
    save_as(
        std::make_shared<SavedUnit>(state_->units[number], [state = state_, number] { return state->take(number); }),
        out.tensors_);
  } else {
    unit.is_read_in_backward = true;
  }
  return out;
}

void Gatherer::keep_casts(bool is_kept) {
  state_->keeps_casts = is_kept;
  if (is_kept) return;
  for (std::shared_ptr<Gathered>& cast : state_->casts) cast = nullptr;
}

const HeldBytes& Gatherer::held() const { return *state_->held; }

}  // namespace tessera::shard
