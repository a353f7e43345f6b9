// The combinations of layouts that a rule admits. On a mesh of one axis all are checked. A rule with one factor per
// dimension treats each axis independently, so that on a mesh of several axes only combinations of admitted rows per
// axis are checked. For views, all combinations are checked.
#include <algorithm>
#include <cmath>
#include <memory>

#include "tessera/base/error.h"
#include "tessera/layout/arithmetic.h"
#include "tessera/ops/testing/validator_subject.h"

namespace tessera::ops::testing {
namespace {

using layout::Layout;
using layout::Mesh;
using layout::Placement;

constexpr std::size_t kMaxAsked = 20000;  // combinations of a sample on one mesh
constexpr std::size_t kDrawn = 1000;      // selected if there are more

double product_of(const std::vector<std::size_t>& counts) {
  double all = 1;
  for (const std::size_t count : counts) all *= static_cast<double>(count);
  return all;
}

// Calls body(digits) for every combination with one of each of `counts`; above kMaxAsked, for a random selection.
template <class Body>
void for_each_choice(const std::vector<std::size_t>& counts, Random& random, Body&& body) {
  const double all = product_of(counts);
  if (all == 0) return;
  std::vector<std::size_t> choice(counts.size(), 0);
  if (all > static_cast<double>(kMaxAsked)) {
    for (std::size_t n = 0; n < kDrawn; ++n) {
      for (std::size_t i = 0; i < choice.size(); ++i) choice[i] = random() % counts[i];
      body(choice);
    }
    return;
  }
  while (true) {
    body(choice);
    std::size_t i = 0;
    while (i < choice.size() && ++choice[i] == counts[i]) choice[i++] = 0;
    if (i == choice.size()) return;
  }
}

bool can_mix_all(const std::vector<Placement>& placements) {
  for (const Placement& a : placements) {
    for (const Placement& b : placements) {
      if (a.kind != Placement::Kind::kPartial || b.kind != Placement::Kind::kPartial) continue;
      if (!layout::can_mix(a.reduction, b.reduction)) return false;
    }
  }
  return true;
}

// Returns the layout of each input from one row per axis; nullopt if an input would be partial in two ways.
std::optional<std::vector<Layout>> layouts_of(const Subject& subject, const Mesh& mesh,
                                              const std::vector<const Row*>& rows) {
  std::vector<Layout> out;
  for (std::size_t i = 0; i < subject.inputs().size(); ++i) {
    std::vector<Placement> placements;
    for (const Row* row : rows) placements.push_back((*row)[i]);
    if (!can_mix_all(placements)) return std::nullopt;
    out.push_back(subject.has(i) ? Layout::create(mesh, placements) : Layout());
  }
  return out;
}

// Returns the rows that the rule itself describes: each factor sharded, each input partial alone, all linear inputs
// partial together. Used if there are too many inputs to check all rows.
std::vector<Row> rows_by_rule(const Subject& subject) {
  const RuleOperands& operands = *subject.rule();
  const Row nothing(subject.inputs().size(), layout::Replicate());
  std::vector<Row> rows = {nothing};
  for (std::size_t f = 0; f < operands.rule.factors.size(); ++f) {
    Row& row = rows.emplace_back(nothing);
    for (std::size_t k = 0; k < operands.inputs.size(); ++k) {
      const auto& dims = operands.rule.inputs[k];
      for (std::size_t d = 0; d < dims.size(); ++d) {
        const bool is_here = !dims[d].empty() && dims[d][0] == static_cast<std::int32_t>(f);
        if (is_here) row[operands.inputs[k]] = layout::Shard(static_cast<int>(d));
      }
    }
  }
  for (const Reduction kind : {Reduction::kSum, Reduction::kAvg, Reduction::kMin, Reduction::kMax}) {
    Row joint = nothing;
    for (std::size_t k = 0; k < operands.rule.algebra.size(); ++k) {
      Row alone = nothing;
      alone[operands.inputs[k]] = layout::Partial(kind);
      rows.push_back(std::move(alone));
      const bool is_joint = operands.rule.algebra[k].linearity == layout::Linearity::kJoint;
      if (is_joint) joint[operands.inputs[k]] = layout::Partial(kind);
    }
    rows.push_back(std::move(joint));
  }
  return rows;
}

// Returns true if a dimension has several factors, and its layouts are few enough to check all.
bool is_small_compound(const Subject& subject, const Mesh& mesh) {
  double all = 1;
  for (const Whole& input : subject.inputs()) {
    all *= std::pow(static_cast<double>(placements_of(input).size()), mesh.ndim());
  }
  if (all > static_cast<double>(kMaxAsked)) return false;
  for (const auto& operand : subject.rule()->rule.inputs) {
    for (const auto& dim : operand) {
      if (dim.size() > 1) return true;
    }
  }
  return false;
}

// Returns the combination with the order of axes reversed for every dimension that several axes shard.
std::optional<Combination> in_other_order(const Subject& subject, const Combination& of) {
  std::vector<Layout> inputs;
  bool is_other = false;
  for (const Layout& each : of.inputs) {
    if (!each) {
      inputs.push_back(each);
      continue;
    }
    layout::LayoutParts parts = each.parts();
    for (layout::DimShardings& dim : parts.dims) {
      is_other |= dim.shardings.size() > 1;
      std::ranges::reverse(dim.shardings);
    }
    inputs.push_back(Layout::create(of.mesh(), std::move(parts)));
  }
  return is_other ? subject.admitted(std::move(inputs), of.mesh()) : std::nullopt;
}

constexpr int kPieces = 3;

// Changes the shards of a dimension: all elements on the last rank, one element on the first rank and the rest on the
// last, or two blocks. Returns false if the dimension has no such shards.
bool take_pieces(layout::DimShardings& dim, std::int64_t size, std::int64_t ranks, int variant) {
  if (variant == 2) {
    dim.shardings[0].blocks = 2;
    return size % 2 == 0;
  }
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(ranks), 0);
  sizes.back() = size;
  if (variant == 1 && size > 1) {
    sizes.front() = 1;
    sizes.back() = size - 1;
  }
  dim.sizes = std::make_shared<const std::vector<std::int64_t>>(std::move(sizes));
  return true;
}

// Returns the combination with other shards, on a mesh of one axis.
std::optional<Combination> with_pieces(const Subject& subject, const Combination& of, int variant) {
  std::vector<Layout> inputs = of.inputs;
  bool is_other = false;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i]) continue;
    layout::LayoutParts parts = inputs[i].parts();
    for (std::size_t d = 0; d < parts.dims.size(); ++d) {
      if (parts.dims[d].shardings.empty()) continue;
      is_other = true;
      if (!take_pieces(parts.dims[d], subject.inputs()[i].shape[d], of.mesh().size(), variant)) return std::nullopt;
    }
    inputs[i] = Layout::create(of.mesh(), std::move(parts));
  }
  return is_other ? subject.admitted(std::move(inputs), of.mesh()) : std::nullopt;
}

std::vector<Combination> combinations_of_rows(const Subject& subject, const Mesh& mesh, Random& random) {
  std::vector<std::vector<Row>> rows;
  for (const layout::Axis& axis : mesh.axes()) rows.push_back(admitted_rows(subject, axis.size, random));
  const bool is_multiset = mesh.ndim() > 2;  // its axes are equivalent, so the order does not matter
  std::vector<std::size_t> counts;
  for (const auto& each : rows) counts.push_back(each.size());
  std::vector<Combination> out;
  for_each_choice(counts, random, [&](const std::vector<std::size_t>& choice) {
    if (is_multiset && !std::ranges::is_sorted(choice)) return;
    std::vector<const Row*> chosen;
    for (std::size_t a = 0; a < choice.size(); ++a) chosen.push_back(&rows[a][choice[a]]);
    auto layouts = layouts_of(subject, mesh, chosen);
    if (!layouts) return;
    if (auto found = subject.admitted(std::move(*layouts), mesh)) out.push_back(std::move(*found));
  });
  return out;
}

void keep_some(std::vector<Combination>& list, std::size_t most, Random& random) {
  if (list.size() <= most) return;
  std::shuffle(list.begin(), list.end(), random);
  list.resize(most);
}

// For an operator without inputs: its result in every layout.
std::vector<Combination> layouts_of_result(const Subject& subject, const Mesh& mesh, Random& random) {
  std::vector<Placement> placements = {layout::Replicate()};
  for (int d = 0; d < subject.outputs()[0].shape.ndim(); ++d) placements.push_back(layout::Shard(d));
  std::vector<Combination> out;
  const std::vector<std::size_t> counts(static_cast<std::size_t>(mesh.ndim()), placements.size());
  for_each_choice(counts, random, [&](const std::vector<std::size_t>& choice) {
    std::vector<Placement> chosen;
    for (const std::size_t which : choice) chosen.push_back(placements[which]);
    const std::vector<Layout> outputs(subject.outputs().size(), Layout::create(mesh, chosen));
    out.push_back({{}, outputs});
  });
  if (mesh.ndim() > 1) return out;
  for (std::size_t d = 0; d < subject.outputs()[0].shape.size(); ++d) {
    for (int variant = 0; variant < kPieces; ++variant) {
      layout::LayoutParts parts = out[d + 1].outputs[0].parts();
      if (!take_pieces(parts.dims[d], subject.outputs()[0].shape[d], mesh.size(), variant)) continue;
      out.push_back({{}, std::vector<Layout>(subject.outputs().size(), Layout::create(mesh, std::move(parts)))});
    }
  }
  return out;
}

}  // namespace

std::vector<Placement> placements_of(const Whole& input) {
  std::vector<Placement> out = {layout::Replicate()};
  for (int d = 0; d < input.shape.ndim(); ++d) out.push_back(layout::Shard(d));
  if (!is_signed(input.dtype) && input.dtype != DType::kBool) return out;  // partial values of unsigned sums would wrap
  for (const Reduction kind : {Reduction::kSum, Reduction::kAvg, Reduction::kMin, Reduction::kMax, Reduction::kProd}) {
    if (input.dtype == DType::kBool && (kind == Reduction::kSum || kind == Reduction::kAvg)) continue;
    out.push_back(layout::Partial(kind));
  }
  return out;
}

std::vector<Row> admitted_rows(const Subject& subject, std::int64_t size, Random& random) {
  const Mesh mesh = Mesh::create({{"x", size}});
  std::vector<Row> choices;  // by input
  std::vector<std::size_t> counts;
  for (std::size_t i = 0; i < subject.inputs().size(); ++i) {
    choices.push_back(subject.has(i) ? placements_of(subject.inputs()[i]) : Row{layout::Replicate()});
    counts.push_back(choices.back().size());
  }
  std::vector<Row> rows;
  const auto ask = [&](const Row& row) {
    auto layouts = layouts_of(subject, mesh, {&row});
    if (subject.admitted(std::move(*layouts), mesh) && std::ranges::find(rows, row) == rows.end()) rows.push_back(row);
  };
  for (const Row& row : rows_by_rule(subject)) {
    bool is_sensible = true;  // consistent with placements_of()
    for (std::size_t i = 0; i < row.size(); ++i)
      is_sensible &= std::ranges::find(choices[i], row[i]) != choices[i].end();
    if (is_sensible) ask(row);
  }
  for_each_choice(counts, random, [&](const std::vector<std::size_t>& choice) {
    Row row;
    for (std::size_t i = 0; i < choice.size(); ++i) row.push_back(choices[i][choice[i]]);
    ask(row);
  });
  return rows;
}

std::vector<Combination> all_combinations(const Subject& subject, const Mesh& mesh) {
  std::vector<std::vector<Layout>> choices;  // by input
  std::vector<std::size_t> counts;
  Random random(1);
  for (std::size_t i = 0; i < subject.inputs().size(); ++i) {
    std::vector<Layout>& layouts = choices.emplace_back();
    const auto placements = subject.has(i) ? placements_of(subject.inputs()[i]) : Row{layout::Replicate()};
    const std::vector<std::size_t> axes(static_cast<std::size_t>(mesh.ndim()), placements.size());
    for_each_choice(axes, random, [&](const std::vector<std::size_t>& choice) {
      std::vector<Placement> chosen;
      for (const std::size_t which : choice) chosen.push_back(placements[which]);
      if (can_mix_all(chosen)) layouts.push_back(subject.has(i) ? Layout::create(mesh, chosen) : Layout());
    });
    counts.push_back(layouts.size());
  }
  std::vector<Combination> out;
  for_each_choice(counts, random, [&](const std::vector<std::size_t>& choice) {
    std::vector<Layout> inputs;
    for (std::size_t i = 0; i < choice.size(); ++i) inputs.push_back(choices[i][choice[i]]);
    if (auto found = subject.admitted(std::move(inputs), mesh)) out.push_back(std::move(*found));
  });
  return out;
}

Combinations admitted_combinations(const Subject& subject, const Mesh& mesh, std::size_t most, Random& random) {
  Combinations out;
  if (subject.rule() == nullptr) {
    out.list = layouts_of_result(subject, mesh, random);
  } else if (mesh.ndim() == 2 && is_small_compound(subject, mesh)) {
    out.list = all_combinations(subject, mesh);
  } else {
    out.list = combinations_of_rows(subject, mesh, random);
  }
  const std::size_t plain = out.list.size();
  for (std::size_t c = 0; c < plain && subject.rule() != nullptr; ++c) {
    for (int variant = 0; mesh.ndim() == 1 && variant < kPieces; ++variant) {
      if (auto found = with_pieces(subject, out.list[c], variant)) out.list.push_back(std::move(*found));
    }
    if (mesh.ndim() == 2) {
      if (auto found = in_other_order(subject, out.list[c])) out.list.push_back(std::move(*found));
    }
  }
  out.admitted = static_cast<std::int64_t>(out.list.size());
  if (mesh.ndim() > 1) keep_some(out.list, most, random);
  return out;
}

}  // namespace tessera::ops::testing
