// Places where other code looks into or changes what autograd does:
//
//   SavedHooksScope   what a call recorded in its scope saves for its gradient is packed, and unpacked in backward
//   set_saved_hooks   likewise, wherever calls save this one tensor
//   on_gradient       sees, and may replace, the gradient of a tensor when all of it has come in
//   on_gradient_ready told when a leaf's gradient has been accumulated, while the rest of backward still runs
//   at_end_of_run     told once when the backward run under way is over
//   GradientLayouts   how gradients of tensors with layouts are laid out and added; the shard layer puts itself in
//
// Hooks of a tensor run in the order in which they were added, on the thread that runs backward, with the stream
// current on which the gradient was made. A hook that holds its own tensor keeps it alive for ever: capture what it
// does.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "tessera/base/export.h"
#include "tessera/layout/layout.h"
#include "tessera/tensor/tensor.h"

namespace tessera::autograd {

/// How saved tensors are kept.
struct SavedHooks {
  /// Given a tensor that a gradient will read; returns what to keep instead.
  std::function<std::shared_ptr<void>(const Tensor& tensor)> pack;
  /// Given what pack returned; returns a tensor of the same shape, dtype and values.
  std::function<Tensor(const std::shared_ptr<void>& packed)> unpack;
};

/// Calls recorded by this thread while it lives save through these hooks. Scopes nest; the innermost counts. Hooks run
/// outside of autograd.
class TESSERA_API SavedHooksScope {
 public:
  /// Puts the hooks in.
  explicit SavedHooksScope(SavedHooks hooks);
  /// Without a value: in its scope no hooks are in force.
  explicit SavedHooksScope(std::nullptr_t);
  /// As before.
  ~SavedHooksScope();
  SavedHooksScope(const SavedHooksScope&) = delete;
  SavedHooksScope& operator=(const SavedHooksScope&) = delete;
  /// Those in force on this thread; null: none.
  static const std::shared_ptr<const SavedHooks>& current();

 private:
  std::shared_ptr<const SavedHooks> hooks_;
  const SavedHooksScope* previous_;
};

/// What calls save of this tracked tensor from now on goes through these hooks, whatever scope they are in: for a
/// result that can be had again from something smaller. Views of the tensor are tensors of their own.
TESSERA_API void set_saved_hooks(const Tensor& tensor, SavedHooks hooks);

/// Sees a gradient and returns what goes on in its place; no tensor: the same goes on.
using GradientHook = std::function<Tensor(const Tensor& gradient)>;
/// Sees the gradient that a leaf has now.
using ReadyHook = std::function<void(const Tensor& gradient)>;

/// A hook that was added. Dropping the handle keeps the hook.
class TESSERA_API HookHandle {
 public:
  /// No hook.
  HookHandle() = default;
  /// Made by the functions below.
  explicit HookHandle(std::function<void()> remove) : remove_(std::move(remove)) {}
  /// Takes the hook out; again: nothing happens. Not from within a backward run.
  void remove();

 private:
  std::function<void()> remove_;
};

/// Calls `hook` with the gradient of a tracked tensor whenever all of it has come in: before it is accumulated, or
/// before the call that made the tensor is differentiated.
TESSERA_API HookHandle on_gradient(const Tensor& tensor, GradientHook hook);
/// Calls `hook` whenever backward has added to a leaf's gradient.
TESSERA_API HookHandle on_gradient_ready(const Tensor& leaf, ReadyHook hook);
/// Calls `callback` once, at the end of the outermost run under way on this thread, when the caller's streams have been
/// made to wait for all gradients. InvalidArgument outside a run; dropped when the run fails.
TESSERA_API void at_end_of_run(std::function<void()> callback);

/// The call whose gradient this thread computes now, "mm (label 'encoder')"; empty: no backward run is under way.
TESSERA_API std::string backward_of();

/// What is done with gradients that have layouts, or are of tensors that have one. Called by backward runs, recorded
/// where second derivatives are asked for.
struct GradientLayouts {
  /// The gradient as it goes on to a tensor of layout `of`; an empty one: a plain tensor.
  Tensor (*place)(const Tensor& gradient, const layout::Layout& of) = nullptr;
  /// The sum of two gradients of one tensor whose layouts differ.
  Tensor (*sum)(const Tensor& a, const Tensor& b) = nullptr;
};
/// Puts a layer in. Called once, before any run that needs it; without it gradients go on as they are.
TESSERA_API void set_gradient_layouts(const GradientLayouts& layouts);

}  // namespace tessera::autograd
