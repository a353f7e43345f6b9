// How a call of an operator gets to its kernel. It passes, in this order:
//
//   autograd   when gradients are on and an input is tracked: records the call, at the global level
//   shard      when an input, or an output to write into, has a layout: turns the global call into this rank's local
//   one kernel     infers the results, allocates them on the current stream, runs the kernel of the device's kind
//
// The two upper steps belong to layers above this one, which put themselves in by set_hook(); without them a call that
// needs one is refused with a word.
#pragma once

#include <concepts>
#include <cstddef>
#include <memory>
#include <new>
#include <span>

#include "tessera/base/export.h"
#include "tessera/tensor/op_def.h"

namespace tessera::tensor {

/// Tensors given to a call, `{a, b}`: handles of those named there that count nothing, since the caller holds them.
class Arguments {
 public:
  /// The most of them; more are given by call_into().
  static constexpr std::size_t kMost = 8;
  /// These; they must outlive it.
  template <std::same_as<Tensor>... T>
  requires(sizeof...(T) <= kMost) Arguments(const T&... tensors)  // NOLINT(google-explicit-constructor): written {a, b}
      : count_(sizeof...(T)) {
    [[maybe_unused]] std::size_t i = 0;
    // Never destroyed: they own no count.
    ((::new (static_cast<void*>(place_ + sizeof(Tensor) * i++))
          Tensor(detail::Ref<detail::TensorState>::adopt(tensors.state()))),
     ...);
  }
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;
  ~Arguments() = default;
  /// The tensors.
  [[nodiscard]] std::span<const Tensor> tensors() const {
    return {std::launder(reinterpret_cast<const Tensor*>(place_)), count_};
  }

 private:
  alignas(Tensor) std::byte place_[kMost * sizeof(Tensor)];
  std::size_t count_;
};

/// A list of handles that count nothing, for lists so long that counting would tell: who holds the tensors outlives it.
class BorrowedTensors {
 public:
  /// Room for this many; each place is to be set once.
  explicit BorrowedTensors(std::size_t count)
      : place_(std::make_unique_for_overwrite<std::byte[]>(count * sizeof(Tensor))), count_(count) {}
  /// Sets a place; null: no tensor.
  void set(std::size_t place, detail::TensorState* state) {
    // Never destroyed: they own no count.
    ::new (static_cast<void*>(place_.get() + sizeof(Tensor) * place))
        Tensor(detail::Ref<detail::TensorState>::adopt(state));
  }
  /// The tensors. To assign to one leaks what is assigned.
  [[nodiscard]] std::span<Tensor> tensors() const {
    return {std::launder(reinterpret_cast<Tensor*>(place_.get())), count_};
  }

 private:
  std::unique_ptr<std::byte[]> place_;
  std::size_t count_;
};

/// Calls an operator that has one result.
TESSERA_API Tensor call(const Operator& op, const Arguments& inputs, const AttributesRef& attributes = {});
/// Likewise, into `out`: of the inferred shape and dtype, and overlapping no input unless it is one. This is also how a
/// call happens in place.
TESSERA_API void call_out(const Operator& op, const Tensor& out, const Arguments& inputs,
                          const AttributesRef& attributes = {});
/// Calls an operator with any number of inputs and results. Outputs that are tensors are written into.
TESSERA_API void call_into(const Call& call);
/// Calls an operator that makes a tensor from nothing, on `device`.
TESSERA_API Tensor call_on(const device::Device& device, const Operator& op, const AttributesRef& attributes);

/// The steps above the kernel.
enum class HookKind : std::uint8_t { kAutograd, kShard };
/// Called instead of the rest when its step applies; goes on by call_below(kind, call).
using HookFn = void (*)(const Call& call);
/// Puts a layer in. Called once each, before any call that needs it.
TESSERA_API void set_hook(HookKind kind, HookFn hook);
/// The rest of a call behind a step.
TESSERA_API void call_below(HookKind kind, const Call& call);

/// The results that a call would have, from shapes and dtypes alone.
TESSERA_API std::vector<OutputInfo> infer(const Call& call);

/// Whether calls on this thread are recorded for gradients.
TESSERA_API bool is_grad_enabled();
/// Switches recording for this thread while it lives.
class TESSERA_API GradModeScope {
 public:
  /// On or off.
  explicit GradModeScope(bool enabled);
  /// As before.
  ~GradModeScope();
  GradModeScope(const GradModeScope&) = delete;
  GradModeScope& operator=(const GradModeScope&) = delete;

 private:
  bool previous_;
};

/// The axes of a call: dimension `dim` of a tensor of `ndim`, counted from the end when negative; InvalidArgument names
/// the call.
TESSERA_API int normalized_dim(const Call& call, std::int64_t dim, int ndim);

}  // namespace tessera::tensor
