// Derived samples of the matrix and nn families.
#include "tessera/ops/matrix/matrix.h"
#include "tessera/ops/nn/attention.h"
#include "tessera/ops/nn/cross_entropy.h"
#include "tessera/ops/nn/norm.h"
#include "tessera/ops/nn/rope.h"
#include "tessera/ops/nn/softmax.h"
#include "tessera/ops/testing/derived_samples.h"

namespace tessera::ops::testing {
namespace {

using tensor::Attributes;

OpSample derive_mm(Derivation& from) {
  const std::int64_t inner = from.size();
  return {.inputs = {from.values(0, {from.size(), inner}), from.values(1, {inner, from.size()})}};
}

OpSample derive_bmm(Derivation& from) {
  const std::int64_t batch = from.between(0, 4);
  const std::int64_t inner = from.size();
  return {.inputs = {from.values(0, {batch, from.size(), inner}), from.values(1, {batch, inner, from.size()})}};
}

OpSample derive_linear(Derivation& from) {
  const Shape x = from.shape(1, 4);
  return {.inputs = {from.values(0, x), from.values(1, {from.size(), x.dim(-1)})}};
}

// Each label is in one or both operands and, unless it is in both and summed, in the result.
OpSample derive_contract(Derivation& from) {
  std::string labels[3];
  std::vector<std::int64_t> sizes[2];
  std::int64_t numel = 1;
  const std::string letters = std::string("abcde").substr(0, static_cast<std::size_t>(from.between(0, 5)));
  for (const char label : letters) {
    const std::int64_t size = numel > 200 ? from.between(1, 2) : from.between(1, 6);
    numel *= size;
    const std::int64_t where = from.pick(4);  // 0: first, 1: second, otherwise both
    const bool is_summed = where >= 2 && from.one_in(2);
    for (const std::int64_t operand : {0, 1}) {
      if (where != 1 - operand) {
        const std::size_t at = from.random()() % (labels[operand].size() + 1);
        labels[operand].insert(labels[operand].begin() + static_cast<std::ptrdiff_t>(at), label);
        sizes[operand].insert(sizes[operand].begin() + static_cast<std::ptrdiff_t>(at), size);
      }
    }
    if (!is_summed)
      labels[2].insert(labels[2].begin() + from.pick(static_cast<std::int64_t>(labels[2].size()) + 1), label);
  }
  return {.inputs = {from.values(0, shape_of(sizes[0])), from.values(1, shape_of(sizes[1]))},
          .attributes = Attributes(ContractAttributes{labels[0] + "," + labels[1] + "->" + labels[2]})};
}

OpSample derive_softmax(Derivation& from, bool is_backward) {
  const Shape shape = from.shape(0, 4);
  OpSample sample{.inputs = {from.values(0, shape)},
                  .attributes = Attributes(SoftmaxAttributes{from.dim(shape.ndim())})};
  if (is_backward) sample.inputs.push_back(from.values(1, shape));
  return sample;
}

OpSample derive_norm(Derivation& from, bool is_layer_norm) {
  const Shape shape = resized(from.shape(1, 4), -1, from.size(false));
  const Shape row({shape.dim(-1)});
  OpSample sample{.inputs = {from.values(0, shape), from.one_in(2) ? from.values(1, row) : absent()},
                  .attributes = Attributes(NormalizationAttributes{1e-3}),
                  .outputs = is_layer_norm ? 3 : 2};
  if (is_layer_norm) sample.inputs.push_back(from.one_in(2) ? from.values(2, row) : absent());
  return sample;
}

OpSample derive_rope(Derivation& from) {
  RopeAttributes how;
  const Shape shape = resized(from.shape(2, 4), -1, 2 * from.between(1, 12));
  how.dim = from.between(0, shape.ndim() - 2) - (from.one_in(2) ? shape.ndim() : 0);
  if (from.one_in(2)) how.width = 2 * from.between(1, shape.dim(-1) / 2);
  how.base = from.one_in(2) ? 10000 : 100;
  how.is_interleaved = from.one_in(2);
  how.is_inverse = from.one_in(3);
  if (from.one_in(3)) how.factor = 4;
  if (from.one_in(3)) how.original_context = 64;
  const std::int64_t positions = shape.dim(static_cast<int>(how.dim));
  if (from.one_in(2)) {
    how.offset = from.pick(50);
    return {.inputs = {from.values(0, shape), absent()}, .attributes = Attributes(how)};
  }
  const bool has_batch = how.dim % shape.ndim() != 0 && from.one_in(2);
  const Shape of = has_batch ? Shape({shape[0], positions}) : Shape({positions});
  SampleInput at = integers(from.random(), of, 0, 200);
  if (from.one_in(2)) at.dtype = DType::kI32;
  return {.inputs = {from.values(0, shape), at}, .attributes = Attributes(how)};
}

OpSample derive_attention(Derivation& from) {
  AttentionBias bias;
  bias.is_causal = from.one_in(2);
  bias.is_bottom_right = from.one_in(2);
  if (from.one_in(3)) bias.window_left = from.pick(6);
  if (from.one_in(3)) bias.window_right = from.pick(6);
  if (from.one_in(3)) bias.scale = 0.25;
  const std::int64_t batch = from.between(1, 2);
  const std::int64_t kv_heads = from.between(1, 2);
  const std::int64_t d = from.between(1, 9);
  const std::int64_t keys = from.size();
  return {.inputs = {from.values(0, {batch, kv_heads * from.between(1, 2), from.size(), d}),
                     from.values(1, {batch, kv_heads, keys, d}),
                     from.values(2, {batch, kv_heads, keys, from.between(1, 9)}), absent(), absent()},
          .attributes = Attributes(bias),
          .outputs = 2};
}

// Returns targets below `classes`, some of them ignored.
SampleInput targets(Derivation& from, const Shape& rows, std::int64_t classes) {
  SampleInput made = from.indices(rows, classes);
  for (double& value : made.value.values) value = from.one_in(5) ? -100 : value;
  return made;
}

CrossEntropyAttributes some_loss(Derivation& from) {
  const char* const kReductions[] = {"mean", "sum", "none"};
  CrossEntropyAttributes how;
  how.reduction = kReductions[from.pick(3)];
  if (from.one_in(2)) how.label_smoothing = 0.125;
  return how;
}

OpSample derive_cross_entropy(Derivation& from, bool is_linear) {
  const Shape rows = from.shape(0, 3);
  const std::int64_t classes = from.size(false);
  std::vector<std::int64_t> sizes(rows.begin(), rows.end());
  sizes.push_back(is_linear ? from.between(1, 9) : classes);
  OpSample sample{.inputs = {from.values(0, shape_of(sizes))}, .attributes = Attributes(some_loss(from)), .outputs = 2};
  if (is_linear) sample.inputs.push_back(from.values(1, {classes, sizes.back()}));
  sample.inputs.push_back(targets(from, rows, classes));
  return sample;
}

}  // namespace

void add_nn_derivations(Derivations& to) {
  to["mm"] = derive_mm;
  to["bmm"] = derive_bmm;
  to["linear"] = derive_linear;
  to["contract"] = derive_contract;
  for (const char* op : {"softmax", "log_softmax"})
    to[op] = [](Derivation& from) { return derive_softmax(from, false); };
  for (const char* op : {"softmax_backward", "log_softmax_backward"}) {
    to[op] = [](Derivation& from) { return derive_softmax(from, true); };
  }
  to["layer_norm"] = [](Derivation& from) { return derive_norm(from, true); };
  to["rms_norm"] = [](Derivation& from) { return derive_norm(from, false); };
  to["rope"] = derive_rope;
  to["scaled_dot_product_attention"] = derive_attention;
  to["cross_entropy"] = [](Derivation& from) { return derive_cross_entropy(from, false); };
  to["linear_cross_entropy"] = [](Derivation& from) { return derive_cross_entropy(from, true); };
}

}  // namespace tessera::ops::testing
