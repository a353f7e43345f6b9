// Checks of factor rules, the sizes of their factors, and pointwise rules.
#include "tessera/layout/factor_rule.h"

#include <cctype>
#include <numeric>

#include "tessera/base/checked.h"
#include "tessera/base/error.h"

namespace tessera::layout {
namespace {

constexpr std::size_t kMaxFactors = 64;  // a set of factors is one word

using FactorSet = std::uint64_t;

FactorSet bit(std::int32_t factor) { return FactorSet{1} << factor; }

bool is_name(std::string_view name) {
  if (name.empty() || std::isalpha(static_cast<unsigned char>(name[0])) == 0) return false;
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) return false;
  }
  return true;
}

void check_factors(const FactorRule& rule) {
  TESSERA_CHECK(rule.factors.size() <= kMaxFactors, "rule of ", rule.name, ": number of factors must be at most ",
                kMaxFactors, ", got ", rule.factors.size());
  for (std::size_t f = 0; f < rule.factors.size(); ++f) {
    const Factor& factor = rule.factors[f];
    TESSERA_CHECK(is_name(factor.name), "rule of ", rule.name,
                  ": factor name must be a letter, then letters and digits, got '", factor.name, "'");
    for (std::size_t g = 0; g < f; ++g) {
      TESSERA_CHECK(rule.factors[g].name != factor.name, "rule of ", rule.name, ": factor names must be distinct, got ",
                    factor.name, " twice");
    }
    TESSERA_CHECK(factor.size >= 0, "rule of ", rule.name, ": size of factor ", factor.name,
                  " must be at least 0, got ", factor.size);
    TESSERA_CHECK(factor.kind != FactorKind::kBlocked || factor.block >= 1, "rule of ", rule.name, ": block of factor ",
                  factor.name, " must be at least 1, got ", factor.block);
    TESSERA_CHECK(
        factor.kind != FactorKind::kReduce || factor.reduction != Reduction::kAvg, "rule of ", rule.name, ": factor ",
        factor.name,
        " must not be reduced by avg, because shards may differ in size; use sum, and divide by the global size");
  }
}

FactorSet factors_of(const FactorRule& rule, const OperandFactors& dims, std::string_view what, std::size_t index) {
  FactorSet seen = 0;
  for (const DimFactors& dim : dims) {
    for (const std::int32_t f : dim) {
      TESSERA_CHECK(f >= 0 && static_cast<std::size_t>(f) < rule.factors.size(), "rule of ", rule.name, ": factor of ",
                    what, " ", index, " must be in [0, ", rule.factors.size(), "), got ", f);
      TESSERA_CHECK((seen & bit(f)) == 0, "rule of ", rule.name, ": factor ",
                    rule.factors[static_cast<std::size_t>(f)].name, " appears twice in ", what, " ", index,
                    "; one index along two dimensions (a diagonal) cannot be sharded");
      seen |= bit(f);
    }
  }
  return seen;
}

// A result that lacks reduced factors is one reduction over all of them: sums of maxima would depend on the order.
void check_output(const FactorRule& rule, std::size_t output, FactorSet has, FactorSet in_inputs) {
  const Factor* reduced = nullptr;
  for (std::size_t f = 0; f < rule.factors.size(); ++f) {
    const Factor& factor = rule.factors[f];
    const FactorSet mask = bit(static_cast<std::int32_t>(f));
    if ((has & mask) != 0) {
      const bool is_known = (in_inputs & mask) != 0 || factor.size > 0 || factor.kind == FactorKind::kReplicate;
      TESSERA_CHECK(is_known, "rule of ", rule.name, ": output ", output, " has factor ", factor.name,
                    ", which no input has; specify its size (", factor.name, ":n)");
      continue;
    }
    TESSERA_CHECK(factor.kind != FactorKind::kPass && factor.kind != FactorKind::kBlocked, "rule of ", rule.name,
                  ": factor ", factor.name, " is missing from output ", output, "; specify its reduction (",
                  factor.name, "=sum), or that it cannot be sharded (", factor.name, "=replicate)");
    if (factor.kind != FactorKind::kReduce) continue;
    TESSERA_CHECK(reduced == nullptr || reduced->reduction == factor.reduction, "rule of ", rule.name, ": output ",
                  output, " is reduced by ", reduced->reduction, " over ", reduced->name, " and by ", factor.reduction,
                  " over ", factor.name, "; set the one that is reduced first to =replicate");
    reduced = &factor;
  }
}

void check_algebra(const FactorRule& rule) {
  TESSERA_CHECK(rule.algebra.empty() || rule.algebra.size() == rule.inputs.size(), "rule of ", rule.name,
                ": requires one algebra per input (", rule.inputs.size(), "), got ", rule.algebra.size());
  for (std::size_t i = 0; i < rule.algebra.size(); ++i) {
    if (rule.algebra[i].linearity == Linearity::kNone) continue;
    for (const Factor& factor : rule.factors) {
      TESSERA_CHECK(factor.kind != FactorKind::kReduce || factor.reduction == Reduction::kSum, "rule of ", rule.name,
                    ": input ", i, " is declared linear, but ", factor.reduction, " over ", factor.name,
                    " is not linear");
    }
  }
}

// Known sizes of factors and their sources, for errors.
class SizeTable {
 public:
  SizeTable(const FactorRule& rule) : rule_(rule), sizes_(rule.factors.size(), -1), said_(rule.factors.size()) {
    for (std::size_t f = 0; f < sizes_.size(); ++f) {
      if (rule.factors[f].size > 0) sizes_[f] = rule.factors[f].size;
    }
  }

  void set(std::int32_t factor, std::int64_t size, bool is_input, std::size_t operand, std::size_t dim) {
    const auto f = static_cast<std::size_t>(factor);
    if (sizes_[f] < 0) {
      sizes_[f] = size;
      said_[f] = {is_input, true, operand, dim};
      return;
    }
    if (sizes_[f] == size) return;
    const Said& by = said_[f];
    TESSERA_THROW(InvalidArgument, rule_.name, ": factor ", rule_.factors[f].name, " is ", sizes_[f],
                  by.is_shape ? tessera::detail::concat(" in dimension ", by.dim, " of ",
                                                        by.is_input ? "input " : "output ", by.operand)
                              : std::string(" by the rule"),
                  " and ", size, " in dimension ", dim, " of ", is_input ? "input " : "output ", operand);
  }

  // Derives the size of the only unknown factor from a dimension. Returns true if the dimension is resolved.
  bool read(const DimFactors& dim, std::int64_t size, bool is_input, std::size_t operand, std::size_t index) {
    if (dim.size() == 1) {
      set(dim[0], size, is_input, operand, index);
      return true;
    }
    std::int64_t known = 1;
    std::int32_t unknown = -1;
    for (const std::int32_t f : dim) {
      const std::int64_t each = sizes_[static_cast<std::size_t>(f)];
      if (each < 0 && unknown >= 0) return false;
      if (each < 0) {
        unknown = f;
      } else {
        known = checked_mul(known, each, "size of a dimension");
      }
    }
    if (unknown >= 0 && known == 0) return false;
    const bool fits = unknown >= 0 ? size % known == 0 : size == known;
    TESSERA_CHECK(fits, rule_.name, ": dimension ", index, " of ", is_input ? "input " : "output ", operand, " is ",
                  size, ", which is not a product of factors ", names(dim));
    if (unknown >= 0) set(unknown, size / known, is_input, operand, index);
    return true;
  }

  [[nodiscard]] std::string names(const DimFactors& dim) const {
    std::string out;
    for (const std::int32_t f : dim) {
      const auto at = static_cast<std::size_t>(f);
      tessera::detail::append(out, tessera::detail::concat(out.empty() ? "" : " x ", rule_.factors[at].name));
      if (sizes_[at] >= 0) tessera::detail::append(out, tessera::detail::concat(" (", sizes_[at], ")"));
    }
    return dim.empty() ? "none (a dimension written 1)" : out;
  }

  std::vector<std::int64_t> take() { return std::move(sizes_); }
  [[nodiscard]] const std::vector<std::int64_t>& sizes() const { return sizes_; }

 private:
  struct Said {
    bool is_input = false;
    bool is_shape = false;
    std::size_t operand = 0;
    std::size_t dim = 0;
  };
  const FactorRule& rule_;
  std::vector<std::int64_t> sizes_;
  std::vector<Said> said_;
};

// Reads every dimension once. Returns the number of unresolved dimensions.
std::size_t read_shapes(SizeTable& table, const FactorRule& rule, std::span<const Shape> shapes, bool is_input) {
  std::size_t open = 0;
  const auto& operands = is_input ? rule.inputs : rule.outputs;
  for (std::size_t o = 0; o < operands.size(); ++o) {
    for (std::size_t d = 0; d < operands[o].size(); ++d) {
      if (!table.read(operands[o][d], shapes[o][d], is_input, o, d)) ++open;
    }
  }
  return open;
}

void check_counts(const FactorRule& rule, std::span<const Shape> shapes, bool is_input) {
  const auto& operands = is_input ? rule.inputs : rule.outputs;
  const char* what = is_input ? "input" : "output";
  TESSERA_CHECK(shapes.size() == operands.size(), rule.name, ": requires ", operands.size(), " ", what, "s, got ",
                shapes.size());
  for (std::size_t o = 0; o < operands.size(); ++o) {
    TESSERA_CHECK(shapes[o].size() == operands[o].size(), rule.name, ": ", what, " ", o, " must have ",
                  operands[o].size(), " dimensions, got shape ", shapes[o]);
  }
}

}  // namespace

void FactorRule::check() const {
  TESSERA_CHECK(!name.empty(), "factor rule: requires the name of the operator");
  check_factors(*this);
  FactorSet in_inputs = 0;
  FactorSet in_outputs = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) in_inputs |= factors_of(*this, inputs[i], "input", i);
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    const FactorSet has = factors_of(*this, outputs[o], "output", o);
    check_output(*this, o, has, in_inputs);
    in_outputs |= has;
  }
  for (std::size_t f = 0; f < factors.size(); ++f) {
    const FactorSet mask = bit(static_cast<std::int32_t>(f));
    TESSERA_CHECK(((in_inputs | in_outputs) & mask) != 0, "rule of ", name, ": factor ", factors[f].name,
                  " must appear in an operand");
    TESSERA_CHECK(factors[f].kind != FactorKind::kReduce || (in_inputs & mask) != 0, "rule of ", name, ": factor ",
                  factors[f].name, " is reduced, but no input has it");
  }
  check_algebra(*this);
}

std::vector<std::int64_t> FactorRule::sizes(std::span<const Shape> input_shapes,
                                            std::span<const Shape> output_shapes) const {
  check_counts(*this, input_shapes, true);
  check_counts(*this, output_shapes, false);
  SizeTable table(*this);
  std::size_t before = ~std::size_t{0};
  while (true) {
    const std::size_t open =
        read_shapes(table, *this, input_shapes, true) + read_shapes(table, *this, output_shapes, false);
    if (open == 0) return table.take();
    if (open == before) break;
    before = open;
  }
  for (std::size_t f = 0; f < factors.size(); ++f) {
    TESSERA_CHECK(table.sizes()[f] >= 0, name, ": shapes do not determine the size of factor ", factors[f].name,
                  "; specify it in the rule (", factors[f].name, ":n)");
  }
  return table.take();
}

FactorRule pointwise_rule(std::string name, std::span<const Shape> inputs, Algebra algebra) {
  TESSERA_CHECK(!inputs.empty(), "rule of ", name, ": a pointwise operator must have at least one input");
  Shape whole = inputs[0];
  for (const Shape& shape : inputs) whole = broadcast(whole, shape);
  FactorRule rule;
  rule.name = std::move(name);
  OperandFactors& out = rule.outputs.emplace_back();
  for (std::size_t d = 0; d < whole.size(); ++d) {
    rule.factors.push_back({.name = tessera::detail::concat("d", d)});
    out.push_back({static_cast<std::int32_t>(d)});
  }
  for (const Shape& shape : inputs) {
    OperandFactors& dims = rule.inputs.emplace_back();
    const std::size_t lead = whole.size() - shape.size();
    for (std::size_t d = 0; d < shape.size(); ++d) {
      DimFactors& dim = dims.emplace_back();
      if (shape[d] == whole[lead + d]) dim.push_back(static_cast<std::int32_t>(lead + d));
    }
    rule.algebra.push_back(algebra);
  }
  if (algebra == Algebra{}) rule.algebra.clear();
  return rule;
}

std::vector<LocalOperand> localize(std::span<const Shape> shapes, std::span<const Layout> layouts, Rank rank) {
  TESSERA_CHECK(shapes.size() == layouts.size(), "localize: requires one layout per shape, got ", shapes.size(),
                " shapes and ", layouts.size(), " layouts");
  std::vector<LocalOperand> locals;
  locals.reserve(shapes.size());
  for (std::size_t o = 0; o < shapes.size(); ++o) {
    LocalOperand& local = locals.emplace_back();
    local.shape = local_shape(layouts[o], shapes[o], rank);
    for (int d = 0; d < shapes[o].ndim(); ++d) local.index.push_back(index_map(layouts[o], shapes[o], d, rank));
  }
  return locals;
}

}  // namespace tessera::layout
