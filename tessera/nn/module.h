// A module: named parameters, buffers and children, in the order of their registration. A model is a struct of modules:
//
//   struct Net : nn::Layer<Net> {                                      // layer.h
//     nn::Linear up, down;
//     explicit Net(std::int64_t width)
//         : up(add("up", nn::Linear(width, 4 * width))), down(add("down", nn::Linear(4 * width, width))) {}
//     Tensor forward(const Tensor& x) const { return down(gelu(up(x))); }
//   };
//
// A module is a shared handle, like a tensor: copies refer to the same parameters. Modules are not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/device/device.h"
#include "tessera/nn/optim/optimizer.h"
#include "tessera/nn/parameter.h"
#include "tessera/tensor/tensor.h"

namespace tessera::nn {

class Module;

namespace detail {
struct ModuleState;
struct ModelContext;
}  // namespace detail

/// A module and its path in the model.
struct NamedModule;

/// Receives the outputs of the modules of a model while they are computed, by path. Outputs that backward computes
/// again are passed again.
using ModuleObserver = std::function<void(const std::string& path, const Tensor& output)>;

/// Base of all modules. Derive from Layer (layer.h), which adds the call operator.
class TESSERA_API Module {
 public:
  /// Constructs a module without parameters. `kind` is its name in trees: "Linear".
  explicit Module(std::string kind = "Module");

  /// Returns all parameters in the order of registration. A shared parameter occurs once, with its first path.
  [[nodiscard]] std::vector<NamedParameter> named_parameters() const;
  /// Returns the leaves of all parameters, for optimizers.
  [[nodiscard]] std::vector<Tensor> parameters() const;
  /// Returns all buffers: tensors that are saved, but not trained.
  [[nodiscard]] std::vector<NamedParameter> named_buffers() const;
  /// Returns this module, with an empty path, and all modules below it, in the order of registration.
  [[nodiscard]] std::vector<NamedModule> named_modules() const;
  /// Returns the number of parameter elements over all ranks.
  [[nodiscard]] std::int64_t parameter_count() const;
  /// Returns the path in the model, "layers.3.mlp"; empty for the model itself.
  [[nodiscard]] std::string path() const;
  /// Returns the kind: "Linear".
  [[nodiscard]] const std::string& kind() const;

  /// Sets the mode of this module and of all below it: training enables dropout. New modules train.
  void train(bool is_training = true) const;
  /// Same as train(false).
  void eval() const { train(false); }
  /// Returns true in training mode.
  [[nodiscard]] bool is_training() const;

  /// Freezes the parameters whose path matches `pattern`, or makes them trainable again. "*" matches any text. Returns
  /// the number of parameters that match. Frozen parameters have no gradient.
  std::int64_t set_requires_grad(std::string_view pattern, bool requires_grad) const;
  /// Converts the leaves of all floating parameters and buffers. Call it before optimizers are created.
  void to(DType dtype) const;
  /// Moves all parameters and buffers. Call it before optimizers are created.
  void to(const device::Device& device) const;

  /// Returns the leaves of all parameters and buffers by path. They share memory with the module.
  [[nodiscard]] std::vector<NamedTensor> state_dict() const;
  /// Copies values into all parameters and buffers, by path. A plain value must be the global tensor, equal on all
  /// ranks. Throws InvalidArgument, which lists missing, unknown and misshapen tensors, and then changes nothing.
  void load_state_dict(std::span<const NamedTensor> tensors) const;

  /// Sets the observer of the whole model; an empty function ends it. The computed values do not change.
  void set_observer(ModuleObserver observer) const;
  /// Passes an intermediate value to the observer, as "PATH.name", and returns it.
  Tensor observe(std::string_view name, const Tensor& value) const;
  /// Returns true if the model has an observer.
  [[nodiscard]] bool is_observed() const;

  /// Returns true if both handles refer to the same module.
  [[nodiscard]] bool is_same(const Module& other) const { return state_ == other.state_; }
  /// Returns the shared object of the handle.
  [[nodiscard]] const std::shared_ptr<detail::ModuleState>& state() const { return state_; }
  /// Constructs a handle to an existing module.
  explicit Module(std::shared_ptr<detail::ModuleState> state) : state_(std::move(state)) {}

 protected:
  /// Registers a child and returns it. Throws InvalidArgument if the name is taken, empty or contains a dot.
  template <class M>
  M add(const std::string& name, M module) {
    add_child(name, module);
    return module;
  }
  /// Creates and registers a parameter. Under a ShardingScope it is created in shards.
  Parameter parameter(const std::string& name, const Shape& shape, const ParameterOptions& options = {});
  /// Registers a parameter of another module, which both then share.
  Parameter share(const std::string& name, const Parameter& parameter);
  /// Registers a tensor that is saved, but not trained.
  Parameter buffer(const std::string& name, const Tensor& value);

  /// Returns `x` in the layout that the sharding table gives to these meanings; `x` itself without a mesh. In backward,
  /// the gradient returns to the layout of `x`, and partial gradients are reduced.
  [[nodiscard]] Tensor constrain(const Tensor& x, const Meaning& meaning) const;

 private:
  void add_child(const std::string& name, const Module& child);

  std::shared_ptr<detail::ModuleState> state_;
};

/// A module and its path in the model.
struct NamedModule {
  std::string path;  ///< "layers.3.mlp"
  Module module;     ///< The module.
};

/// Prints the tree of modules, with the shape, dtype, layout and bytes of each parameter.
TESSERA_API std::ostream& operator<<(std::ostream& out, const Module& module);

}  // namespace tessera::nn
