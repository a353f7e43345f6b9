// Hooks that observe or change autograd:
//
//   SavedHooksScope   packs tensors that calls in the scope save for gradients, and unpacks them in backward
//   set_saved_hooks   does the same for one tensor, in all calls that save it
//   on_gradient       observes, and may replace, the complete gradient of a tensor
//   on_gradient_ready runs when the gradient of a leaf has been accumulated, while backward still runs
//   at_end_of_run     runs once at the end of the current backward run
//   GradientLayouts   redistributes and adds gradients of tensors with layouts; the shard layer installs it
//
// Hooks of a tensor run in the order of their addition, on the thread that runs backward. The current stream is the one
// that computed the gradient. A hook that holds its own tensor keeps it alive forever; capture other state instead.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "tessera/base/export.h"
#include "tessera/layout/layout.h"
#include "tessera/tensor/tensor.h"

namespace tessera::autograd {

/// Functions that pack and unpack saved tensors.
struct SavedHooks {
  /// Returns the object to keep instead of `tensor`, which a gradient will read.
  std::function<std::shared_ptr<void>(const Tensor& tensor)> pack;
  /// Returns a tensor with the shape, dtype and values of the tensor that was packed.
  std::function<Tensor(const std::shared_ptr<void>& packed)> unpack;
};

/// Applies hooks to the tensors that calls of this thread save, for the lifetime of the scope. Scopes nest; the
/// innermost applies. Hooks run outside autograd.
class TESSERA_API SavedHooksScope {
 public:
  /// Installs the hooks.
  explicit SavedHooksScope(SavedHooks hooks);
  /// Disables all hooks in the scope.
  explicit SavedHooksScope(std::nullptr_t);
  /// Restores the previous hooks.
  ~SavedHooksScope();
  SavedHooksScope(const SavedHooksScope&) = delete;
  SavedHooksScope& operator=(const SavedHooksScope&) = delete;
  /// Returns the active hooks of this thread; null if there are none.
  static const std::shared_ptr<const SavedHooks>& current();

 private:
  std::shared_ptr<const SavedHooks> hooks_;
  const SavedHooksScope* previous_;
};

/// Applies these hooks whenever later calls save this tracked tensor, regardless of scopes. For a result that can be
/// recomputed from something smaller. Views of the tensor are separate tensors.
TESSERA_API void set_saved_hooks(const Tensor& tensor, SavedHooks hooks);

/// Receives a gradient and returns its replacement; an empty handle keeps the gradient.
using GradientHook = std::function<Tensor(const Tensor& gradient)>;
/// Receives the current gradient of a leaf.
using ReadyHook = std::function<void(const Tensor& gradient)>;

/// Handle to an added hook. Destroying the handle keeps the hook.
class TESSERA_API HookHandle {
 public:
  /// Constructs an empty handle.
  HookHandle() = default;
  /// Constructs a handle for the functions below.
  explicit HookHandle(std::function<void()> remove) : remove_(std::move(remove)) {}
  /// Removes the hook. Later calls do nothing. Do not call it within a backward run.
  void remove();

 private:
  std::function<void()> remove_;
};

/// Calls `hook` whenever the gradient of a tracked tensor is complete: before its accumulation, or before the gradient
/// of the call that produced the tensor.
TESSERA_API HookHandle on_gradient(const Tensor& tensor, GradientHook hook);
/// Calls `hook` whenever backward has added to the gradient of a leaf.
TESSERA_API HookHandle on_gradient_ready(const Tensor& leaf, ReadyHook hook);
/// Calls `callback` once, at the end of the outermost backward run of this thread, when the streams of the caller wait
/// for all gradients. If the run fails, the callback is dropped. Throws InvalidArgument outside a run.
TESSERA_API void at_end_of_run(std::function<void()> callback);

/// Returns the call whose gradient this thread computes, such as "mm (label 'encoder')"; empty outside a backward run.
TESSERA_API std::string backward_of();
/// Returns true if this thread is in a backward run.
TESSERA_API bool is_in_backward();

/// Functions for gradients that have layouts, or of tensors that have one. Backward runs call them, recorded if second
/// derivatives are requested.
struct GradientLayouts {
  /// Returns the gradient redistributed for a tensor of layout `of`; an empty layout means a plain tensor.
  Tensor (*place)(const Tensor& gradient, const layout::Layout& of) = nullptr;
  /// Returns the sum of two gradients of one tensor whose layouts differ.
  Tensor (*sum)(const Tensor& a, const Tensor& b) = nullptr;
};
/// Installs the functions. Call it once, before any run that needs them. Without them, gradients pass unchanged.
TESSERA_API void set_gradient_layouts(const GradientLayouts& layouts);

}  // namespace tessera::autograd
