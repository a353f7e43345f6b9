#include "tessera/shard/detail/dispatch_plan.h"

#include "tessera/autograd/hooks.h"
#include "tessera/base/rank.h"

namespace tessera::shard::detail {
namespace {

using tensor::detail::mixed;

std::uint64_t mixed_operand(std::uint64_t hash, const Tensor& tensor) {
  if (!tensor) return mixed(hash, 1);
  if (tensor.has_layout()) hash = mixed(hash, tensor.layout().id().value());
  hash = mixed(hash, static_cast<std::uint64_t>(tensor.dtype()) + 2);
  for (const std::int64_t size : tensor.shape()) hash = mixed(hash, static_cast<std::uint64_t>(size));
  return hash;
}

}  // namespace

std::uint64_t hash_of(const tensor::Call& call) {
  std::uint64_t hash = mixed(call.op->id, call.attributes.hash());
  for (const Tensor& input : call.inputs) hash = mixed_operand(hash, input);
  for (const Tensor& output : call.outputs) {
    hash = mixed(hash, output && output.has_layout() ? output.layout().id().value() : 0);
  }
  return hash;
}

bool DispatchPlan::matches(const tensor::Call& call) const {
  if (!(op == call.op) || inputs.size() != call.inputs.size() || targets.size() != call.outputs.size()) return false;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& given = call.inputs[i];
    const OperandKey& want = inputs[i];
    if (static_cast<bool>(given) != want.is_there) return false;
    if (!given) continue;
    if (!(given.layout() == want.layout) || given.dtype() != want.dtype || given.shape() != want.shape) return false;
    if (want.is_constant && !given.is_constant()) return false;
  }
  for (std::size_t o = 0; o < targets.size(); ++o) {
    const Tensor& given = call.outputs[o];
    if (static_cast<bool>(given) != static_cast<bool>(targets[o])) return false;  // a given output has a layout
    if (!given) continue;
    if (!(given.layout() == targets[o]) || given.dtype() != infos[o].dtype || given.shape() != infos[o].shape) {
      return false;
    }
  }
  return attributes.ref() == call.attributes;
}

Tensor as_replicated(const Tensor& plain, const layout::Mesh& mesh) {
  return Tensor::sharded(plain.shape(), plain.dtype(), layout::Layout::replicated(mesh),
                         mesh.contains(current_place().rank) ? plain : Tensor());
}

std::string backward_note() {
  const std::string title = autograd::backward_of();
  return title.empty() ? title : "; in the gradient of " + title;
}

}  // namespace tessera::shard::detail
