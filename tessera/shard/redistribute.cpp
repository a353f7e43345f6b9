#include "tessera/shard/redistribute.h"

#include "tessera/autograd/autograd.h"
#include "tessera/autograd/function.h"
#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/shard/detail/rank_part.h"
#include "tessera/shard/detail/run_moves.h"
#include "tessera/tensor/device_context.h"

namespace tessera::shard {
namespace {

using layout::Layout;

// How tensors are moved and moved back; gradients of gradients go back and forth with the two dtypes in turn.
struct MoveDtypes {
  std::optional<DType> moved;       // cast to before moving
  std::optional<DType> result;      // cast to after
  std::optional<DType> moved_back;  // of the gradient, before moving
};

void check_argument(const Tensor& x, const Layout& to) {
  TESSERA_CHECK(x, "redistribute: no tensor is given");
  TESSERA_CHECK(x.has_layout(), "redistribute: ", tensor::describe(x),
                " has no layout; distribute(), replicate() or from_local() give it one");
  TESSERA_CHECK(to, "redistribute: the layout that ", tensor::describe(x), " is to have is empty");
  TESSERA_CHECK(x.layout().mesh() == to.mesh(), "redistribute: ", tensor::describe(x), " is to go to the mesh ",
                to.mesh().text(), "; it stays on its own: full() gives a plain tensor that can be distributed there");
}

// Work of its scope runs on another stream, behind what is on the current one, which then waits for it.
class SideStream {
 public:
  SideStream(const std::optional<device::Stream>& side, const Tensor& part) {
    if (!side) return;
    current_ = tensor::current_stream(part.device());
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

Tensor as_dtype(const Tensor& part, const std::optional<DType>& dtype) {
  return dtype && *dtype != part.dtype() ? ops::cast(part, *dtype) : part;
}

std::vector<Tensor> move_all(std::span<const Tensor> tensors, std::span<const Layout> to, const MoveDtypes& dtypes,
                             const std::optional<device::Stream>& stream) {
  const autograd::NoGrad no_grad;
  std::vector<detail::TensorMove> moves;
  std::vector<std::size_t> places;
  std::optional<SideStream> side;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    Tensor part = tensors[i].local();
    if (!part) continue;
    if (!side) side.emplace(stream, part);
    if (dtypes.moved) part = as_dtype(part, dtypes.moved);
    auto how = detail::compiled_move(tensors[i].layout(), to[i], tensors[i].shape(), part.dtype());
    moves.push_back({std::move(how), std::move(part)});
    places.push_back(i);
  }
  detail::run_moves(moves);
  std::vector<Tensor> parts(tensors.size());
  for (std::size_t m = 0; m < moves.size(); ++m) parts[places[m]] = as_dtype(moves[m].part, dtypes.result);
  if (side) side->join();
  std::vector<Tensor> results;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const DType dtype = dtypes.result.value_or(dtypes.moved.value_or(tensors[i].dtype()));
    results.push_back(Tensor::sharded(tensors[i].shape(), dtype, to[i], std::move(parts[i])));
  }
  return results;
}

// Planner is no part by itself: it takes prices.
struct RankPlanner {
  layout::Planner planner;
};

}  // namespace

layout::Planner& planner() { return detail::rank_part<RankPlanner>().planner; }

Tensor redistribute(const Tensor& x, const Layout& to, const RedistributeOptions& options) {
  check_argument(x, to);
  return std::move(move_all(std::span(&x, 1), std::span(&to, 1), {options.forward_dtype, {}, {}}, options.stream)[0]);
}

}  // namespace tessera::shard
