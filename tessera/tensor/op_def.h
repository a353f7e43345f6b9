// What an operator is, in one place: its arguments, how it infers its results, its kernels, its gradient, how it may be
// sharded and what it costs. A folder of tessera/ops (or a program of somebody else) defines one and registers it at
// the foot of its file:
//
//   const Operator kSoftmax = register_op({.name = "softmax", .inputs = "x", .outputs = "out", .infer = infer,
//                                          .host = kernel, .gradient = gradient, .saves = "out", .rule = rule});
//   Tensor softmax(const Tensor& x, int dim) { return call(kSoftmax, {x}, SoftmaxAttributes{dim}); }
//
// The functions are plain: they keep no state and may be called from any thread. `infer`, `rule`, `localize` and `cost`
// look at shapes and dtypes only, which are global for tensors with layouts.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/layout/factor_rule.h"
#include "tessera/tensor/attributes.h"
#include "tessera/tensor/tensor.h"

namespace tessera::tensor {

struct OperatorState;
struct Cooperation;
struct Rearrangement;

/// A registered operator. A cheap handle.
class TESSERA_API Operator {
 public:
  /// No operator.
  Operator() = default;
  /// Made by register_op and find_op.
  explicit Operator(const OperatorState* state) : state_(state) {}
  /// Whether there is one.
  explicit operator bool() const { return state_ != nullptr; }
  /// Its name.
  [[nodiscard]] const std::string& name() const;
  /// What is known of it.
  const OperatorState* operator->() const { return state_; }
  /// The same operator.
  friend bool operator==(Operator, Operator) = default;

 private:
  const OperatorState* state_ = nullptr;
};

/// A call of an operator. Only looks at what it names.
struct TESSERA_API Call {
  Operator op;                     ///< the operator
  std::span<const Tensor> inputs;  ///< in the order of OpDef::inputs; no tensor where an optional one is left out
  AttributesRef attributes;        ///< the rest of its arguments
  std::span<Tensor> outputs;       ///< results; before the call no tensors, or those that are written into

  /// The attributes as A.
  template <class A>
  [[nodiscard]] const A& as() const {
    return attributes.as<A>();
  }
  /// "softmax(x: f32[2, 3] on host; dim=1)", for errors.
  [[nodiscard]] std::string text() const;
};

/// What an output will be.
struct OutputInfo {
  Shape shape;                ///< global, where inputs have layouts
  DType dtype = DType::kF32;  ///< of its elements
  /// Input of as many dimensions whose order of dimensions in memory the output takes, so that a transposed view of the
  /// output is contiguous if that of the input is. By default the last dimension is the fastest.
  int laid_like = -1;
};

/// A call as a kernel gets it: outputs are there, all on one device. A kernel only enqueues work on the stream.
struct KernelCall : Call {
  const CurrentDevice& where;  ///< the device and this rank's means on it

  /// Where the work goes.
  [[nodiscard]] const device::Stream& stream() const { return *where.stream; }
};

/// What a gradient is computed from, and where it goes. Gradients of outputs that nothing depends on are no tensors,
/// unless the operator has a single output.
class TESSERA_API GradientCall {
 public:
  virtual ~GradientCall() = default;
  /// The gradient of an output; no tensor: it is zero.
  [[nodiscard]] virtual const Tensor& grad(int output = 0) const = 0;
  /// An input that OpDef::saves names.
  [[nodiscard]] virtual const Tensor& input(int index) const = 0;
  /// An output that OpDef::saves names.
  [[nodiscard]] virtual const Tensor& output(int index = 0) const = 0;
  /// Shape of an input, saved or not.
  [[nodiscard]] virtual const Shape& input_shape(int index) const = 0;
  /// Dtype of an input, saved or not.
  [[nodiscard]] virtual DType input_dtype(int index) const = 0;
  /// How many inputs the call had.
  [[nodiscard]] virtual int inputs() const = 0;
  /// Whether anybody wants the gradient of an input.
  [[nodiscard]] virtual bool needs(int input) const = 0;
  /// Gives the gradient of an input, of its shape and dtype. What is not given is zero.
  virtual void set(int input, Tensor gradient) = 0;
  /// Adds a gradient to the sum that it belongs to; returns false if it left the sum as it was.
  using AddToSum = std::function<bool(const Tensor& sum)>;
  /// Offers `add` the sum of the gradients of an input so far, to add this call's in place instead of set(). Returns
  /// false if no sum exists, if anything else holds it, or if `add` returns false: then set() is to give the gradient.
  virtual bool add_to_sum(int /*input*/, const AddToSum& /*add*/) { return false; }
  /// The attributes of the call.
  [[nodiscard]] virtual AttributesRef attributes() const = 0;
  /// Likewise, as A.
  template <class A>
  [[nodiscard]] const A& as() const {
    return attributes().as<A>();
  }
};

/// What a call costs.
struct Cost {
  double flops = 0;   ///< a multiply and an add are two
  double nbytes = 0;  ///< read and written at least
};

/// What is special about an operator.
struct OpTraits {
  bool is_random = false;  ///< draws numbers: a recomputation must draw the same
  /// Each element of the result depends on the same place of the inputs only, so that it may be written over an input.
  /// Over lists, which then stand before all other arguments and results: of the tensors at the same place, so that
  /// tensors at different places may have layouts and meshes of their own.
  bool is_pointwise = false;
  /// Makes its result from numbers alone, the same wherever it is called alike: see Tensor::is_constant().
  bool is_constant = false;
};

/// A call as one rank of a layout makes it: given to `localize` to change attributes that depend on sizes or position.
struct LocalizeCall {
  const Call& global;                             ///< with global shapes
  std::span<const layout::LocalOperand> inputs;   ///< this rank's parts
  std::span<const layout::LocalOperand> outputs;  ///< of the results
};

/// See the head of this file. Functions that are not given: the operator cannot do that, and says so when asked.
struct OpDef {
  std::string_view name;    ///< unique; letters, digits, underscores and dots
  std::string_view inputs;  ///< names of tensor arguments: "x, weight?, tensors*": ? optional, * a list (all as long)
  std::string_view outputs = "out";  ///< names of results; one ending in * is a list as long as the inputs' lists
  /// Fills in every output; refuses arguments that make no sense, by TESSERA_CHECK_CALL.
  void (*infer)(const Call& call, std::span<OutputInfo> outputs) = nullptr;
  /// Runs on the host device.
  void (*host)(const KernelCall& call) = nullptr;
  /// Makes the result where it shares the storage of the first input; no kernel runs then.
  Tensor (*view)(const Call& call) = nullptr;
  /// Gives the gradients of inputs by other operators, so that it can be differentiated again.
  void (*gradient)(GradientCall& call) = nullptr;
  /// Inputs and outputs that the gradient reads: "a, b", "out".
  std::string_view saves = {};
  /// How it may be sharded.
  layout::FactorRule (*rule)(const Call& call) = nullptr;
  /// Attributes of the local call; not given: those of the global one.
  Attributes (*localize)(const LocalizeCall& call) = nullptr;
  /// What a call costs.
  Cost (*cost)(const Call& call) = nullptr;
  /// How ranks work together where a factor that its rule marks with =cooperate is cut (cooperation.h).
  const Cooperation* cooperation = nullptr;
  /// Of an operator that only puts elements elsewhere: which goes where (rearrangement.h), so that along a cut
  /// dimension those alone move that change their rank.
  Rearrangement (*rearrangement)(const Call& call) = nullptr;
  OpTraits traits = {};  ///< what is special about it
};

/// Registers an operator; aborts the process, naming it, when there is one of that name already.
TESSERA_API Operator register_op(const OpDef& def);

/// Runs an operator on a kind of device.
using KernelFn = void (*)(const KernelCall& call);
/// Gives the operator `op`, registered before or after, its kernel on devices of this kind; aborts when it has one.
struct TESSERA_API KernelRegistration {
  /// Registers.
  KernelRegistration(std::string_view op, std::string_view device_kind, KernelFn kernel);
};

/// One argument: a name of OpDef::inputs or of OpDef::outputs.
struct OpArgument {
  std::string name;          ///< without the mark
  bool is_optional = false;  ///< may be no tensor
  bool is_list = false;      ///< any number of tensors
};

/// What is known of a registered operator.
struct TESSERA_API OperatorState {
  std::string name;                         ///< unique
  OpDef def;                                ///< as it was given
  std::vector<OpArgument> inputs;           ///< OpDef::inputs, taken apart
  std::vector<OpArgument> outputs;          ///< OpDef::outputs, taken apart
  std::uint64_t saved_inputs = 0;           ///< a bit for each argument that the gradient reads
  std::uint64_t saved_outputs = 0;          ///< likewise
  KernelFn kernels[kMostDeviceKinds] = {};  ///< by kind of device; null: none
  std::uint32_t id = 0;                     ///< dense, in the order of registration: for this process only
  std::uint32_t input_lists = 0;            ///< how many of the inputs are lists
  std::uint32_t input_singles = 0;          ///< how many are not
};

/// The operator of this name; InvalidArgument names the nearest.
TESSERA_API Operator find_op(std::string_view name);
/// All operators, by name.
TESSERA_API std::vector<Operator> all_ops();

/// Unless the condition holds, throws InvalidArgument with the operator, the parts and the whole call.
#define TESSERA_CHECK_CALL(call, condition, ...)                                                               \
  TESSERA_CHECK_AS(::tessera::InvalidArgument, condition, (call).op.name(), ": ", __VA_ARGS__, "; called as ", \
                   (call).text())

}  // namespace tessera::tensor
