#include "tessera/layout/testing/rule_values.h"

#include <algorithm>
#include <limits>

#include "tessera/base/error.h"
#include "tessera/layout/arithmetic.h"

namespace tessera::layout::testing {
namespace {

using tessera::detail::concat;
using Value = std::int64_t;
using Index = std::vector<std::int64_t>;

constexpr Value kFar = std::numeric_limits<Value>::max() / 4;  // beyond every real value

struct Values {
  Shape shape;
  std::vector<Value> list;
};

// Calls body(index, place) for every index of a shape, the last dimension fastest.
template <class Body>
void for_each_index(const Shape& shape, Body&& body) {
  Index index(shape.size(), 0);
  const std::int64_t count = shape.numel();
  for (std::int64_t place = 0; place < count; ++place) {
    body(index, static_cast<std::size_t>(place));
    for (std::size_t d = index.size(); d-- > 0;) {
      if (++index[d] < shape[d]) break;
      index[d] = 0;
    }
  }
}

std::size_t place_of(const Shape& shape, const Index& index) {
  std::int64_t place = 0;
  for (std::size_t d = 0; d < index.size(); ++d) place = place * shape[d] + index[d];
  return static_cast<std::size_t>(place);
}

std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  a ^= b + 0x9e3779b97f4a7c15ULL + (a << 6) + (a >> 2);
  a *= 0xbf58476d1ce4e5b9ULL;
  return a ^ (a >> 29);
}

Value identity(Reduction reduction) {
  switch (reduction) {
    case Reduction::kMin: return kFar;
    case Reduction::kMax: return -kFar;
    case Reduction::kProd: return 1;
    default: return 0;
  }
}

Value combine(Reduction reduction, Value a, Value b) {
  switch (reduction) {
    case Reduction::kMin: return std::min(a, b);
    case Reduction::kMax: return std::max(a, b);
    case Reduction::kProd: return a * b;
    default: return a + b;
  }
}

// ---- the operator ----

// The function of a rule, on tensors of any size: global tensors or local shards.
class Operator {
 public:
  Operator(const FactorRule& rule, std::vector<std::int64_t> sizes) : rule_(rule), space_(std::span(sizes)) {
    is_monotone_ = std::ranges::any_of(rule.algebra, [](const Algebra& a) { return a.monotony != Monotony::kNone; });
  }

  std::vector<Values> run(std::span<const Values> inputs) const {
    Values all{space_, std::vector<Value>(static_cast<std::size_t>(space_.numel()))};
    for_each_index(space_, [&](const Index& index, std::size_t place) { all.list[place] = pointwise(inputs, index); });
    for (std::size_t f = 0; f < rule_.factors.size(); ++f) all = along(all, f);
    std::vector<Values> outputs;
    for (const OperandFactors& dims : rule_.outputs) outputs.push_back(reduce(all, dims));
    return outputs;
  }

 private:
  [[nodiscard]] Shape shape_of(const OperandFactors& dims) const {
    std::vector<std::int64_t> sizes;
    for (const DimFactors& dim : dims) {
      sizes.push_back(1);
      for (const std::int32_t f : dim) sizes.back() *= space_[static_cast<std::size_t>(f)];
    }
    return Shape(std::span<const std::int64_t>(sizes));
  }

  static Index index_in(const OperandFactors& dims, const Shape& space, const Index& index) {
    Index at;
    for (const DimFactors& dim : dims) {
      at.push_back(0);
      for (const std::int32_t f : dim) {
        const auto k = static_cast<std::size_t>(f);
        at.back() = at.back() * space[k] + index[k];
      }
    }
    return at;
  }

  // Linear and multilinear exactly as declared, or monotone as declared.
  [[nodiscard]] Value pointwise(std::span<const Values> inputs, const Index& index) const {
    Value product = 1;
    Value joint = 0;
    Value sum = 0;
    bool has_joint = false;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const Value x = inputs[i].list[place_of(inputs[i].shape, index_in(rule_.inputs[i], space_, index))];
      const Algebra algebra = rule_.algebra.empty() ? Algebra{} : rule_.algebra[i];
      const Value sign = algebra.monotony == Monotony::kDown ? -1 : 1;
      if (algebra.linearity == Linearity::kJoint) {
        has_joint = true;
        joint += sign * x;
        sum += sign * x;
      } else if (algebra.linearity == Linearity::kMulti) {
        product *= x;
      } else {
        product *= x * x + 1;
        sum += algebra.monotony == Monotony::kNone ? x * x : sign * x * x * x;
      }
    }
    if (is_monotone_) return sum;
    return has_joint ? product * joint : product;
  }

  // Effect of the operator along a factor that is neither passed nor reduced.
  [[nodiscard]] Values along(const Values& all, std::size_t f) const {
    const Factor& factor = rule_.factors[f];
    if (factor.kind == FactorKind::kPass || factor.kind == FactorKind::kReduce) return all;
    if (factor.kind == FactorKind::kReplicate && is_monotone_) return all;
    Values out{space_, std::vector<Value>(all.list.size())};
    for_each_index(space_, [&](const Index& index, std::size_t place) {
      Index from = index;
      if (factor.kind == FactorKind::kReplicate) {
        for (from[f] = 0; from[f] < space_[f]; ++from[f]) {
          out.list[place] += all.list[place_of(space_, from)] * (1 + (index[f] + 2 * from[f]) % 3);
        }
        return;
      }
      const std::int64_t block = factor.kind == FactorKind::kBlocked ? factor.block : space_[f];
      const std::int64_t start = index[f] / block * block;
      from[f] = start + std::min(start + block, space_[f]) - 1 - index[f];
      out.list[place] = all.list[place_of(space_, from)];
    });
    return out;
  }

  [[nodiscard]] Values reduce(const Values& all, const OperandFactors& dims) const {
    Reduction reduction = Reduction::kSum;
    for (std::size_t f = 0; f < rule_.factors.size(); ++f) {
      if (rule_.factors[f].kind == FactorKind::kReduce && !has(dims, f)) reduction = rule_.factors[f].reduction;
    }
    const Shape shape = shape_of(dims);
    Values out{shape, std::vector<Value>(static_cast<std::size_t>(shape.numel()), identity(reduction))};
    for_each_index(space_, [&](const Index& index, std::size_t place) {
      // the first factor that must not be sharded represents all
      for (std::size_t f = 0; f < rule_.factors.size(); ++f) {
        const bool is_whole =
            rule_.factors[f].kind == FactorKind::kReplicate || rule_.factors[f].kind == FactorKind::kPermuted;
        if (is_whole && index[f] > 0 && !has(dims, f)) return;
      }
      Value& to = out.list[place_of(shape, index_in(dims, space_, index))];
      to = combine(reduction, to, all.list[place]);
    });
    return out;
  }

  static bool has(const OperandFactors& dims, std::size_t f) {
    return std::ranges::any_of(
        dims, [f](const DimFactors& dim) { return std::ranges::find(dim, static_cast<std::int32_t>(f)) != dim.end(); });
  }

  const FactorRule& rule_;
  Shape space_;  // all factors
  bool is_monotone_ = false;
};

std::vector<Values> run(const FactorRule& rule, std::span<const Values> inputs, std::span<const Shape> outputs) {
  if (rule.name == "view") return {Values{outputs[0], inputs[0].list}};
  FactorRule open = rule;  // sizes in a rule are global
  for (Factor& factor : open.factors) factor.size = 0;
  std::vector<Shape> shapes;
  for (const Values& each : inputs) shapes.push_back(each.shape);
  if (std::ranges::all_of(outputs, [](const Shape& shape) { return shape.is_empty(); })) {
    std::vector<Values> nothing;  // a product of 0 does not determine its factors
    for (const Shape& shape : outputs) nothing.push_back({shape, {}});
    return nothing;
  }
  return Operator(rule, open.sizes(shapes, outputs)).run(inputs);
}

// ---- the shards of each rank ----

std::int64_t coordinate(const Mesh& mesh, const Coordinates& at, const SubAxis& by) {
  const std::int64_t after = mesh.axis(by.axis).size / by.before / by.size;
  return at[static_cast<std::size_t>(by.axis)] / after % by.size;
}

// Returns the partial value of a rank: the values along all partial axes reduce to the value.
Value partial_value(const Layout& layout, const Coordinates& at, Value value, std::uint64_t salt) {
  if (layout.partials().empty()) return value;
  std::int64_t mine = 0;
  std::int64_t count = 1;
  std::int64_t averaged = 1;
  for (const PartialAxis& partial : layout.partials()) {
    mine = mine * partial.by.size + coordinate(layout.mesh(), at, partial.by);
    count *= partial.by.size;
    if (partial.reduction == Reduction::kAvg) averaged *= partial.by.size;
  }
  const Reduction kind = layout.partials()[0].reduction;
  const auto noise = [salt](std::int64_t part) {
    return static_cast<Value>(mix(salt, static_cast<std::uint64_t>(part)) % 4);
  };
  const auto bearer = static_cast<std::int64_t>(mix(salt, 77) % static_cast<std::uint64_t>(count));
  switch (kind) {
    case Reduction::kMin: return mine == bearer ? value : value + noise(mine);
    case Reduction::kMax: return mine == bearer ? value : value - noise(mine);
    case Reduction::kProd: return mine == bearer ? value : 1;
    default: break;
  }
  if (mine != bearer) return noise(mine) - 2;
  Value rest = value * averaged;
  for (std::int64_t part = 0; part < count; ++part) rest -= part == bearer ? 0 : noise(part) - 2;
  return rest;
}

std::vector<IndexMap> maps_of(const Layout& layout, const Shape& shape, Rank rank) {
  std::vector<IndexMap> maps;
  for (int d = 0; d < shape.ndim(); ++d) maps.push_back(index_map(layout, shape, d, rank));
  return maps;
}

Values held_by(const Values& whole, const Layout& layout, Rank rank, std::uint64_t salt) {
  const auto maps = maps_of(layout, whole.shape, rank);
  const Coordinates at = layout.mesh().coordinates(rank);
  const Shape shape = local_shape(layout, whole.shape, rank);
  Values out{shape, std::vector<Value>(static_cast<std::size_t>(shape.numel()))};
  for_each_index(shape, [&](const Index& index, std::size_t place) {
    Index global(index.size());
    for (std::size_t d = 0; d < index.size(); ++d) global[d] = maps[d].global(index[d]);
    const std::size_t from = place_of(whole.shape, global);
    out.list[place] = partial_value(layout, at, whole.list[from], mix(salt, from));
  });
  return out;
}

// ---- the claim ----

struct Claim {
  const Layout& layout;
  const Values& whole;
  const std::vector<std::vector<Values>>& results;  // by index of the rank, then by output
  std::size_t output = 0;
};

// Returns the ranks that differ from this one only along partial axes.
std::vector<std::size_t> partial_group(const Layout& layout, const Coordinates& at) {
  const RankSet ranks = layout.mesh().ranks();
  std::vector<std::size_t> group;
  for (std::int64_t place = 0; place < ranks.size(); ++place) {
    const Coordinates other = layout.mesh().coordinates(ranks.at(place));
    bool is_in = true;
    for (std::int32_t axis = 0; axis < layout.mesh().ndim() && is_in; ++axis) {
      const std::int64_t size = layout.mesh().axis(axis).size;
      std::int64_t differs = other[static_cast<std::size_t>(axis)] - at[static_cast<std::size_t>(axis)];
      for (const PartialAxis& partial : layout.partials()) {
        if (partial.by.axis != axis) continue;
        const std::int64_t after = size / partial.by.before / partial.by.size;
        differs -= (coordinate(layout.mesh(), other, partial.by) - coordinate(layout.mesh(), at, partial.by)) * after;
      }
      is_in = differs == 0;
    }
    if (is_in) group.push_back(static_cast<std::size_t>(place));
  }
  return group;
}

std::string check_rank(const Claim& claim, std::size_t place) {
  const Layout& layout = claim.layout;
  const Rank rank = layout.mesh().ranks().at(static_cast<std::int64_t>(place));
  const Shape shape = local_shape(layout, claim.whole.shape, rank);
  const Values& mine = claim.results[place][claim.output];
  const auto where = [&] { return concat("output ", claim.output, " ", layout.placements_text(), ", rank ", rank); };
  if (mine.shape != shape || mine.list.size() != static_cast<std::size_t>(shape.numel())) {
    return concat(where(), ": shape ", mine.shape, " of ", mine.list.size(), " values, the layout gives ", shape);
  }
  const auto maps = maps_of(layout, claim.whole.shape, rank);
  const auto group = partial_group(layout, layout.mesh().coordinates(rank));
  std::int64_t averaged = 1;
  for (const PartialAxis& partial : layout.partials()) {
    if (partial.reduction == Reduction::kAvg) averaged *= partial.by.size;
  }
  std::string wrong;
  for_each_index(shape, [&](const Index& index, std::size_t at) {
    if (!wrong.empty()) return;
    Index global(index.size());
    for (std::size_t d = 0; d < index.size(); ++d) global[d] = maps[d].global(index[d]);
    const Value wanted = claim.whole.list[place_of(claim.whole.shape, global)];
    Value got = mine.list[at];
    if (!layout.partials().empty()) {
      const Reduction kind = layout.partials()[0].reduction;
      got = identity(kind);
      for (const std::size_t other : group) got = combine(kind, got, claim.results[other][claim.output].list[at]);
      if (got % averaged != 0) wrong = concat(where(), ": an average of ", averaged, " does not come out even");
      got /= averaged;
    }
    if (got != wanted) wrong = concat(where(), ", element ", global, ": must be ", wanted, ", got ", got);
  });
  return wrong;
}

}  // namespace

std::string check_values(const FactorRule& rule, std::span<const Operand> inputs, std::span<const Shape> outputs,
                         std::span<const Layout> claimed, std::uint64_t seed) {
  std::vector<Values> wholes;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Values& whole = wholes.emplace_back(Values{inputs[i].shape, {}});
    for_each_index(whole.shape, [&](const Index&, std::size_t place) {
      whole.list.push_back(static_cast<Value>(mix(mix(seed, i), place) % 13) - 6);
    });
  }
  const std::vector<Values> expected = run(rule, wholes, outputs);
  const Mesh& mesh = inputs[0].layout.mesh();
  std::vector<std::vector<Values>> results;
  for (std::int64_t place = 0; place < mesh.size(); ++place) {
    const Rank rank = mesh.ranks().at(place);
    std::vector<Values> held;
    std::vector<Shape> shapes;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      held.push_back(held_by(wholes[i], inputs[i].layout, rank, mix(seed, 1000 + i)));
    }
    for (std::size_t o = 0; o < outputs.size(); ++o) shapes.push_back(local_shape(claimed[o], outputs[o], rank));
    try {
      results.push_back(run(rule, held, shapes));
    } catch (const Error& error) {
      return concat("rank ", rank, " cannot run the call on its local shards: ", error.message());
    }
  }
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    for (std::size_t place = 0; place < results.size(); ++place) {
      std::string wrong = check_rank({claimed[o], expected[o], results, o}, place);
      if (!wrong.empty()) return wrong;
    }
  }
  return {};
}

}  // namespace tessera::layout::testing
