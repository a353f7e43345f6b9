#include "tessera/layout/detail/fix_choices.h"

#include <algorithm>
#include <bit>

#include "tessera/base/error.h"
#include "tessera/layout/detail/sharding_lists.h"

namespace tessera::layout::detail {
namespace {

constexpr std::size_t kMaxSubsets = 6;  // inputs whose averages are tried in every combination

std::uint32_t atoms_in(const AtomDim& shardings) {
  std::uint32_t atoms = 0;
  for (const AtomSharding& sharding : shardings.shardings) atoms |= std::uint32_t{1} << sharding.atom;
  return atoms;
}

class RowMaker {
 public:
  RowMaker(const FactorCall& call, std::size_t atom, bool with_refused, std::vector<RowChoice>& out)
      : call_(call), atom_(atom), with_refused_(with_refused), out_(out) {}

  void make() {
    add({});
    FactorSet factors = 0;
    for (std::size_t i = 0; i < call_.inputs().size(); ++i) factors |= call_.factors_of(i);
    for (std::size_t f = 0; f < call_.rule().factors.size(); ++f) {
      if ((factors >> f & 1) == 0) continue;
      const FactorKind kind = call_.rule().factors[f].kind;
      std::string why;
      if (kind == FactorKind::kReplicate || kind == FactorKind::kPermuted) {
        static_cast<void>(call_.may_shard(static_cast<std::int32_t>(f), {}, why));
      }
      AtomRow row;
      row.factor = static_cast<std::int32_t>(f);
      add(row, why);
    }
    for (const Reduction kind :
         {Reduction::kSum, Reduction::kAvg, Reduction::kMin, Reduction::kMax, Reduction::kProd}) {
      const auto holders = inputs_with(kind);
      if (!holders.empty()) add_partials(kind, holders);
    }
  }

  // Keeps the atom unused.
  void leave_out() { add({}); }

  [[nodiscard]] bool is_used() const {
    for (std::size_t i = 0; i < call_.inputs().size(); ++i) {
      if (!call_.layout(i) || call_.layout(i)->uses[atom_].kind != AtomUse::Kind::kNothing) return true;
    }
    return false;
  }

 private:
  using Inputs = SmallVector<std::int32_t, 4>;

  void add(AtomRow row, std::string refused = {}) {
    if (!refused.empty() && !with_refused_) return;
    const auto known = std::ranges::find_if(out_, [&](const RowChoice& each) { return each.row == row; });
    if (known == out_.end()) out_.push_back({std::move(row), std::move(refused)});
  }

  // Reads the layouts themselves: an input without a form over the factors may still be partial.
  [[nodiscard]] Inputs inputs_with(Reduction kind) const {
    const SubAxis& part = call_.atoms().list[atom_];
    Inputs out;
    for (std::size_t i = 0; i < call_.inputs().size(); ++i) {
      for (const PartialAxis& partial : call_.inputs()[i].layout.partials()) {
        if (partial.by.axis != part.axis || partial.reduction != kind) continue;
        if (part.before < partial.by.before || part.before * part.size > partial.by.before * partial.by.size) continue;
        out.push_back(static_cast<std::int32_t>(i));
      }
    }
    return out;
  }

  void add_flow(const Inputs& partial, Reduction kind) {
    AtomRow row;
    row.partial = partial;
    row.kind = kind;
    std::string why;
    const auto out = call_.flow(partial, kind, why);
    row.out = out.value_or(kind);
    add(std::move(row), std::move(why));
  }

  void add_partials(Reduction kind, const Inputs& holders) {
    add_flow(holders, kind);  // as it is
    const auto& algebra = call_.rule().algebra;
    Inputs joint;
    for (std::size_t i = 0; i < algebra.size(); ++i) {
      if (algebra[i].linearity == Linearity::kJoint) joint.push_back(static_cast<std::int32_t>(i));
    }
    for (std::size_t i = 0; i < algebra.size(); ++i) {
      const bool is_linear = kind == Reduction::kSum || kind == Reduction::kAvg;
      const bool passes =
          is_linear ? algebra[i].linearity == Linearity::kMulti : algebra[i].monotony != Monotony::kNone;
      if (passes && kind != Reduction::kProd) add_flow({static_cast<std::int32_t>(i)}, kind);
    }
    if (kind == Reduction::kSum && !joint.empty()) add_flow(joint, kind);
    if (kind == Reduction::kAvg) add_subsets(joint.size() <= kMaxSubsets ? joint : holders);
  }

  void add_subsets(const Inputs& inputs) {
    if (inputs.size() > kMaxSubsets) return;
    for (std::uint32_t set = 1; set < (std::uint32_t{1} << inputs.size()); ++set) {
      Inputs some;
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        if ((set >> i & 1) != 0) some.push_back(inputs[i]);
      }
      add_flow(some, Reduction::kAvg);
    }
  }

  const FactorCall& call_;
  std::size_t atom_;
  bool with_refused_;
  std::vector<RowChoice>& out_;
};

}  // namespace

std::vector<std::vector<RowChoice>> row_choices(const FactorCall& call, bool with_refused) {
  const std::size_t atoms = call.atoms().list.size();
  std::vector<std::vector<RowChoice>> out(atoms);
  for (std::size_t a = 0; a < atoms; ++a) {
    RowMaker maker(call, a, with_refused, out[a]);
    if (atoms > kMaxInPlay && !maker.is_used()) {
      maker.leave_out();
    } else {
      maker.make();
    }
  }
  return out;
}

ListPool::ListPool(const FactorCall& call)
    : lists_(call.rule().factors.size(), std::vector<AtomDim>(1)),
      given_(call.rule().factors.size()),
      by_atoms_(call.rule().factors.size()) {
  for (std::size_t f = 0; f < lists_.size(); ++f) {
    for (std::size_t i = 0; i < call.inputs().size(); ++i) {
      if (!call.layout(i) || (call.factors_of(i) >> f & 1) == 0) continue;
      const AtomDim& shardings = call.layout(i)->shardings[f];
      if (std::ranges::find(lists_[f], shardings) == lists_[f].end()) lists_[f].push_back(shardings);
    }
    given_[f] = lists_[f].size();
    by_atoms_[f][0] = {0};
  }
}

std::uint16_t ListPool::number_of(std::size_t factor, const AtomDim& shardings) const {
  const auto found = std::ranges::find(lists_[factor], shardings);
  return static_cast<std::uint16_t>(found - lists_[factor].begin());
}

const std::vector<std::uint16_t>& ListPool::of(std::size_t factor, std::uint32_t atoms) {
  const auto [place, is_new] = by_atoms_[factor].try_emplace(atoms);
  std::vector<std::uint16_t>& numbers = place->second;
  if (!is_new) return numbers;
  std::vector<AtomDim>& lists = lists_[factor];
  for (std::size_t n = 0; n < given_[factor]; ++n) {
    if (atoms_in(lists[n]) == atoms) numbers.push_back(static_cast<std::uint16_t>(n));
  }
  const std::size_t given = numbers.size();
  SmallVector<std::int32_t, 12> order;
  for (std::uint32_t rest = atoms; rest != 0; rest &= rest - 1) order.push_back(std::countr_zero(rest));
  std::int32_t* const first = &order[0];
  do {
    AtomDim shardings;
    for (const std::int32_t atom : order) shardings.shardings.push_back({atom, 1});
    const bool is_given = std::any_of(numbers.begin(), numbers.begin() + static_cast<std::ptrdiff_t>(given),
                                      [&](std::uint16_t n) { return lists[n] == shardings; });
    if (is_given) continue;
    numbers.push_back(static_cast<std::uint16_t>(lists.size()));
    lists.push_back(std::move(shardings));
  } while (std::next_permutation(first, first + order.size()) && order.size() <= kMaxInPlay);
  return numbers;
}

}  // namespace tessera::layout::detail
