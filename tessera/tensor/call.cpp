#include "tessera/tensor/call.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "tessera/base/rank.h"
#include "tessera/tensor/call_observer.h"
#include "tessera/tensor/gradient_moves.h"
#include "tessera/tensor/overlap.h"

namespace tessera::tensor {
namespace {

constinit std::atomic<HookFn> hooks[2] = {};
constinit thread_local bool grad_enabled = true;
constinit thread_local int gradient_moves = 0;
// The innermost observer of a rank. A part of the rank: thread-local storage is scarce.
struct CurrentObserver {
  CallObserver* observer = nullptr;
};

CallObserver*& call_observer() {
  return current_rank()->part<CurrentObserver>([] { return std::make_shared<CurrentObserver>(); }).observer;
}

[[noreturn]] void refuse_hook(const Call& call, const char* layer, const char* what) {
  TESSERA_THROW(NotSupported, call.op->function, ": ", what, ", which requires the ", layer,
                " layer; link it into this program; called as ", call.text());
}

[[noreturn]] void refuse_devices(const Call& call, const device::Device& a, const device::Device& b) {
  TESSERA_THROW(InvalidArgument, call.op->function, ": tensors must be on one device, got ", a.name(), " and ",
                b.name(), "; copy one with to(); called as ", call.text());
}

// Returns the device of the tensors of a call, which must all be on one device.
const device::Device* device_of(const Call& call) {
  const device::Device* device = nullptr;
  const auto look_at = [&](const Tensor& tensor) {
    if (!tensor) return;
    if (device == nullptr) {
      device = &tensor.device();
    } else if (device->state() != tensor.device().state()) [[unlikely]] {
      refuse_devices(call, *device, tensor.device());
    }
  };
  for (const Tensor& input : call.inputs) look_at(input);
  for (const Tensor& output : call.outputs) look_at(output);
  return device;
}

void check_given_output(const Call& call, const Tensor& out, const OutputInfo& info,
                        const detail::NearTensors& inputs) {
  TESSERA_CHECK_CALL(call, out.shape() == info.shape, "output must have shape ", info.shape, ", got ", describe(out));
  TESSERA_CHECK_CALL(call, out.dtype() == info.dtype, "output must be ", info.dtype, ", got ", describe(out));
  TESSERA_CHECK_CALL(call, !detail::has_repeated_elements(out), "cannot write into ", describe(out), " with strides ",
                     out.strides(), ", whose elements share memory; clone it first");
  inputs.for_each_near(out, [&](const Tensor& input) {
    if (detail::is_same_view(input, out)) {
      TESSERA_CHECK_CALL(call, call.op->def.traits.is_pointwise, "cannot write over its own input");
    } else {
      TESSERA_CHECK_CALL(call, !detail::may_overlap(input, out), "output ", describe(out),
                         " shares memory with an input; clone one of them");
    }
  });
}

// Returns a contiguous tensor whose dimensions have the memory order of those of `like`.
Tensor allocate_laid_like(const Tensor& like, OutputInfo& info, const CurrentDevice& where) {
  const auto is_turned_or_repeated = [&](std::size_t dim) { return like.shape()[dim] > 1 && like.strides()[dim] <= 0; };
  std::vector<std::size_t> order;  // outermost first
  bool has_order = !like.is_contiguous() && like.ndim() == info.shape.ndim();
  for (std::size_t dim = 0; dim < info.shape.size() && has_order; ++dim) {
    has_order = !is_turned_or_repeated(dim);
    order.push_back(dim);
  }
  if (!has_order) return Tensor::allocate(std::move(info.shape), info.dtype, where);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return like.strides()[a] > like.strides()[b]; });
  std::vector<std::int64_t> strides(order.size());
  std::int64_t step = 1;
  for (std::size_t i = order.size(); i-- > 0;) {
    strides[order[i]] = step;
    step *= std::max<std::int64_t>(info.shape[order[i]], 1);
  }
  const Tensor dense = Tensor::allocate(info.shape, info.dtype, where);
  return dense.as_strided(std::move(info.shape), Strides(std::span<const std::int64_t>(strides)), 0);
}

void prepare_output(const Call& call, Tensor& out, OutputInfo& info, const CurrentDevice& where,
                    const detail::NearTensors& inputs) {
  if (out) {
    check_given_output(call, out, info, inputs);
    out.storage().use_on(*where.stream);
    out.storage().bump_version();
  } else {
    out = info.laid_like < 0 ? Tensor::allocate(std::move(info.shape), info.dtype, where)
                             : allocate_laid_like(call.inputs[static_cast<std::size_t>(info.laid_like)], info, where);
  }
}

[[noreturn]] void refuse_kind(const Call& call, DeviceKind kind) {
  std::string have;
  for (std::size_t i = 0; i < kMaxDeviceKinds; ++i) {
    if (call.op->kernels[i] == nullptr) continue;
    have += have.empty() ? "" : ", ";
    have += device_kind_name(static_cast<DeviceKind>(i));
  }
  TESSERA_THROW(NotSupported, call.op->function, ": device must have a kernel for this operator, got ",
                device_kind_name(kind), "; kernels exist for: ", have.empty() ? "no device" : have, "; called as ",
                call.text());
}

// Adds the operator to the error of a stream that is being captured, such as a wait for it.
void refuse_capture(const Call& call, const Error& error) {
  const bool is_refusal = error.kind() == ErrorKind::kInvalidArgument || error.kind() == ErrorKind::kNotSupported;
  TESSERA_CHECK_AS(NotSupported, !is_refusal, call.op->function, ": cannot be captured: ", error.message(),
                   "; called as ", call.text());
}

// Ends a call on a device without values: its results have shapes and addresses, and that is all.
void note_call(const Call& call) {
  const auto* current = current_rank()->find_part<CurrentObserver>();
  if (current == nullptr || current->observer == nullptr) return;
  const OpDef& def = call.op->def;
  current->observer->called(call, def.cost == nullptr ? Cost() : def.cost(call));
}

void run_kernel(const Call& call, const CurrentDevice& where) {
  const OperatorState& op = *call.op.operator->();
  const KernelFn kernel = op.kernels[where.context->kind];
  if (kernel == nullptr && where.context->has_values) [[unlikely]]
    refuse_kind(call, where.context->kind);
  if (call.outputs.size() == 1) {
    OutputInfo info;
    op.def.infer(call, std::span(&info, 1));
    prepare_output(call, call.outputs[0], info, where, detail::NearTensors(call.inputs, 1));
  } else {
    std::vector<OutputInfo> infos(call.outputs.size());
    op.def.infer(call, infos);
    const detail::NearTensors inputs(call.inputs, infos.size());
    for (std::size_t i = 0; i < infos.size(); ++i) prepare_output(call, call.outputs[i], infos[i], where, inputs);
  }
  for (const Tensor& input : call.inputs) {
    if (input) input.storage().use_on(*where.stream);
  }
  if (kernel == nullptr) return note_call(call);
  try {
    kernel(KernelCall{call, where});
  } catch (const Error& error) {
    if (where.stream->is_capturing()) refuse_capture(call, error);
    throw;
  }
}

void call_kernel(const Call& call) {
  if (call.op->def.view != nullptr) {
    TESSERA_CHECK_CALL(call, !call.outputs[0], "a view has no output to write into, got ", describe(call.outputs[0]));
    call.outputs[0] = call.op->def.view(call);
    return;
  }
  const device::Device* device = device_of(call);
  TESSERA_CHECK_CALL(call, device != nullptr, "a call without tensors requires a device; use call_on()");
  run_kernel(call, current_device(*device));
}

bool has_layouts(const Call& call) {
  for (const Tensor& input : call.inputs) {
    if (input && input.has_layout()) return true;
  }
  for (const Tensor& output : call.outputs) {
    if (output && output.has_layout()) return true;  // an output to write into
  }
  return false;
}

bool is_tracked(const Call& call) {
  if (!grad_enabled) return false;
  bool found = false;
  for (const Tensor& input : call.inputs) found |= input && input.is_tracked();
  for (const Tensor& output : call.outputs) found |= output && output.is_tracked();  // an output to write into
  return found;
}

void call_below_autograd(const Call& call) {
  if (!has_layouts(call)) {
    call_kernel(call);
    return;
  }
  const HookFn hook = hooks[static_cast<int>(HookKind::kShard)].load(std::memory_order_acquire);
  if (hook == nullptr) refuse_hook(call, "shard", "a tensor has a layout");
  hook(call);
}

void check_arguments(const Call& call) {
  const OperatorState& op = *call.op.operator->();
  const std::size_t lists = op.input_lists;
  const std::size_t least = op.input_singles;
  const std::size_t given = call.inputs.size();
  const bool fits = lists == 0 ? given == least : given >= least && (given - least) % lists == 0;
  TESSERA_CHECK_CALL(call, fits, "requires ", lists == 0 ? "" : "at least ", least, " tensors, got ", given);
  if (lists != 0) return;
  for (std::size_t i = 0; i < given; ++i) {
    TESSERA_CHECK_CALL(call, call.inputs[i] || op.inputs[i].is_optional, "argument ", op.inputs[i].name,
                       " must be a tensor, got an empty handle");
  }
}

}  // namespace

void call_into(const Call& call) {
  check_arguments(call);
  if (is_tracked(call)) {
    const HookFn hook = hooks[static_cast<int>(HookKind::kAutograd)].load(std::memory_order_acquire);
    if (hook == nullptr) refuse_hook(call, "autograd", "a tensor requires a gradient");
    hook(call);
    return;
  }
  call_below_autograd(call);
}

void call_below(HookKind kind, const Call& call) {
  if (kind == HookKind::kAutograd) {
    call_below_autograd(call);
  } else {
    call_kernel(call);
  }
}

Tensor call(const Operator& op, const Arguments& inputs, const AttributesRef& attributes) {
  Tensor out;
  call_into({op, inputs.tensors(), attributes, std::span(&out, 1)});
  return out;
}

const Tensor& call_out(const Operator& op, const Tensor& out, const Arguments& inputs,
                       const AttributesRef& attributes) {
  // The call writes into `out` and does not replace it, so the handle of the caller is used without a new reference.
  const Call made{op, inputs.tensors(), attributes, std::span(const_cast<Tensor*>(&out), 1)};
  TESSERA_CHECK_CALL(made, out, "out must be a tensor, got an empty handle");
  call_into(made);
  return out;
}

void detail::throw_as(std::string_view name, const Error& error) {
  const std::string& message = error.message();
  const std::string inner = message.substr(0, message.find(": "));
  const std::vector<Operator> known = all_ops();
  if (inner == name || std::ranges::none_of(known, [&](const Operator& op) { return op.name() == inner; })) return;
  std::string renamed = std::string(name) + message.substr(inner.size());
  const std::string call = "called as " + inner + '(';
  if (const std::size_t at = renamed.find(call); at != std::string::npos) {
    renamed.replace(at + call.size() - inner.size() - 1, inner.size(), name);
  }
  if (error.kind() == ErrorKind::kInvalidArgument) throw InvalidArgument(error.place(), renamed, error.operands());
  if (error.kind() == ErrorKind::kNotSupported) throw NotSupported(error.place(), renamed, error.operands());
}

Tensor call_on(const device::Device& device, const Operator& op, const AttributesRef& attributes) {
  Tensor out;
  const std::vector<Tensor> absent(op->inputs.size());  // optional arguments, all omitted
  const Call made{op, absent, attributes, std::span(&out, 1)};
  check_arguments(made);
  run_kernel(made, current_device(device));
  out.state()->is_constant = op->def.traits.is_constant;
  return out;
}

std::vector<OutputInfo> infer(const Call& call) {
  std::vector<OutputInfo> infos(call.outputs.empty() ? call.op->outputs.size() : call.outputs.size());
  TESSERA_CHECK_CALL(call, call.op->def.infer != nullptr, "cannot infer the shape of a view; call the view");
  call.op->def.infer(call, infos);
  return infos;
}

CallObserverScope::CallObserverScope(CallObserver& observer) : previous_(std::exchange(call_observer(), &observer)) {}
CallObserverScope::~CallObserverScope() { call_observer() = previous_; }

void set_hook(HookKind kind, HookFn hook) { hooks[static_cast<int>(kind)].store(hook, std::memory_order_release); }

bool is_grad_enabled() { return grad_enabled; }
GradModeScope::GradModeScope(bool enabled) : previous_(std::exchange(grad_enabled, enabled)) {}
GradModeScope::~GradModeScope() { grad_enabled = previous_; }

GradientMoves::GradientMoves() { ++gradient_moves; }
GradientMoves::~GradientMoves() { --gradient_moves; }
bool may_gradient_move() { return gradient_moves > 0; }

int normalized_dim(const Call& call, std::int64_t dim, int ndim) {
  const int range = std::max(ndim, 1);  // a scalar counts as one dimension of one element
  TESSERA_CHECK_CALL(call, dim >= -range && dim < range, "dimension must be in [", -range, ", ", range, "), got ", dim);
  return static_cast<int>(dim < 0 ? dim + range : dim);
}

}  // namespace tessera::tensor
