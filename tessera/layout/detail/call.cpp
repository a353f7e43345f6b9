#include "tessera/layout/detail/call.h"

#include <algorithm>

#include "tessera/base/error.h"

namespace tessera::layout::detail {
namespace {

using tessera::detail::concat;

FactorSet bit(std::int32_t factor) { return FactorSet{1} << factor; }

Reduction swapped(Reduction reduction) { return reduction == Reduction::kMin ? Reduction::kMax : Reduction::kMin; }

// Returns the factors of a dimension with names and sizes.
SmallVector<SizedFactor, 4> sized(const FactorRule& rule, std::span<const std::int64_t> sizes, const DimFactors& dim) {
  SmallVector<SizedFactor, 4> out;
  for (const std::int32_t f : dim) {
    out.push_back({rule.factors[static_cast<std::size_t>(f)].name, sizes[static_cast<std::size_t>(f)]});
  }
  return out;
}

std::string names(std::span<const std::int32_t> inputs) {
  std::string out = inputs.size() == 1 ? "input " : "inputs ";
  for (std::size_t i = 0; i < inputs.size(); ++i) out += concat(i > 0 ? ", " : "", inputs[i]);
  return out;
}

}  // namespace

FactorSet factor_set(const OperandFactors& dims) {
  FactorSet set = 0;
  for (const DimFactors& dim : dims) {
    for (const std::int32_t f : dim) set |= bit(f);
  }
  return set;
}

FactorCall::FactorCall(const FactorRule& rule, std::span<const Operand> inputs, std::span<const Shape> outputs)
    : rule_(rule), inputs_(inputs), outputs_(outputs) {
  rule.check();
  std::vector<Shape> shapes;
  shapes.reserve(inputs.size());
  for (const Operand& input : inputs) shapes.push_back(input.shape);
  sizes_ = rule.sizes(shapes, outputs);
  TESSERA_CHECK(!inputs.empty(), rule.name, ": propagation requires at least one input");
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    TESSERA_CHECK(static_cast<bool>(inputs[i].layout), rule.name, ": input ", i, " has no layout");
    TESSERA_CHECK(inputs[i].layout.mesh() == inputs[0].layout.mesh(), rule.name, ": inputs must be on one mesh, got ",
                  inputs[i].layout.mesh().text(), " for input ", i, " and ", inputs[0].layout.mesh().text(),
                  " for input 0; redistribute one of them first");
    in_inputs_.push_back(factor_set(rule.inputs[i]));
  }
  read_inputs();
}

void FactorCall::read_inputs() {
  // Inputs with common atoms. Of inputs without common atoms, the later ones are excluded.
  std::vector<Layout> nesting;
  nesting.reserve(inputs_.size());
  for (const Operand& input : inputs_) nesting.push_back(input.layout);
  std::string do_not_nest;
  auto found = atoms_of(nesting, do_not_nest);
  if (!found) {
    nesting.clear();
    for (const Operand& input : inputs_) {
      nesting.push_back(input.layout);
      std::string ignored;
      if (auto more = atoms_of(nesting, ignored)) {
        found = std::move(more);
      } else {
        nesting.pop_back();
      }
    }
  }
  atoms_ = std::move(*found);
  unread_ = do_not_nest;
  // An axis that splits two factors is read as two sub-axes.
  for (AtomSplit split; !read_over_atoms(split); split = {}) {
    const auto at = atoms_.list.begin() + split.atom;
    const SubAxis rest{at->axis, at->before * split.size, at->size / split.size};
    at->size = split.size;
    atoms_.list.insert(at + 1, rest);
    unread_ = do_not_nest;
  }
}

// Returns false if an atom must be split first.
bool FactorCall::read_over_atoms(AtomSplit& split) {
  layouts_.assign(inputs_.size(), std::nullopt);
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    std::string why;
    if (auto over_atoms = to_atoms(atoms_, inputs_[i].layout, inputs_[i].shape, why)) {
      FactorLayout& out = layouts_[i].emplace();
      if (read_input(*over_atoms, i, out, split, why)) continue;
      layouts_[i].reset();
      if (split.atom >= 0) return false;
    }
    if (unread_.empty()) unread_ = concat(input_name(i), ": ", why);
  }
  return true;
}

bool FactorCall::read_input(const AtomLayout& layout, std::size_t input, FactorLayout& out, AtomSplit& split,
                            std::string& why) const {
  out.shardings.resize(rule_.factors.size());
  out.uses.resize(atoms_.list.size());
  std::vector<AtomDim> into;
  for (std::size_t d = 0; d < layout.dims.size(); ++d) {
    if (layout.dims[d].shardings.empty()) continue;
    const DimFactors& dim = rule_.inputs[input][d];
    into.assign(dim.size(), {});
    const auto factors = sized(rule_, sizes_, dim);
    if (!split_shardings(atoms_, layout.dims[d], factors, into, split, why)) {
      why = concat("dimension ", d, ": ", why);
      return false;
    }
    for (std::size_t k = 0; k < dim.size(); ++k) {
      for (const AtomSharding& sharding : into[k].shardings) {
        out.uses[static_cast<std::size_t>(sharding.atom)] = {AtomUse::Kind::kShard, Reduction::kSum, dim[k]};
      }
      out.shardings[static_cast<std::size_t>(dim[k])] = std::move(into[k]);
    }
  }
  for (std::size_t a = 0; a < layout.partials.size(); ++a) {
    if (layout.partials[a]) out.uses[a] = {AtomUse::Kind::kPartial, *layout.partials[a], -1};
  }
  return true;
}

std::string FactorCall::input_name(std::size_t input) const {
  return concat("input ", input, " ", inputs_[input].layout.placements_text());
}

std::string FactorCall::dim_name(std::int32_t factor, std::size_t input) const {
  const OperandFactors& dims = rule_.inputs[input];
  std::size_t dim = 0;
  while (dim < dims.size() && std::ranges::find(dims[dim], factor) == dims[dim].end()) ++dim;
  const bool is_shared = dim < dims.size() && dims[dim].size() > 1;  // the dimension has other factors too
  return concat("dimension ", dim, is_shared ? " (" + rule_.factors[static_cast<std::size_t>(factor)].name + ")" : "",
                " of ", input_name(input));
}

SmallVector<std::int32_t, 8> FactorCall::joint_inputs() const {
  SmallVector<std::int32_t, 8> out;
  for (std::size_t i = 0; i < rule_.algebra.size(); ++i) {
    if (rule_.algebra[i].linearity == Linearity::kJoint) out.push_back(static_cast<std::int32_t>(i));
  }
  return out;
}

std::optional<Reduction> FactorCall::flow(std::span<const std::int32_t> partial, Reduction kind,
                                          std::string& why) const {
  const auto algebra = [this](std::int32_t input) {
    return rule_.algebra.empty() ? Algebra{} : rule_.algebra[static_cast<std::size_t>(input)];
  };
  if (kind == Reduction::kProd) {
    why = concat("partial products (", names(partial), ") cannot pass through an operator");
    return std::nullopt;
  }
  if (kind == Reduction::kSum || kind == Reduction::kAvg) {
    const bool is_joint =
        std::ranges::all_of(partial, [&](std::int32_t input) { return algebra(input).linearity == Linearity::kJoint; });
    if (is_joint) {
      const auto joint = joint_inputs();
      if (kind == Reduction::kAvg || partial.size() == joint.size()) return kind;
      why = concat(rule_.name, " requires partial sums in all or none of ", names(joint), ", but only ", names(partial),
                   partial.size() == 1 ? " is" : " are", " partial");
      return std::nullopt;
    }
    if (partial.size() == 1 && algebra(partial[0]).linearity == Linearity::kMulti) return kind;
    why = partial.size() == 1 ? concat(rule_.name, " is not linear in ", names(partial))
                              : concat(rule_.name, " is not linear in ", names(partial), " together");
    return std::nullopt;
  }
  const Monotony monotony = algebra(partial[0]).monotony;
  if (partial.size() > 1 || monotony == Monotony::kNone) {
    why = partial.size() > 1 ? concat(kind, " passes through one input at a time, but ", names(partial), " are partial")
                             : concat(rule_.name, " is not monotone in ", names(partial));
    return std::nullopt;
  }
  const Reduction out = monotony == Monotony::kUp ? kind : swapped(kind);
  for (std::size_t f = 0; f < rule_.factors.size(); ++f) {
    const Factor& factor = rule_.factors[f];
    if (factor.kind != FactorKind::kReduce || factor.reduction == out) continue;
    const bool is_kept = std::ranges::all_of(
        rule_.outputs, [&](const auto& dims) { return (factor_set(dims) & bit(static_cast<std::int32_t>(f))) != 0; });
    if (is_kept) continue;
    why = concat(kind, " does not pass through ", factor.reduction, " over ", factor.name);
    return std::nullopt;
  }
  return out;
}

bool FactorCall::may_shard(std::int32_t factor, const AtomDim& shardings, std::string& why) const {
  const auto f = static_cast<std::size_t>(factor);
  const Factor& it = rule_.factors[f];
  if (it.kind == FactorKind::kReplicate) {
    const bool is_kept = std::ranges::any_of(
        rule_.outputs, [&](const OperandFactors& dims) { return (factor_set(dims) & bit(factor)) != 0; });
    why = concat("factor ", it.name, " (", sizes_[f],
                 ") cannot be sharded: ", is_kept ? rule_.name + " requires all of it" : "no result has it");
    return false;
  }
  if (it.kind == FactorKind::kPermuted) {
    why = concat("factor ", it.name, " (", sizes_[f], ") cannot be sharded: ", rule_.name, " reorders along it");
    return false;
  }
  if (it.kind == FactorKind::kBlocked && !is_sharded_in_blocks(atoms_, shardings, sizes_[f], it.block)) {
    why = concat("factor ", it.name, " (", sizes_[f], ") can be sharded only in multiples of ", it.block);
    return false;
  }
  return true;
}

bool FactorCall::match_atom(std::int32_t atom, AtomRow& row, std::string& why) const {
  std::size_t first = inputs_.size();  // the first input that is sharded or partial
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const AtomUse& use = layouts_[i]->uses[static_cast<std::size_t>(atom)];
    if (use.kind == AtomUse::Kind::kNothing) continue;
    if (first == inputs_.size()) first = i;
    const AtomUse& head = layouts_[first]->uses[static_cast<std::size_t>(atom)];
    const auto does = [this](const AtomUse& it, std::size_t input) {
      return it.kind == AtomUse::Kind::kShard ? concat("shards ", dim_name(it.factor, input))
                                              : concat("is partial (", it.reduction, ") in ", input_name(input));
    };
    if (!(use == head)) {
      why = concat(atom_name(atoms_, atom), " ", does(head, first), " and ", does(use, i));
      return false;
    }
    if (use.kind == AtomUse::Kind::kShard) {
      row.factor = use.factor;
    } else {
      row.partial.push_back(static_cast<std::int32_t>(i));
      row.kind = use.reduction;
    }
  }
  if (row.factor >= 0) {
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if ((in_inputs_[i] & bit(row.factor)) == 0) continue;
      if (layouts_[i]->uses[static_cast<std::size_t>(atom)].kind == AtomUse::Kind::kShard) continue;
      why = concat(atom_name(atoms_, atom), " shards ", dim_name(row.factor, first), ", but not ",
                   dim_name(row.factor, i));
      return false;
    }
  } else if (!row.partial.empty()) {
    const auto out = flow(row.partial, row.kind, why);
    if (!out) {
      why =
          concat(atom_name(atoms_, atom), ": ", input_name(first), " is partial (", row.kind, ") along it, but ", why);
      return false;
    }
    row.out = *out;
  }
  return true;
}

bool FactorCall::match_factor(std::int32_t factor, AtomDim& shardings, std::string& why) const {
  const auto f = static_cast<std::size_t>(factor);
  const AtomDim* head = nullptr;
  std::size_t first = 0;
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    if ((in_inputs_[i] & bit(factor)) == 0) continue;
    const AtomDim& each = layouts_[i]->shardings[f];
    if (head == nullptr) {
      head = &each;
      first = i;
    } else if (!(each == *head)) {
      why = concat(atom_name(atoms_, head->shardings[0].atom),
                   head->shardings.size() > 1 ? " and others shard" : " shards", " factor ", rule_.factors[f].name,
                   " (", sizes_[f], ") differently in ", input_name(first), " than in ", input_name(i));
      return false;
    }
  }
  if (head == nullptr || head->shardings.empty()) return true;
  if (!may_shard(factor, *head, why)) {
    why = concat(atom_name(atoms_, head->shardings[0].atom), " shards factor ", rule_.factors[f].name, " in ",
                 input_name(first), ", but ", why);
    return false;
  }
  shardings = *head;
  return true;
}

std::optional<Assignment> FactorCall::match(std::string& why) const {
  if (!unread_.empty()) {
    why = unread_;
    return std::nullopt;
  }
  Assignment out;
  out.rows.resize(atoms_.list.size());
  out.shardings.resize(rule_.factors.size());
  for (std::size_t a = 0; a < out.rows.size(); ++a) {
    if (!match_atom(static_cast<std::int32_t>(a), out.rows[a], why)) return std::nullopt;
  }
  for (std::size_t f = 0; f < out.shardings.size(); ++f) {
    if (!match_factor(static_cast<std::int32_t>(f), out.shardings[f], why)) return std::nullopt;
  }
  return out;
}

bool FactorCall::merge_operand(const OperandFactors& dims, const Assignment& assignment, AtomLayout& out,
                               std::string& why) const {
  out.dims.resize(dims.size());
  out.partials.resize(atoms_.list.size());
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (dims[d].size() == 1) {
      out.dims[d] = assignment.shardings[static_cast<std::size_t>(dims[d][0])];
      continue;
    }
    SmallVector<const AtomDim*, 8> shardings;
    for (const std::int32_t f : dims[d]) shardings.push_back(&assignment.shardings[static_cast<std::size_t>(f)]);
    const auto factors = sized(rule_, sizes_, dims[d]);
    if (!merge_shardings(atoms_, shardings, factors, out.dims[d], why)) {
      why = concat("dimension ", d, ": ", why);
      return false;
    }
  }
  return true;
}

std::optional<AtomLayout> FactorCall::input_under(const Assignment& assignment, std::size_t input,
                                                  std::string& why) const {
  AtomLayout out;
  if (!merge_operand(rule_.inputs[input], assignment, out, why)) {
    why = concat("input ", input, ", ", why);
    return std::nullopt;
  }
  for (std::size_t a = 0; a < assignment.rows.size(); ++a) {
    const AtomRow& row = assignment.rows[a];
    if (std::ranges::find(row.partial, static_cast<std::int32_t>(input)) != row.partial.end()) {
      out.partials[a] = row.kind;
    }
  }
  return out;
}

std::optional<std::vector<AtomLayout>> FactorCall::outputs_over_atoms(const Assignment& assignment,
                                                                      std::string& why) const {
  std::vector<AtomLayout> layouts(outputs_.size());
  for (std::size_t o = 0; o < outputs_.size(); ++o) {
    AtomLayout& out = layouts[o];
    if (!merge_operand(rule_.outputs[o], assignment, out, why)) {
      why = concat("output ", o, ", ", why);
      return std::nullopt;
    }
    const FactorSet has = factor_set(rule_.outputs[o]);
    std::optional<Reduction> first;
    for (std::size_t a = 0; a < assignment.rows.size(); ++a) {
      const AtomRow& row = assignment.rows[a];
      if (row.factor >= 0 && (has & bit(row.factor)) == 0) {
        const Factor& lacking = rule_.factors[static_cast<std::size_t>(row.factor)];
        if (lacking.kind == FactorKind::kReduce) out.partials[a] = lacking.reduction;
      } else if (!row.partial.empty()) {
        out.partials[a] = row.out;
      }
      if (!out.partials[a]) continue;
      if (!first) first = out.partials[a];
      if (!can_mix(*first, *out.partials[a])) {
        why = concat("output ", o, " would be partial in ", *first, " and, along ",
                     atom_name(atoms_, static_cast<std::int32_t>(a)), ", in ", *out.partials[a]);
        return std::nullopt;
      }
    }
  }
  return layouts;
}

std::optional<std::vector<Layout>> FactorCall::outputs_under(const Assignment& assignment, std::string& why) const {
  const auto over_atoms = outputs_over_atoms(assignment, why);
  if (!over_atoms) return std::nullopt;
  std::vector<Layout> layouts;
  layouts.reserve(outputs_.size());
  for (std::size_t o = 0; o < outputs_.size(); ++o) {
    layouts.push_back(from_atoms(atoms_, (*over_atoms)[o], outputs_[o]));
  }
  return layouts;
}

}  // namespace tessera::layout::detail
