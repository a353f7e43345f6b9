#include "tessera/ops/matrix/detail/contraction.h"

#include <algorithm>
#include <array>

namespace tessera::ops::detail {
namespace {

constexpr std::int64_t kNoSize = -1;
using LabelSizes = std::array<std::int64_t, 64>;  // from '@', the character before 'A'

// A set of letters. Labels are parsed for each call, so no step of it searches text.
class LabelSet {
 public:
  LabelSet() = default;
  explicit LabelSet(std::string_view labels) {
    for (const char label : labels) add(label);
  }
  void add(char label) { bits_ |= bit(label); }
  [[nodiscard]] bool has(char label) const { return (bits_ & bit(label)) != 0; }

 private:
  static std::uint64_t bit(char label) { return std::uint64_t{1} << (static_cast<unsigned char>(label) - 64U); }
  std::uint64_t bits_ = 0;  // letters are 65 to 122
};

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

bool is_label_text(std::string_view text) {
  LabelSet seen;
  for (const char label : text) {
    if (!is_letter(label) || seen.has(label)) return false;
    seen.add(label);
  }
  return true;
}

void add_sizes(const tensor::Call& call, const std::string& labels, const Shape& shape, LabelSizes& sizes) {
  TESSERA_CHECK_CALL(call, labels.size() == shape.size(), "labels '", labels,
                     "' must have one letter per dimension of shape ", shape);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    std::int64_t& size = sizes[static_cast<std::size_t>(labels[i] - '@')];
    TESSERA_CHECK_CALL(call, size == kNoSize || size == shape[i], "sizes of '", labels[i], "' must be equal, got ",
                       size, " and ", shape[i]);
    size = shape[i];
  }
}

// Returns the step of a label in a plain tensor; 0 if the tensor lacks the label.
std::int64_t step(const std::string& labels, const Tensor& tensor, char label) {
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] == label) return tensor.strides()[i];
  }
  return 0;
}

// Appends a dimension to its group, merged with the last one if their strides permit.
void append_merged(SmallVector<GemmLoop, 4>& group, const GemmLoop& dim) {
  if (dim.size == 1) return;
  if (!group.empty()) {
    GemmLoop& outer = group[group.size() - 1];
    if (outer.a == dim.a * dim.size && outer.b == dim.b * dim.size && outer.c == dim.c * dim.size) {
      outer = {outer.size * dim.size, dim.a, dim.b, dim.c};
      return;
    }
  }
  group.push_back(dim);
}

// Returns the dimension of the matrix, the largest one. The others become loops.
GemmLoop take_largest(const SmallVector<GemmLoop, 4>& group, SmallVector<GemmLoop, 4>& loops) {
  if (group.empty()) return {1, 1, 1, 1};
  std::size_t largest = 0;
  for (std::size_t i = 1; i < group.size(); ++i) {
    if (group[i].size > group[largest].size) largest = i;
  }
  for (std::size_t i = 0; i < group.size(); ++i) {
    if (i != largest) loops.push_back(group[i]);
  }
  return group[largest];
}

}  // namespace

ContractionLabels parse_contraction(const tensor::Call& call, std::string_view labels) {
  const std::size_t comma = labels.find(',');
  const std::size_t arrow = labels.find("->");
  const bool has_parts = comma != std::string_view::npos && arrow != std::string_view::npos && comma < arrow;
  TESSERA_CHECK_CALL(call, has_parts, "labels must have the form 'ik,kj->ij', got '", labels, "'");
  ContractionLabels parts = {std::string(labels.substr(0, comma)),
                             std::string(labels.substr(comma + 1, arrow - comma - 1)),
                             std::string(labels.substr(arrow + 2))};
  for (const std::string* part : {&parts.a, &parts.b, &parts.c}) {
    TESSERA_CHECK_CALL(call, is_label_text(*part), "labels must be distinct letters, got '", *part, "' in '", labels,
                       "'");
  }
  return parts;
}

Shape contraction_shape(const tensor::Call& call, const ContractionLabels& labels, const Shape& a, const Shape& b) {
  LabelSizes sizes;
  sizes.fill(kNoSize);
  add_sizes(call, labels.a, a, sizes);
  add_sizes(call, labels.b, b, sizes);
  const LabelSet in_a(labels.a);
  const LabelSet in_b(labels.b);
  const LabelSet in_c(labels.c);
  for (const std::string* part : {&labels.a, &labels.b}) {
    for (const char label : *part) {
      TESSERA_CHECK_CALL(call, in_a.has(label) + in_b.has(label) + in_c.has(label) >= 2, "label '", label,
                         "' must appear in two tensors; sum over it first, as einsum does");
    }
  }
  SmallVector<std::int64_t, 8> shape;
  for (const char label : labels.c) {
    const std::int64_t size = sizes[static_cast<std::size_t>(label - '@')];
    TESSERA_CHECK_CALL(call, size != kNoSize, "label '", label, "' of the result must appear in an input");
    shape.push_back(size);
  }
  return Shape(std::span<const std::int64_t>(shape));
}

Gemm plan_contraction(const ContractionLabels& labels, const Tensor& a, const Tensor& b, const Tensor& c) {
  Gemm gemm;
  SmallVector<GemmLoop, 4> rows;
  SmallVector<GemmLoop, 4> cols;
  SmallVector<GemmLoop, 4> depth;
  const LabelSet in_a(labels.a);
  const LabelSet in_b(labels.b);
  const LabelSet in_c(labels.c);
  for (std::size_t i = 0; i < labels.c.size(); ++i) {
    const char label = labels.c[i];
    const GemmLoop dim = {c.shape()[i], step(labels.a, a, label), step(labels.b, b, label), c.strides()[i]};
    append_merged(!in_b.has(label) ? rows : !in_a.has(label) ? cols : gemm.loops, dim);
  }
  for (std::size_t i = 0; i < labels.a.size(); ++i) {
    if (in_c.has(labels.a[i])) continue;
    append_merged(depth, {a.shape()[i], a.strides()[i], step(labels.b, b, labels.a[i]), 0});
  }
  const GemmLoop m = take_largest(rows, gemm.loops);
  const GemmLoop n = take_largest(cols, gemm.loops);
  gemm.sizes = {m.size, n.size, 1};
  for (const GemmLoop& dim : depth) gemm.sizes.k *= dim.size;
  const bool is_one = depth.size() <= 1;
  const GemmLoop k = is_one && !depth.empty() ? depth[0] : GemmLoop{1, 1, 1, 0};
  gemm.a = {a.data(), m.a, k.a, a.dtype()};
  gemm.b = {b.data(), k.b, n.b, b.dtype()};
  gemm.c = {c.data(), m.c, n.c, c.dtype()};
  if (!is_one) gemm.k_dims = depth;
  return gemm;
}

layout::FactorRule contraction_rule(const std::string& name, const ContractionLabels& labels) {
  layout::FactorRule rule;
  rule.name = name;
  std::array<std::int32_t, 128> places;
  places.fill(-1);
  const LabelSet in_c(labels.c);
  const auto factors_of = [&](const std::string& part) {
    layout::OperandFactors factors;
    for (const char label : part) {
      std::int32_t& place = places[static_cast<unsigned char>(label)];
      if (place < 0) {
        place = static_cast<std::int32_t>(rule.factors.size());
        layout::Factor factor;
        factor.name = std::string(1, label);
        if (!in_c.has(label)) factor.kind = layout::FactorKind::kReduce;
        rule.factors.push_back(std::move(factor));
      }
      layout::DimFactors one;
      one.push_back(place);
      factors.push_back(one);
    }
    return factors;
  };
  rule.inputs = {factors_of(labels.a), factors_of(labels.b)};
  rule.outputs = {factors_of(labels.c)};
  rule.algebra = {{layout::Linearity::kMulti}, {layout::Linearity::kMulti}};
  return rule;
}

tensor::Cost contraction_cost(const ContractionLabels& labels, const Shape& a, const Shape& b, const Shape& c,
                              DType dtype) {
  double work = is_complex(dtype) ? 8 : 2;
  const LabelSet in_c(labels.c);
  for (const std::int64_t size : c) work *= static_cast<double>(size);
  for (std::size_t i = 0; i < labels.a.size(); ++i) {
    if (!in_c.has(labels.a[i])) work *= static_cast<double>(a[i]);
  }
  const auto elements = static_cast<double>(a.numel() + b.numel() + c.numel());
  return {work, elements * static_cast<double>(itemsize(dtype))};
}

}  // namespace tessera::ops::detail
