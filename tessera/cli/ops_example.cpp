#include "tessera/cli/ops_example.h"

#include <array>
#include <span>

#include "tessera/device/device.h"
#include "tessera/tensor/call.h"

namespace tessera::cli {
namespace {

using tensor::AttributesRef;
using tensor::AttributesType;
using tensor::Call;

// Shapes of the first, the second and all other inputs: pointwise, matrix products, weights of a row, row indices,
// batches, heads.
const std::array<Shape, 3> kShapes[] = {
    {Shape{6, 8}, Shape{6, 8}, Shape{6, 8}},
    {Shape{6, 8}, Shape{8, 4}, Shape{6, 4}},
    {Shape{6, 8}, Shape{8}, Shape{8}},
    {Shape{6, 8}, Shape{6}, Shape{6}},
    {Shape{8}, Shape{8}, Shape{8}},
    {Shape{2, 6, 8}, Shape{2, 8, 4}, Shape{2, 6, 4}},
    {Shape{6, 8}, Shape{4, 8}, Shape{4}},
    {Shape{6, 4}, Shape{6, 8}, Shape{8, 4}},
    {Shape{2, 6, 4, 8}, Shape{2, 6, 4, 8}, Shape{2, 6, 4, 8}},
    {Shape{2, 6, 8, 2}, Shape{8}, Shape{8}},
    {Shape{}, Shape{}, Shape{}},
};
const std::array<DType, 3> kTypes[] = {
    {DType::kF32, DType::kF32, DType::kF32},  {DType::kF32, DType::kI64, DType::kF32},
    {DType::kI64, DType::kI64, DType::kI64},  {DType::kBool, DType::kF32, DType::kF32},
    {DType::kF32, DType::kBool, DType::kF32}, {DType::kI64, DType::kF32, DType::kF32},
    {DType::kC64, DType::kC64, DType::kC64},
};

// Returns a tensor whose elements are never read; all tensors share these bytes.
tensor::Tensor any_tensor(const Shape& shape, DType dtype) {
  alignas(64) static std::byte bytes[1 << 16];
  return tensor::Tensor::wrap(bytes, shape, dtype, device::Device::get("host"), nullptr);
}

std::vector<tensor::Tensor> make_inputs(const tensor::Operator& op, const std::array<Shape, 3>& shapes,
                                        const std::array<DType, 3>& types, bool with_optional) {
  std::vector<tensor::Tensor> inputs;
  for (std::size_t i = 0; i < op->inputs.size(); ++i) {
    const std::size_t kind = std::min<std::size_t>(i, 2);
    const tensor::OpArgument& argument = op->inputs[i];
    if (argument.is_optional && !with_optional) {
      inputs.emplace_back();
      continue;
    }
    for (int j = 0; j < (argument.is_list ? 2 : 1); ++j) inputs.push_back(any_tensor(shapes[kind], types[kind]));
  }
  return inputs;
}

std::vector<std::string> split_fields(std::string_view fields) {
  std::vector<std::string> names;
  while (!fields.empty()) {
    const std::size_t end = std::min(fields.find(','), fields.size());
    names.emplace_back(fields.substr(0, end));
    fields.remove_prefix(end);
    fields.remove_prefix(std::min(fields.find_first_not_of(", \n"), fields.size()));
  }
  return names;
}

std::string kind_text(const Shape& shape, DType dtype) { return std::string(to_string(dtype)) + to_string(shape); }

// Tries one call after another and learns the attributes of the operator from its errors.
class Asking {
 public:
  explicit Asking(const tensor::Operator& op) : op_(op) {}

  bool try_call(const std::vector<tensor::Tensor>& inputs) {
    try {
      ask(inputs);
      return true;
    } catch (const tensor::AttributesMismatch& mismatch) {
      if (type_ != nullptr) return false;
      learn(mismatch.asked());
    } catch (const Error&) {
      return false;
    }
    return made_ != nullptr && try_call(inputs);
  }
  [[nodiscard]] const OpExample& found() const { return found_; }

 private:
  void learn(const AttributesType& asked) {
    type_ = &asked;
    made_ = asked.make();
    found_.attributes = split_fields(asked.fields);
    if (made_) found_.defaults = asked.text(made_.get());
  }

  void ask(const std::vector<tensor::Tensor>& inputs) {
    std::vector<tensor::Tensor> outputs;
    for (const tensor::OpArgument& output : op_->outputs) outputs.resize(outputs.size() + (output.is_list ? 2 : 1));
    const AttributesRef attributes = made_ ? AttributesRef(made_.get(), *type_) : AttributesRef();
    const Call call{op_, inputs, attributes, outputs};
    std::string result;
    const auto add = [&](const Shape& shape, DType dtype) {
      result += (result.empty() ? "" : ", ") + kind_text(shape, dtype);
    };
    if (op_->def.infer != nullptr) {
      for (const tensor::OutputInfo& info : tensor::infer(call)) add(info.shape, info.dtype);
    } else {
      const tensor::Tensor view = op_->def.view(call);
      add(view.shape(), view.dtype());
    }
    if (op_->def.rule != nullptr) found_.rule = op_->def.rule(call).text();
    found_.result = std::move(result);
    found_.call = call.text();
  }

  tensor::Operator op_;
  const AttributesType* type_ = nullptr;
  std::shared_ptr<const void> made_;
  OpExample found_;
};

}  // namespace

OpExample find_example(const tensor::Operator& op) {
  Asking asking(op);
  for (const bool with_optional : {true, false}) {
    for (const auto& types : kTypes) {
      for (const auto& shapes : kShapes) {
        if (asking.try_call(make_inputs(op, shapes, types, with_optional))) return asking.found();
      }
    }
  }
  return asking.found();
}

}  // namespace tessera::cli
