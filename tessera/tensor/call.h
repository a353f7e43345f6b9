// Dispatch of an operator call. A call passes these steps, in this order:
//
//   autograd   if gradients are enabled and an input is tracked: records the global call
//   shard      if an input, or an output to write into, has a layout: turns the global call into the local one
//   kernel     infers the results, allocates them on the current stream, runs the kernel of the device kind
//
// Higher layers install the first two steps with set_hook(). Without its hook, a call that needs a step throws.
#pragma once

#include <concepts>
#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <string_view>

#include "tessera/base/error.h"
#include "tessera/base/export.h"
#include "tessera/tensor/op_def.h"

namespace tessera::tensor {
namespace detail {
/// Throws `error` again if its message begins with the name of an operator, with `name` in its place.
TESSERA_API void throw_as(std::string_view name, const Error& error);
}  // namespace detail

/// The input tensors of a call, `{a, b}`: handles that hold no reference, since the caller holds the tensors.
class Arguments {
 public:
  /// Maximum number of tensors. Use call_into() for more.
  static constexpr std::size_t kMax = 8;
  /// Refers to `tensors`, which must outlive this object.
  template <std::same_as<Tensor>... T>
  requires(sizeof...(T) <= kMax) Arguments(const T&... tensors)  // NOLINT(google-explicit-constructor): written {a, b}
      : count_(sizeof...(T)) {
    [[maybe_unused]] std::size_t i = 0;
    // Never destroyed: the handles own no reference.
    ((::new (static_cast<void*>(place_ + sizeof(Tensor) * i++))
          Tensor(detail::Ref<detail::TensorState>::adopt(tensors.state()))),
     ...);
  }
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;
  ~Arguments() = default;
  /// Returns the tensors.
  [[nodiscard]] std::span<const Tensor> tensors() const {
    return {std::launder(reinterpret_cast<const Tensor*>(place_)), count_};
  }

 private:
  alignas(Tensor) std::byte place_[kMax * sizeof(Tensor)];
  std::size_t count_;
};

/// A list of handles that hold no reference, for lists that are expensive to count. The tensors must outlive it.
class BorrowedTensors {
 public:
  /// Allocates `count` entries. Set each entry once.
  explicit BorrowedTensors(std::size_t count)
      : place_(std::make_unique_for_overwrite<std::byte[]>(count * sizeof(Tensor))), count_(count) {}
  /// Sets an entry. Null: no tensor.
  void set(std::size_t place, detail::TensorState* state) {
    // Never destroyed: the handles own no reference.
    ::new (static_cast<void*>(place_.get() + sizeof(Tensor) * place))
        Tensor(detail::Ref<detail::TensorState>::adopt(state));
  }
  /// Returns the handles. Assigning a tensor to one leaks the tensor.
  [[nodiscard]] std::span<Tensor> tensors() const {
    return {std::launder(reinterpret_cast<Tensor*>(place_.get())), count_};
  }

 private:
  std::unique_ptr<std::byte[]> place_;
  std::size_t count_;
};

/// Calls an operator with one result.
TESSERA_API Tensor call(const Operator& op, const Arguments& inputs, const AttributesRef& attributes = {});
/// Calls an operator with one result, writes it into `out`, also in place, and returns `out`. It must have the inferred
/// shape and dtype and must not overlap an input, unless it is that input.
TESSERA_API const Tensor& call_out(const Operator& op, const Tensor& out, const Arguments& inputs,
                                   const AttributesRef& attributes = {});
/// Returns body(), the calls that function `name` is made of. Errors that name an operator of `body` name the function
/// instead.
template <class Body>
Tensor call_as(std::string_view name, const Body& body) {
  try {
    return body();
  } catch (const Error& error) {
    detail::throw_as(name, error);
    throw;
  }
}
/// Calls an operator with any number of inputs and results. Outputs that are tensors are written into.
TESSERA_API void call_into(const Call& call);
/// Calls an operator without tensor inputs on `device`.
TESSERA_API Tensor call_on(const device::Device& device, const Operator& op, const AttributesRef& attributes);

/// Steps above the kernel.
enum class HookKind : std::uint8_t { kAutograd, kShard };
/// Replaces the rest of a call if its step applies; continues with call_below(kind, call).
using HookFn = void (*)(const Call& call);
/// Installs the hook of a layer. Call it once per kind, before any call that needs the hook.
TESSERA_API void set_hook(HookKind kind, HookFn hook);
/// Continues a call after step `kind`.
TESSERA_API void call_below(HookKind kind, const Call& call);

/// Returns the shapes and dtypes of the results of a call without running it. Throws
/// InvalidArgument if the operator is a view without `infer`.
TESSERA_API std::vector<OutputInfo> infer(const Call& call);

/// Returns true if calls on this thread are recorded for gradients.
TESSERA_API bool is_grad_enabled();
/// Enables or disables recording on this thread for the lifetime of the scope.
class TESSERA_API GradModeScope {
 public:
  /// Enables or disables recording.
  explicit GradModeScope(bool enabled);
  /// Restores the previous setting.
  ~GradModeScope();
  GradModeScope(const GradModeScope&) = delete;
  GradModeScope& operator=(const GradModeScope&) = delete;

 private:
  bool previous_;
};

/// Returns `dim` of a tensor with `ndim` dimensions in [0, ndim). A negative `dim` counts from the end. Throws
/// InvalidArgument, which names the call, if it is out of range.
TESSERA_API int normalized_dim(const Call& call, std::int64_t dim, int ndim);

}  // namespace tessera::tensor
