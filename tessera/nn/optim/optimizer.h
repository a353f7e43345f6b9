// Optimizers update parameters in place by their gradients:
//
//   nn::AdamW optimizer(model.parameters(), {.learning_rate = 3e-4});
//   loss.backward();
//   reduce_gradients(model.parameters());       // on a mesh: optimizers reject gradients that are still partial
//   nn::clip_grad_norm(model.parameters(), 1.0);
//   optimizer.step();                           // also clears the gradients
//
// Groups give parameters their own weight decay or learning rate. State tensors have the layouts of their parameters.
// A step reads its learning rate when the work runs, so a captured step can be replayed with other values.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/ops/update/update.h"
#include "tessera/tensor/tensor.h"

namespace tessera::nn {

/// Parameters that an optimizer treats equally.
struct ParameterGroup {
  std::vector<Tensor> parameters = {};      ///< Leaves. Leaves without a gradient are frozen and skipped.
  std::optional<double> weight_decay = {};  ///< Default: that of the optimizer.
  double learning_rate_factor = 1;          ///< Multiplies the learning rate of the optimizer.
};

/// Options of a step.
struct StepOptions {
  ops::StepScalars scalars = {};  ///< Default of the learning rate: that of the optimizer.
  bool keeps_gradients = false;   ///< True if the gradients stay set after the step.
};

/// A parameter and its path in the model.
using NamedTensor = std::pair<std::string, Tensor>;

/// Base of all optimizers. Not thread-safe.
class TESSERA_API Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Updates all parameters. Throws InvalidArgument, and changes nothing, if a parameter has no gradient.
  void step(const StepOptions& options = {});
  /// Clears the gradients of all parameters.
  void zero_grad() const;

  /// Returns the learning rate of steps that are not given one.
  [[nodiscard]] double learning_rate() const { return learning_rate_; }
  /// Sets the learning rate of later steps. Throws InvalidArgument if it is negative or not finite.
  void set_learning_rate(double learning_rate);

  /// Returns the state tensors themselves, for checkpoints. A state of the parameter named NAME is "first/NAME" or
  /// "second/NAME"; "steps/G" counts the steps of group G. Throws InvalidArgument if a parameter has no name.
  [[nodiscard]] std::vector<NamedTensor> state(std::span<const NamedTensor> parameters) const;
  /// Returns the bytes of the state on this rank.
  [[nodiscard]] std::int64_t nbytes() const;

 protected:
  /// A group with its state: for each of the state names, one tensor per parameter.
  struct Group {
    double weight_decay = 0;                      ///< Weight decay.
    double learning_rate_factor = 1;              ///< Multiplies the learning rate of the optimizer.
    std::vector<Tensor> parameters = {};          ///< Leaves that require a gradient.
    std::vector<std::vector<Tensor>> state = {};  ///< By state name, then by parameter.
    Tensor steps = {};                            ///< One i64, if the optimizer counts steps.
  };
  /// The parts of an optimizer, besides its update.
  struct Settings {
    std::string name;                           ///< Prefix of errors.
    double learning_rate = 0;                   ///< Learning rate of steps that are not given one.
    double weight_decay = 0;                    ///< Weight decay of groups without their own.
    std::vector<std::string> state_names = {};  ///< Names of the state tensors of a parameter.
    bool counts_steps = false;                  ///< True if each group counts its steps.
  };

  /// Creates the state of all groups.
  Optimizer(Settings settings, std::vector<ParameterGroup> groups);
  /// Updates the parameters of a group in place. `gradients` are in the order of the parameters.
  virtual void update(const Group& group, std::span<const Tensor> gradients, const ops::StepScalars& scalars) = 0;

 private:
  Settings settings_;
  double learning_rate_;
  std::vector<Group> groups_;
};

/// Scales the gradients of `parameters` in place to a norm of at most `max_norm`, and returns the norm before that.
/// Parameters without a gradient are left out. Gradients must be reduced.
TESSERA_API Tensor clip_grad_norm(std::span<const Tensor> parameters, double max_norm);

}  // namespace tessera::nn
