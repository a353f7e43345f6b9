// Definition of an operator: arguments, shape inference, kernels, gradient, sharding rule and cost. A folder of
// tessera/ops, or another program, defines an operator and registers it at the end of its file:
//
//   const Operator kSoftmax = register_op({.name = "softmax", .inputs = "x", .outputs = "out", .infer = infer,
//                                          .host = kernel, .gradient = gradient, .saves = "out", .rule = rule});
//   Tensor softmax(const Tensor& x, int dim) { return call(kSoftmax, {x}, SoftmaxAttributes{dim}); }
//
// The functions are stateless and may be called from any thread. `infer`, `rule`, `localize` and `cost` use only shapes
// and dtypes. For tensors with layouts, the shapes are global.
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

/// Handle to a registered operator. Cheap to copy.
class TESSERA_API Operator {
 public:
  /// Constructs an empty handle.
  Operator() = default;
  /// Constructs a handle for register_op() and find_op().
  explicit Operator(const OperatorState* state) : state_(state) {}
  /// Returns true if the handle refers to an operator.
  explicit operator bool() const { return state_ != nullptr; }
  /// Returns the name of the operator.
  [[nodiscard]] const std::string& name() const;
  /// Returns the registered state.
  const OperatorState* operator->() const { return state_; }
  /// Returns true if both handles refer to the same operator.
  friend bool operator==(Operator, Operator) = default;

 private:
  const OperatorState* state_ = nullptr;
};

/// A call of an operator. Does not own its tensors and attributes.
struct TESSERA_API Call {
  Operator op;  ///< The operator.
  /// In the order of OpDef::inputs. An omitted optional input is an empty handle.
  std::span<const Tensor> inputs;
  AttributesRef attributes;   ///< Arguments that are not tensors.
  std::span<Tensor> outputs;  ///< Results. Before the call: empty handles, or the tensors to write into.

  /// Returns the attributes as A.
  template <class A>
  [[nodiscard]] const A& as() const {
    return attributes.as<A>();
  }
  /// Returns "softmax(x: f32[2, 3] on host; dim=1)", for errors.
  [[nodiscard]] std::string text() const;
};

/// Shape, dtype and memory order of an output.
struct OutputInfo {
  Shape shape;                ///< Global if inputs have layouts.
  DType dtype = DType::kF32;  ///< Element type.
  /// Index of an input with as many dimensions whose memory order of dimensions the output takes. A transposed view of
  /// the output is then contiguous if that of the input is. By default, the last dimension is the fastest.
  int laid_like = -1;
};

/// A call as a kernel receives it: all outputs exist, on one device. A kernel only enqueues work on the stream.
struct KernelCall : Call {
  const CurrentDevice& where;  ///< The device and the resources of this rank on it.

  /// Returns the stream on which to enqueue work.
  [[nodiscard]] const device::Stream& stream() const { return *where.stream; }
};

/// Inputs and results of a gradient function. The gradient of an output that nothing depends on is an empty handle,
/// unless the operator has a single output.
class TESSERA_API GradientCall {
 public:
  virtual ~GradientCall() = default;
  /// Returns the gradient of an output. An empty handle means zero.
  [[nodiscard]] virtual const Tensor& grad(int output = 0) const = 0;
  /// Returns an input that OpDef::saves names.
  [[nodiscard]] virtual const Tensor& input(int index) const = 0;
  /// Returns an output that OpDef::saves names.
  [[nodiscard]] virtual const Tensor& output(int index = 0) const = 0;
  /// Returns the shape of an input, saved or not.
  [[nodiscard]] virtual const Shape& input_shape(int index) const = 0;
  /// Returns the dtype of an input, saved or not.
  [[nodiscard]] virtual DType input_dtype(int index) const = 0;
  /// Returns the number of inputs of the call.
  [[nodiscard]] virtual int inputs() const = 0;
  /// Returns true if the gradient of an input is required.
  [[nodiscard]] virtual bool needs(int input) const = 0;
  /// Sets the gradient of an input, with the shape and dtype of the input. Unset gradients are zero.
  virtual void set(int input, Tensor gradient) = 0;
  /// Adds a gradient to the sum that it belongs to. Returns false if it left the sum unchanged.
  using AddToSum = std::function<bool(const Tensor& sum)>;
  /// Calls `add` with the sum of the gradients of an input so far, so that it adds the gradient of this call in place.
  /// Returns false if no sum exists, if anything else holds it, or if `add` returns false; call set() in these cases.
  virtual bool add_to_sum(int /*input*/, const AddToSum& /*add*/) { return false; }
  /// Returns the attributes of the call.
  [[nodiscard]] virtual AttributesRef attributes() const = 0;
  /// Returns the attributes of the call as A.
  template <class A>
  [[nodiscard]] const A& as() const {
    return attributes().as<A>();
  }
};

/// Cost of a call.
struct Cost {
  double flops = 0;   ///< A multiply and an add count as two.
  double nbytes = 0;  ///< Minimum bytes read and written.
  /// Bytes from the allocator that the kernels of accelerators hold during the call, besides the results. Stated by
  /// operators that hold much. Kernels of the host use memory of their threads.
  std::int64_t device_scratch = 0;
};

/// Special properties of an operator.
struct OpTraits {
  bool is_random = false;  ///< Draws random numbers: a recomputation must draw the same.
  /// Each element of the result depends only on the inputs at the same index, so the result may overwrite an input. For
  /// operators over lists, whose lists must precede all other arguments and results, this holds per list index: tensors
  /// at different indices may have different layouts and meshes.
  bool is_pointwise = false;
  /// Creates its result from numbers only, equal for equal calls; see Tensor::is_constant().
  bool is_constant = false;
  /// Consists of matrix products, which model FLOPs count.
  bool is_product = false;
};

/// A call on one rank of a layout. `localize` derives attributes that depend on sizes or positions from it.
struct LocalizeCall {
  const Call& global;                             ///< With global shapes.
  std::span<const layout::LocalOperand> inputs;   ///< Local shards of the inputs.
  std::span<const layout::LocalOperand> outputs;  ///< Local shards of the results.
};

/// Definition of an operator. If a function is missing, calls that need it throw.
struct OpDef {
  std::string_view name;           ///< Unique. Letters, digits, underscores and dots.
  std::string_view function = {};  ///< Name of the function that users call, for errors; by default `name`.
  /// Names of the tensor arguments: "x, weight?, tensors*". ? marks an optional
  /// argument, * a list. All lists have equal lengths.
  std::string_view inputs;
  /// Names of the results. A name that ends in * is a list as long as the lists of the inputs.
  std::string_view outputs = "out";
  /// Fills in every output. Throws for invalid arguments with TESSERA_CHECK_CALL.
  void (*infer)(const Call& call, std::span<OutputInfo> outputs) = nullptr;
  /// Runs on the host device.
  void (*host)(const KernelCall& call) = nullptr;
  /// Creates the result if it shares the storage of the first input. No kernel runs then.
  Tensor (*view)(const Call& call) = nullptr;
  /// Computes the gradients of inputs with other operators, so that they can be differentiated again.
  void (*gradient)(GradientCall& call) = nullptr;
  /// Inputs and outputs that the gradient reads: "a, b", "out".
  std::string_view saves = {};
  /// Returns the sharding rule.
  layout::FactorRule (*rule)(const Call& call) = nullptr;
  /// Returns the attributes of the local call. By default, those of the global call.
  Attributes (*localize)(const LocalizeCall& call) = nullptr;
  /// Returns the cost of a call.
  Cost (*cost)(const Call& call) = nullptr;
  /// Cooperation of ranks along a sharded factor that the rule marks with =cooperate (cooperation.h).
  const Cooperation* cooperation = nullptr;
  /// For operators that only move elements: returns the target of each element (rearrangement.h). Along a sharded
  /// dimension, only elements that change ranks are then sent.
  Rearrangement (*rearrangement)(const Call& call) = nullptr;
  OpTraits traits = {};  ///< Special properties.
};

/// Registers an operator. Aborts the process, with the name, if the name is already registered.
TESSERA_API Operator register_op(const OpDef& def);

/// Runs an operator on one kind of device.
using KernelFn = void (*)(const KernelCall& call);
/// Registers the kernel of operator `op` for a device kind. The operator may be registered before or after. Aborts if a
/// kernel is already registered.
struct TESSERA_API KernelRegistration {
  /// Registers the kernel.
  KernelRegistration(std::string_view op, std::string_view device_kind, KernelFn kernel);
};

/// One argument: a name of OpDef::inputs or OpDef::outputs.
struct OpArgument {
  std::string name;          ///< Without ? or *.
  bool is_optional = false;  ///< May be omitted.
  bool is_list = false;      ///< Any number of tensors.
};

/// State of a registered operator.
struct TESSERA_API OperatorState {
  std::string name;                        ///< Unique name.
  std::string function;                    ///< Name in errors.
  OpDef def;                               ///< As registered.
  std::vector<OpArgument> inputs;          ///< Parsed OpDef::inputs.
  std::vector<OpArgument> outputs;         ///< Parsed OpDef::outputs.
  std::uint64_t saved_inputs = 0;          ///< A bit per input that the gradient reads.
  std::uint64_t saved_outputs = 0;         ///< A bit per output that the gradient reads.
  KernelFn kernels[kMaxDeviceKinds] = {};  ///< Indexed by device kind. Null: no kernel.
  std::uint32_t id = 0;                    ///< Dense, in registration order. Valid in this process only.
  std::uint32_t input_lists = 0;           ///< Number of inputs that are lists.
  std::uint32_t input_singles = 0;         ///< Number of inputs that are not lists.
};

/// Returns the operator with this name. Throws InvalidArgument, which suggests the nearest name.
TESSERA_API Operator find_op(std::string_view name);
/// Returns all operators, sorted by name.
TESSERA_API std::vector<Operator> all_ops();

/// Throws InvalidArgument with the operator, the message parts and the call unless `condition` holds.
#define TESSERA_CHECK_CALL(call, condition, ...)                                                                  \
  TESSERA_CHECK_AS(::tessera::InvalidArgument, condition, (call).op->function, ": ", __VA_ARGS__, "; called as ", \
                   (call).text())

}  // namespace tessera::tensor
