#include "tessera/layout/detail/input_moves.h"

#include <algorithm>
#include <limits>

#include "tessera/base/error.h"

namespace tessera::layout::detail {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kMaxPlaces = 200000;  // a larger table costs more than it saves

AtomUse use_in(const AtomRow& row, std::size_t input, FactorSet factors) {
  if (row.factor >= 0 && (factors >> row.factor & 1) != 0) return {AtomUse::Kind::kShard, Reduction::kSum, row.factor};
  if (std::ranges::find(row.partial, static_cast<std::int32_t>(input)) != row.partial.end()) {
    return {AtomUse::Kind::kPartial, row.kind, -1};
  }
  return {};
}

std::optional<AtomLayout> over_atoms(const FactorCall& call, std::size_t input) {
  std::string why;
  return to_atoms(call.atoms(), call.inputs()[input].layout, call.inputs()[input].shape, why);
}

}  // namespace

InputMoves::InputMoves(const FactorCall& call, std::size_t input, const std::vector<std::vector<RowChoice>>& rows,
                       ListPool& pool, Planner& planner)
    : call_(call),
      input_(input),
      rows_(rows),
      pool_(pool),
      planner_(planner),
      uses_(rows.size()),
      use_of_row_(rows.size()),
      bounds_(call.atoms(), over_atoms(call, input), call.inputs()[input].shape, call.inputs()[input].itemsize,
              planner.model()) {
  for (const DimFactors& dim : call.rule().inputs[input]) {
    for (const std::int32_t f : dim) factors_.push_back(static_cast<std::size_t>(f));
  }
  if (call.layout(input)) {
    for (std::size_t f = 0; f < call.rule().factors.size(); ++f) {
      const bool has = (call.factors_of(input) >> f & 1) != 0;
      now_.push_back(has ? pool.number_of(f, call.layout(input)->shardings[f]) : 0);
    }
  }
  double places = 1;
  for (std::size_t a = 0; a < rows.size(); ++a) {
    for (const RowChoice& each : rows[a]) {
      const AtomUse use = use_in(each.row, input, call.factors_of(input));
      const auto known = std::ranges::find(uses_[a], use);
      use_of_row_[a].push_back(static_cast<std::uint16_t>(known - uses_[a].begin()));
      if (known == uses_[a].end()) uses_[a].push_back(use);
    }
    places *= static_cast<double>(uses_[a].size() + 1);
  }
  if (places > kMaxPlaces) return;
  std::size_t size = 1;
  for (std::size_t a = 0; a <= rows.size(); ++a) {
    min_.emplace_back(size, kNever);
    if (a < rows.size()) size *= uses_[a].size();
  }
  Choice choice;
  choice.lists.assign(std::vector<std::uint16_t>(call.rule().factors.size(), 0));
  std::vector<std::uint32_t> atoms_of(call.rule().factors.size(), 0);
  fill(0, 0, choice, atoms_of);
}

// Depth-first over the uses of the atoms; one row represents all rows with the same effect on this input.
void InputMoves::fill(std::size_t depth, std::uint32_t place, Choice& choice, std::vector<std::uint32_t>& atoms_of) {
  double& least = min_[depth][place];
  if (depth == rows_.size()) {
    least = min_of_lists(choice, atoms_of, 0);
    return;
  }
  choice.rows.push_back(0);
  for (std::size_t u = 0; u < uses_[depth].size(); ++u) {
    const auto row = std::ranges::find(use_of_row_[depth], static_cast<std::uint16_t>(u));
    choice.rows[depth] = static_cast<std::uint16_t>(row - use_of_row_[depth].begin());
    const AtomUse& use = uses_[depth][u];
    const std::uint32_t bit = use.kind == AtomUse::Kind::kShard ? std::uint32_t{1} << depth : 0;
    if (bit != 0) atoms_of[static_cast<std::size_t>(use.factor)] |= bit;
    const auto at = static_cast<std::uint32_t>(place * uses_[depth].size() + u);
    fill(depth + 1, at, choice, atoms_of);
    if (bit != 0) atoms_of[static_cast<std::size_t>(use.factor)] &= ~bit;
    least = std::min(least, min_[depth + 1][at]);
  }
  SmallVector<std::uint16_t, 8> shorter;
  shorter.append({choice.rows.data(), depth});
  choice.rows = shorter;
}

double InputMoves::min_of_lists(Choice& choice, const std::vector<std::uint32_t>& atoms_of, std::size_t next_factor) {
  while (next_factor < factors_.size() && atoms_of[factors_[next_factor]] == 0) {
    choice.lists[factors_[next_factor]] = 0;
    ++next_factor;
  }
  if (next_factor == factors_.size()) return find(choice).cost.us;
  double least = kNever;
  const std::size_t f = factors_[next_factor];
  for (const std::uint16_t list : pool_.of(f, atoms_of[f])) {
    choice.lists[f] = list;
    least = std::min(least, min_of_lists(choice, atoms_of, next_factor + 1));
  }
  return least;
}

bool InputMoves::stays(const Choice& choice) const {
  if (now_.empty()) return false;
  for (const std::size_t f : factors_) {
    if (choice.lists[f] != now_[f]) return false;
  }
  for (std::size_t a = 0; a < rows_.size(); ++a) {
    const AtomUse& use = uses_[a][use_of_row_[a][choice.rows[a]]];
    const AtomUse& now = call_.layout(input_)->uses[a];
    const bool is_partial = now.kind == AtomUse::Kind::kPartial;
    if ((use.kind == AtomUse::Kind::kPartial) != is_partial) return false;
    if (is_partial && use.reduction != now.reduction) return false;
  }
  return true;
}

bool InputMoves::layout_over_atoms(const Choice& choice, AtomLayout& out) const {
  const OperandFactors& dims = call_.rule().inputs[input_];
  out.dims.resize(dims.size());
  out.partials.assign(rows_.size(), std::nullopt);
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (dims[d].size() == 1) {
      const auto f = static_cast<std::size_t>(dims[d][0]);
      out.dims[d] = pool_.list(f, choice.lists[f]);
      continue;
    }
    out.dims[d] = {};
    SmallVector<const AtomDim*, 8> shardings;
    SmallVector<SizedFactor, 8> factors;
    for (const std::int32_t factor : dims[d]) {
      const auto f = static_cast<std::size_t>(factor);
      shardings.push_back(&pool_.list(f, choice.lists[f]));
      factors.push_back({call_.rule().factors[f].name, call_.sizes()[f]});
    }
    std::string why;
    if (!merge_shardings(call_.atoms(), shardings, factors, out.dims[d], why)) return false;
  }
  for (std::size_t a = 0; a < rows_.size(); ++a) {
    const AtomUse& use = uses_[a][use_of_row_[a][choice.rows[a]]];
    if (use.kind == AtomUse::Kind::kPartial) out.partials[a] = use.reduction;
  }
  return true;
}

MoveTarget& InputMoves::find(const Choice& choice) {
  std::u16string key;
  for (const std::size_t f : factors_) key.push_back(choice.lists[f]);
  for (std::size_t a = 0; a < rows_.size(); ++a) {
    const std::uint16_t index = use_of_row_[a][choice.rows[a]];
    if (uses_[a][index].kind != AtomUse::Kind::kPartial) continue;
    key.push_back(static_cast<char16_t>(a));
    key.push_back(index);
  }
  const auto [place, is_new] = targets_.try_emplace(key);
  MoveTarget& target = place->second;
  if (!is_new) return target;
  if (stays(choice)) {
    target.stays = true;
    return target;
  }
  std::optional<Reduction> first;
  bool is_possible = layout_over_atoms(choice, scratch_);
  for (const auto& partial : scratch_.partials) {  // a layout is partial under one reduction only
    if (!partial) continue;
    if (first && !can_mix(*first, *partial)) is_possible = false;
    first = partial;
  }
  target.cost = is_possible ? bounds_.least(scratch_) : MoveCost{kNever, true};
  return target;
}

Layout InputMoves::layout(const Choice& choice) {
  if (find(choice).stays) return call_.inputs()[input_].layout;
  AtomLayout over_atoms;
  layout_over_atoms(choice, over_atoms);
  return from_atoms(call_.atoms(), over_atoms, call_.inputs()[input_].shape);
}

bool InputMoves::refine(const Choice& choice, bool may_plan) {
  MoveTarget& target = find(choice);
  if (target.cost.is_exact) return false;
  if (!target.is_sharp) {
    target.is_sharp = true;
    layout_over_atoms(choice, scratch_);
    target.cost = bounds_.sharpen(scratch_);
    return false;
  }
  if (!may_plan && target.cost.known_us > 0) {
    target.cost = {target.cost.known_us, true};
    return false;
  }
  make_plan(choice);
  return true;
}

const MoveTarget& InputMoves::make_plan(const Choice& choice) {
  MoveTarget& target = find(choice);
  if (target.stays || target.plan || target.cost.us == kNever) return target;
  const Operand& input = call_.inputs()[input_];
  try {
    target.plan = planner_.plan({input.layout, layout(choice), input.shape, input.itemsize, 0});
    target.cost = {target.plan->us, true};
  } catch (const Error&) {  // no plan exists: no common atoms, or too many axes differ
    target.cost = {kNever, true};
  }
  return target;
}

}  // namespace tessera::layout::detail
