// The factor rule of a view. Both shapes are the same run of elements, so their dimensions are read in parallel from
// the major end. If one size divides the other, the smaller is a common factor; otherwise their greatest common divisor
// is. From there to the next common boundary, the same is done from the minor end, and the remainder of each dimension
// is a separate factor that must not be sharded:
//
//   [12,8] -> [16,6]     (a b),(c d) -> (a e),(f d)     a = 4, d = 2; b, c, e, f replicate
#include <algorithm>
#include <numeric>

#include "tessera/base/error.h"
#include "tessera/layout/factor_rule.h"

namespace tessera::layout {
namespace {

class ViewBuilder {
 public:
  ViewBuilder(const Shape& from, const Shape& to) {
    rule_.name = "view";
    rule_.inputs.resize(1);
    rule_.outputs.resize(1);
    rule_.algebra = {{Linearity::kJoint, Monotony::kUp}};  // a view only moves values
    start(sides_[0], from);
    start(sides_[1], to);
  }

  FactorRule build(bool is_empty) {
    if (is_empty) {
      match_equal_ends();
    } else {
      while (skip_done()) meet();
    }
    return finish();
  }

 private:
  // Per dimension: the remainder without factors, and the factors found from the major and the minor end.
  struct Dim {
    std::int64_t rest = 1;
    DimFactors major;
    DimFactors minor;  // from the minor end inward
  };
  struct Side {
    std::vector<Dim> dims;
    std::size_t at = 0;
  };

  static void start(Side& side, const Shape& shape) {
    for (const std::int64_t size : shape) side.dims.push_back({size, {}, {}});
  }

  std::int32_t add_factor(std::int64_t size, FactorKind kind) {
    rule_.factors.push_back({.name = {}, .kind = kind, .size = size});
    return static_cast<std::int32_t>(rule_.factors.size() - 1);
  }

  // Skips dimensions that are used up. Returns false if both sides are done.
  bool skip_done() {
    for (Side& side : sides_) {
      while (side.at < side.dims.size() && side.dims[side.at].rest == 1) ++side.at;
    }
    return sides_[0].at < sides_[0].dims.size() && sides_[1].at < sides_[1].dims.size();
  }

  void meet() {
    Dim& a = sides_[0].dims[sides_[0].at];
    Dim& b = sides_[1].dims[sides_[1].at];
    const std::int64_t common = std::gcd(a.rest, b.rest);
    const bool divides = common == a.rest || common == b.rest;
    if (common > 1) {
      const std::int32_t f = add_factor(common, FactorKind::kPass);
      a.major.push_back(f);
      b.major.push_back(f);
      a.rest /= common;
      b.rest /= common;
    }
    if (!divides) close_knot();
  }

  // The shapes do not meet here: neither of the current remainders divides the other.
  void close_knot() {
    std::size_t end[2] = {sides_[0].at, sides_[1].at};
    std::int64_t product[2] = {sides_[0].dims[end[0]].rest, sides_[1].dims[end[1]].rest};
    while (product[0] != product[1]) {
      const int shorter = product[0] < product[1] ? 0 : 1;
      product[shorter] *= sides_[shorter].dims[++end[shorter]].rest;  // both reach the same product, so the loop ends
    }
    std::size_t last[2] = {end[0], end[1]};
    while (true) {
      for (int s = 0; s < 2; ++s) {
        while (last[s] > sides_[s].at && sides_[s].dims[last[s]].rest == 1) --last[s];
      }
      Dim& a = sides_[0].dims[last[0]];
      Dim& b = sides_[1].dims[last[1]];
      const std::int64_t common = std::gcd(a.rest, b.rest);
      if (common == 1) break;
      const std::int32_t f = add_factor(common, FactorKind::kPass);
      a.minor.push_back(f);
      b.minor.push_back(f);
      a.rest /= common;
      b.rest /= common;
    }
    for (int s = 0; s < 2; ++s) {
      for (std::size_t d = sides_[s].at; d <= end[s]; ++d) keep_whole(sides_[s].dims[d]);
      sides_[s].at = end[s] + 1;
    }
  }

  void keep_whole(Dim& dim) {
    if (dim.rest == 1) return;
    dim.major.push_back(add_factor(dim.rest, FactorKind::kReplicate));
    dim.rest = 1;
  }

  // Empty shapes are all views of each other, and products are 0: equal dimensions, counted from either end, are the
  // same factor; others must not be sharded.
  void match_equal_ends() {
    auto& from = sides_[0].dims;
    auto& to = sides_[1].dims;
    std::size_t lead = 0;
    std::ptrdiff_t tail = 0;
    const std::size_t most = std::min(from.size(), to.size());
    for (; lead < most && from[lead].rest == to[lead].rest; ++lead) share(from[lead], to[lead]);
    for (; lead + static_cast<std::size_t>(tail) < most && from.rbegin()[tail].rest == to.rbegin()[tail].rest; ++tail) {
      share(from.rbegin()[tail], to.rbegin()[tail]);
    }
    for (Side& side : sides_) {
      for (Dim& dim : side.dims) {
        if (dim.major.empty() && dim.rest != 1) dim.major.push_back(add_factor(dim.rest, FactorKind::kReplicate));
      }
    }
  }

  void share(Dim& a, Dim& b) {
    if (a.rest == 1) return;
    const std::int32_t f = add_factor(a.rest, FactorKind::kPass);
    a.major.push_back(f);
    b.major.push_back(f);
  }

  // Names the factors a, b, ... in the order of the shapes.
  FactorRule finish() {
    std::vector<Factor> named;
    std::vector<std::int32_t> place_of(rule_.factors.size(), -1);
    for (int s = 0; s < 2; ++s) {
      OperandFactors& dims = s == 0 ? rule_.inputs[0] : rule_.outputs[0];
      for (Dim& dim : sides_[s].dims) {
        for (std::size_t i = dim.minor.size(); i > 0; --i) dim.major.push_back(dim.minor[i - 1]);
        DimFactors& factors = dims.emplace_back();
        for (const std::int32_t f : dim.major) {
          std::int32_t& place = place_of[static_cast<std::size_t>(f)];
          if (place < 0) {
            place = static_cast<std::int32_t>(named.size());
            named.push_back(rule_.factors[static_cast<std::size_t>(f)]);
            named.back().name = std::string(1, static_cast<char>('a' + place % 26));
            if (place >= 26) named.back().name += std::to_string(place / 26);
          }
          factors.push_back(place);
        }
      }
    }
    rule_.factors = std::move(named);
    return std::move(rule_);
  }

  FactorRule rule_;
  Side sides_[2];
};

}  // namespace

FactorRule view_rule(const Shape& from, const Shape& to) {
  TESSERA_CHECK(from.numel() == to.numel(), "view: shape ", to, " must have as many elements as ", from, " (",
                from.numel(), "), got ", to.numel());
  return ViewBuilder(from, to).build(from.is_empty());
}

}  // namespace tessera::layout
