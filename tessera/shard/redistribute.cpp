#include "tessera/shard/redistribute.h"

#include <algorithm>

#include "tessera/autograd/autograd.h"
#include "tessera/autograd/function.h"
#include "tessera/autograd/hooks.h"
#include "tessera/base/error.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/shard/detail/laid_out.h"
#include "tessera/shard/detail/run_plans.h"
#include "tessera/tensor/device_context.h"

namespace tessera::shard {
namespace {

using detail::PlanRun;
using layout::Layout;

// Target layout and dtypes of a tensor.
struct Target {
  Layout to;
  DType moved;   // dtype during the transfer
  DType result;  // dtype afterwards
};

// Options of all tensors of a call.
struct Way {
  std::optional<device::Stream> stream = {};
  std::optional<DType> forward = {};   // dtype of transfers in forward
  std::optional<DType> backward = {};  // dtype of gradient transfers; second gradients use `forward`
};

void check_argument(const Tensor& x, const Layout& to) {
  TESSERA_CHECK(x, "redistribute: tensor must not be empty");
  TESSERA_CHECK(x.has_layout(), "redistribute: ", tensor::describe(x),
                " has no layout; use distribute(), replicate() or from_local()");
  TESSERA_CHECK(to, "redistribute: target layout of ", tensor::describe(x), " must not be empty");
  TESSERA_CHECK(x.layout().mesh() == to.mesh(), "redistribute: target mesh must be that of ", tensor::describe(x),
                ", got ", to.mesh().text(), "; use gather(), then distribute()");
}

// Runs the work of its scope on another stream, after the work on the current one, which then waits for it.
class SideStream {
 public:
  SideStream(const std::optional<device::Stream>& side, const device::Device& device) {
    if (!side) return;
    current_ = tensor::current_stream(device);
    if (current_.id() == side->id()) return;
    order(current_, *side);
    scope_.emplace(*side);
    side_ = *side;
  }
  void join() {
    if (!scope_) return;
    scope_.reset();
    order(side_, current_);
  }

 private:
  static void order(const device::Stream& from, const device::Stream& to) {
    const device::Event event = from.device().create_event();
    from.record(event);
    to.wait(event);
  }
  device::Stream current_;
  device::Stream side_;
  std::optional<tensor::StreamScope> scope_;
};

PlanRun begin(const Tensor& x, const Target& target) {
  return {detail::compiled_plan(x.layout(), target.to, x.shape(), target.moved), ops::cast(x.local(), target.moved)};
}

Tensor wrapped(const Tensor& x, const Target& target, Tensor part) {
  return Tensor::sharded(x.shape(), target.result, target.to, std::move(part));
}

Tensor move_one(const Tensor& x, const Target& target, const Way& way) {
  const autograd::NoGrad no_grad;
  if (!x.local()) return wrapped(x, target, {});
  SideStream side(way.stream, x.device());
  PlanRun move = begin(x, target);
  detail::run_plans(std::span(&move, 1));
  Tensor part = ops::cast(move.part, target.result);
  side.join();
  return wrapped(x, target, std::move(part));
}

std::vector<Tensor> move_many(std::span<const Tensor> tensors, std::span<const Target> targets, const Way& way) {
  const autograd::NoGrad no_grad;
  std::vector<PlanRun> moves;
  std::vector<std::size_t> places;
  std::optional<SideStream> side;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].local()) continue;
    if (!side) side.emplace(way.stream, tensors[i].device());
    moves.push_back(begin(tensors[i], targets[i]));
    places.push_back(i);
  }
  detail::run_plans(moves);
  std::vector<Tensor> parts(tensors.size());
  for (std::size_t m = 0; m < moves.size(); ++m) {
    parts[places[m]] = ops::cast(moves[m].part, targets[places[m]].result);
  }
  if (side) side->join();
  std::vector<Tensor> results;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    results.push_back(wrapped(tensors[i], targets[i], std::move(parts[i])));
  }
  return results;
}

std::vector<Tensor> move_all(const std::vector<Tensor>& tensors, const std::vector<Target>& targets, const Way& way) {
  if (tensors.size() == 1) return {move_one(tensors[0], targets[0], way)};
  return move_many(tensors, targets, way);
}

std::vector<Tensor> move_recorded(const std::vector<Tensor>& tensors, std::vector<Target> targets, const Way& way);

// Tape node of one redistribution of one or more tensors. It holds the source layouts, and no tensors.
class MoveFunction final : public autograd::Function {
 public:
  MoveFunction(std::vector<Target> back, std::vector<Target> targets, Way way)
      : back_(std::move(back)), targets_(std::move(targets)), way_(std::move(way)) {}
  [[nodiscard]] std::string name() const override { return "redistribute"; }
  std::vector<Tensor> forward(autograd::FunctionCall& /*call*/, const std::vector<Tensor>& inputs) const override {
    return move_all(inputs, targets_, way_);
  }
  std::vector<Tensor> backward(autograd::FunctionCall& call, const std::vector<Tensor>& gradients) const override {
    std::vector<Tensor> out(gradients.size());
    std::vector<Tensor> given;
    std::vector<Target> targets;
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      if (!gradients[i] || !call.needs(i)) continue;
      given.push_back(detail::laid_out(gradients[i], back_[i].to.mesh()));
      check_argument(given.back(), back_[i].to);
      targets.push_back(back_[i]);
      places.push_back(i);
    }
    std::vector<Tensor> moved = move_recorded(given, std::move(targets), {way_.stream, way_.backward, way_.forward});
    for (std::size_t m = 0; m < moved.size(); ++m) out[places[m]] = std::move(moved[m]);
    return out;
  }

 private:
  std::vector<Target> back_;
  std::vector<Target> targets_;
  Way way_;
};

bool stays(const Tensor& x, const Target& target) {
  return x.layout() == target.to && x.dtype() == target.moved && x.dtype() == target.result;
}

std::vector<Tensor> move_recorded(const std::vector<Tensor>& tensors, std::vector<Target> targets, const Way& way) {
  if (tensors.size() == 1 && stays(tensors[0], targets[0])) return tensors;
  if (!tensor::is_grad_enabled() || std::ranges::none_of(tensors, &Tensor::is_tracked))
    return move_all(tensors, targets, way);
  std::vector<Target> back;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const DType dtype = tensors[i].dtype();
    back.push_back({layout::gradient_layout(tensors[i].layout()), way.backward.value_or(targets[i].result), dtype});
  }
  return autograd::apply_function(std::make_shared<const MoveFunction>(std::move(back), std::move(targets), way),
                                  tensors);
}

std::uint64_t version_of(const Tensor& x) { return x.local() ? x.version() : 0; }

// Makes calls that save the result keep the source instead.
void keep_source(const Tensor& result, const Tensor& source, const Target& target, const Way& way) {
  if (!result.is_tracked()) return;
  autograd::set_saved_hooks(
      result, {.pack = [kept = source.detach()](const Tensor& /*result*/) { return std::make_shared<Tensor>(kept); },
               .unpack =
                   [target, way, version = version_of(source)](const std::shared_ptr<void>& packed) {
                     const Tensor& kept = *static_cast<const Tensor*>(packed.get());
                     TESSERA_CHECK(version_of(kept) == version, "redistribute: ", tensor::describe(kept),
                                   ", saved at version ", version,
                                   " for backward, was changed in place and is at version ", version_of(kept),
                                   "; change it after backward, or redistribute without remat");
                     return move_one(kept, target, way);
                   }});
}

Target target_of(const Tensor& x, const Layout& to, const RedistributeOptions& options) {
  check_argument(x, to);
  const DType dtype = options.forward_dtype.value_or(x.dtype());
  return {to, dtype, dtype};
}

}  // namespace

Tensor redistribute(const Tensor& x, std::initializer_list<layout::AxisPlacement> to,
                    const RedistributeOptions& options) {
  TESSERA_CHECK(x, "redistribute: tensor must not be empty");
  return x.has_layout() ? redistribute(x, Layout(x.layout().mesh(), to), options) : x;
}

Tensor redistribute(const Tensor& x, const Layout& to, const RedistributeOptions& options) {
  if (x && !x.has_layout() && !to) return x;
  const Target target = target_of(x, to, options);
  if (stays(x, target)) return x;
  const Way way{options.stream, options.forward_dtype, options.backward_dtype};
  if (!x.is_tracked() || !tensor::is_grad_enabled()) return move_one(x, target, way);
  Tensor result = std::move(move_recorded({x}, {target}, way)[0]);
  if (options.remat) keep_source(result, x, target, way);
  return result;
}

std::vector<Tensor> redistribute(std::span<const Tensor> tensors, std::span<const Layout> to,
                                 const RedistributeOptions& options) {
  TESSERA_CHECK(tensors.size() == to.size(), "redistribute: requires one layout per tensor, got ", tensors.size(),
                " tensors for ", to.size(), " layouts");
  const Way way{options.stream, options.forward_dtype, options.backward_dtype};
  std::vector<Tensor> results(tensors.begin(), tensors.end());
  std::vector<Tensor> moving;  // the others stay
  std::vector<Target> targets;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    Target target = target_of(tensors[i], to[i], options);
    if (stays(tensors[i], target)) continue;
    moving.push_back(tensors[i]);
    targets.push_back(std::move(target));
    places.push_back(i);
  }
  if (moving.empty()) return results;
  const std::vector<Tensor> moved = move_recorded(moving, targets, way);
  for (std::size_t m = 0; m < moved.size(); ++m) {
    results[places[m]] = moved[m];
    if (options.remat) keep_source(moved[m], moving[m], targets[m], way);
  }
  return results;
}

}  // namespace tessera::shard
