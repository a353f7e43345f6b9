#include "tessera/layout/testing/step_definition.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <span>
#include <vector>

namespace tessera::layout::testing {
namespace {

using detail::AtomDim;
using detail::AtomLayout;
using detail::AtomSharding;

std::int64_t up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

bool same_sizes(const AtomDim& a, const AtomDim& b) {
  if (!a.sizes || !b.sizes) return !a.sizes && !b.sizes;
  return *a.sizes == *b.sizes;
}

// Extent of the largest chunk, and whether all splits so far were even.
struct Extent {
  std::int64_t largest;
  bool even;
};

Extent extent(const Setting& s, const AtomDim& dim, std::int64_t n) {
  Extent e{n, true};
  for (std::size_t i = 0; i < dim.shardings.size(); ++i) {
    const std::int64_t size = s.atoms.size(dim.shardings[i].atom);
    const std::int64_t before = e.largest;
    if (i == 0 && dim.sizes) {
      e.largest = *std::max_element(dim.sizes->begin(), dim.sizes->end());
    } else {
      const std::int64_t blocks = dim.shardings[i].blocks;
      e.largest = blocks * up(before / blocks, size);
    }
    e.even = e.even && e.largest * size == before;
  }
  return e;
}

// Returns the splits of `longer` after those of `shorter`, or nothing if it is not a prefix.
std::optional<std::vector<AtomSharding>> behind(const AtomDim& shorter, const AtomDim& longer) {
  if (shorter.shardings.size() > longer.shardings.size()) return std::nullopt;
  if (!shorter.shardings.empty() && !same_sizes(shorter, longer)) return std::nullopt;
  if (!std::equal(shorter.shardings.begin(), shorter.shardings.end(), longer.shardings.begin())) return std::nullopt;
  return std::vector<AtomSharding>(longer.shardings.begin() + shorter.shardings.size(), longer.shardings.end());
}

std::vector<AtomSharding> tail(const AtomDim& dim, std::size_t from) {
  return std::vector<AtomSharding>(dim.shardings.begin() + from, dim.shardings.end());
}

std::size_t common(const AtomDim& a, const AtomDim& b) {
  std::size_t n = 0;
  if (!same_sizes(a, b)) return 0;
  while (n < a.shardings.size() && n < b.shardings.size() && a.shardings[n] == b.shardings[n]) ++n;
  return n;
}

// Returns true if splits from `from` have blocks or explicit sizes, or follow a split with blocks.
bool is_special(const AtomDim& dim, std::size_t from) {
  if (from >= dim.shardings.size()) return false;
  for (const AtomSharding& sharding : dim.shardings) {
    if (sharding.blocks != 1) return true;
  }
  return from == 0 && dim.sizes;
}

double ranks(const Setting& s, const std::vector<AtomSharding>& shardings) {
  double n = 1;
  for (const AtomSharding& sharding : shardings) n *= static_cast<double>(s.atoms.size(sharding.atom));
  return n;
}

// Properties of a pair of states.
struct Pair {
  const Setting& s;
  const DescribedState& from;
  const DescribedState& to;
  const AtomLayout& a = from.layout;
  const AtomLayout& b = to.layout;
  double old_numel = from.numel;
  double new_numel = to.numel;
  std::vector<std::size_t> differing = {};
  std::set<std::int32_t> folded = {};
  std::set<std::int32_t> made = {};
  std::optional<DefinedStep> best = {};

  void offer(StepKind kind, const std::set<std::int32_t>& group, double hops, double elements, double copied) {
    const double item = static_cast<double>(s.itemsize);
    double us = 0;
    if (communicates(kind)) {
      double latency = 0;
      double slowest = 1e300;
      for (const std::int32_t atom : group) {
        const LinkCost& link = s.model.of(s.atoms.mesh.axis(s.atoms.list[static_cast<std::size_t>(atom)].axis));
        latency = std::max(latency, link.latency_us);
        slowest = std::min(slowest, link.gigabytes_per_s);
      }
      us = s.model.launch_us + hops * latency + elements * item / (slowest * 1e3);
    }
    if (!communicates(kind) || copied > 0)
      us += s.model.copy_launch_us + copied * item / (s.model.copy_gigabytes_per_s * 1e3);
    if (!best || us < best->us) best = DefinedStep{kind, elements * item, us};
  }

  // Returns true if the chunks of dimension d, split by `sharding` after
  // `later_shardings` splits, are adjacent in a shard of `whole`.
  [[nodiscard]] static bool lies_outermost(const DescribedState& whole, std::size_t d, const DescribedState& sharding,
                                           std::size_t later_shardings) {
    if (is_special(sharding.layout.dims[d], later_shardings) || !sharding.is_even[d]) return false;
    for (std::size_t i = 0; i < d; ++i) {
      if (whole.extents[i] > 1) return false;
    }
    return true;
  }

  void local_and_collective() {
    if (differing.size() == 1) {
      const std::size_t d = differing[0];
      const AtomDim& x = a.dims[d];
      const AtomDim& y = b.dims[d];
      if (const auto gathered = behind(y, x)) {
        const double count = ranks(s, *gathered);
        offer(StepKind::kAllGather, group_of(*gathered), count - 1, (count - 1) * old_numel,
              lies_outermost(to, d, from, y.shardings.size()) ? 0 : new_numel);
      }
      if (const auto sharding = behind(x, y)) offer(StepKind::kSlice, group_of(*sharding), 0, 0, new_numel);
    }
    if (differing.size() != 2) return;
    for (const auto& [p, q] : {std::pair(differing[0], differing[1]), std::pair(differing[1], differing[0])}) {
      const auto left = behind(b.dims[p], a.dims[p]);
      const auto joined = behind(a.dims[q], b.dims[q]);
      if (!left || !joined ||
          !std::equal(left->begin(), left->end(), joined->begin(), joined->end(),
                      [](const AtomSharding& u, const AtomSharding& v) { return u.atom == v.atom; })) {
        continue;
      }
      const double count = ranks(s, *left);
      const auto old_extent = static_cast<double>(from.extents[q]);
      const auto new_extent = static_cast<double>(to.extents[q]);
      const double message = old_numel == 0 ? 0 : old_numel / old_extent * new_extent;
      const double pack = lies_outermost(from, q, to, a.dims[q].shardings.size()) ? 0 : old_numel;
      const double unpack = lies_outermost(to, p, from, b.dims[p].shardings.size()) ? 0 : new_numel;
      offer(StepKind::kAllToAll, group_of(*left), count - 1, (count - 1) * message, pack + unpack);
    }
  }

  static std::set<std::int32_t> group_of(const std::vector<AtomSharding>& shardings) {
    std::set<std::int32_t> atoms;
    for (const AtomSharding& sharding : shardings) atoms.insert(sharding.atom);
    return atoms;
  }

  // Returns true if both have the same chunks on other ranks.
  [[nodiscard]] bool has_same_pieces(std::size_t d) const {
    const AtomDim& x = a.dims[d];
    const AtomDim& y = b.dims[d];
    const std::size_t start = common(x, y);
    if (!is_special(x, start) && !is_special(y, start) && from.is_even[d] && to.is_even[d])
      return ranks(s, tail(x, start)) == ranks(s, tail(y, start));
    if (x.shardings.size() != y.shardings.size()) return false;
    if (start == 0 && !same_sizes(x, y)) return false;
    for (std::size_t i = start; i < x.shardings.size(); ++i) {
      if (s.atoms.size(x.shardings[i].atom) != s.atoms.size(y.shardings[i].atom) ||
          x.shardings[i].blocks != y.shardings[i].blocks)
        return false;
    }
    return true;
  }

  // Returns the number of old chunks that a new chunk intersects, by trying all new ones if splits are even.
  [[nodiscard]] double met(std::size_t d) const {
    const AtomDim& x = a.dims[d];
    const AtomDim& y = b.dims[d];
    const std::size_t start = common(x, y);
    const auto before = static_cast<std::int64_t>(ranks(s, tail(x, start)));
    const auto after = static_cast<std::int64_t>(ranks(s, tail(y, start)));
    if (behind(x, y)) return 1;
    if (behind(y, x) || is_special(x, start) || is_special(y, start)) return static_cast<double>(before);
    std::int64_t most = 0;
    for (std::int64_t j = 0; j < after; ++j) {  // chunk j of a range of before * after units
      const std::int64_t first = j * before / after;
      const std::int64_t last = ((j + 1) * before - 1) / after;
      most = std::max(most, last - first + 1);
    }
    return static_cast<double>(most);
  }

  void exchange() {
    double kept = 1;
    double pieces = 1;
    bool all_same = true;
    bool nested = false;
    std::set<std::int32_t> group;
    for (std::size_t d = 0; d < a.dims.size(); ++d) {
      const auto x = static_cast<double>(from.extents[d]);
      const auto y = static_cast<double>(to.extents[d]);
      if (a.dims[d] == b.dims[d]) {
        kept *= y;
        continue;
      }
      const std::size_t start = common(a.dims[d], b.dims[d]);
      group.merge(group_of(tail(a.dims[d], start)));
      group.merge(group_of(tail(b.dims[d], start)));
      pieces *= met(d);
      if (behind(a.dims[d], b.dims[d])) {
        kept *= y;
        nested = true;
      } else if (const auto gathered = behind(b.dims[d], a.dims[d])) {
        kept *= std::max(0.0, y - x * (ranks(s, *gathered) - 1));
        nested = true;
      } else {
        kept = 0;
        all_same = all_same && has_same_pieces(d);
      }
    }
    if (all_same && !nested) offer(StepKind::kPermute, group, 1, new_numel, 0);
    const double received = new_numel - kept;
    offer(StepKind::kBoxExchange, group, pieces - (kept > 0 ? 1 : 0), received, received + new_numel);
  }

  void fold() {
    double count = 1;
    for (const std::int32_t atom : folded) count *= static_cast<double>(s.atoms.size(atom));
    if (differing.empty()) {
      offer(StepKind::kAllReduce, folded, 2 * (count - 1), 2 * (count - 1) * std::ceil(old_numel / count), 0);
      return;
    }
    std::set<std::int32_t> sharding;
    for (const std::size_t d : differing) {
      const auto joined = behind(a.dims[d], b.dims[d]);
      if (!joined) return;
      sharding.merge(group_of(*joined));
    }
    if (sharding != folded) return;
    const std::size_t d = differing[0];
    const bool is_free = differing.size() == 1 && lies_outermost(from, d, to, a.dims[d].shardings.size());
    offer(StepKind::kReduceScatter, folded, count - 1, (count - 1) * new_numel, is_free ? 0 : old_numel);
  }

  void make_partial() {
    if (differing.empty()) {
      offer(StepKind::kPartition, made, 0, 0, new_numel);
      return;
    }
    if (differing.size() != 1) return;
    const auto left = behind(b.dims[differing[0]], a.dims[differing[0]]);
    if (!left || group_of(*left) != made) return;
    for (const std::int32_t atom : made) {
      if (b.partials[static_cast<std::size_t>(atom)] != Reduction::kSum) return;
    }
    offer(StepKind::kZeroFill, made, 0, 0, new_numel);
  }
};

}  // namespace

double part_numel(const Setting& setting, const AtomLayout& layout) {
  double numel = 1;
  for (std::size_t d = 0; d < layout.dims.size(); ++d)
    numel *= static_cast<double>(extent(setting, layout.dims[d], setting.shape[d]).largest);
  return numel;
}

DescribedState describe(const Setting& setting, const AtomLayout& layout) {
  DescribedState state{layout};
  for (std::size_t d = 0; d < layout.dims.size(); ++d) {
    const Extent found = extent(setting, layout.dims[d], setting.shape[d]);
    state.extents.push_back(found.largest);
    state.is_even.push_back(found.even);
    state.numel *= static_cast<double>(found.largest);
  }
  return state;
}

std::optional<DefinedStep> defined_step(const Setting& setting, const DescribedState& from, const DescribedState& to) {
  Pair pair{setting, from, to};
  const AtomLayout& a = from.layout;
  const AtomLayout& b = to.layout;
  for (std::size_t d = 0; d < a.dims.size(); ++d) {
    if (!(a.dims[d] == b.dims[d])) pair.differing.push_back(d);
  }
  for (std::size_t i = 0; i < a.partials.size(); ++i) {
    if (a.partials[i] == b.partials[i]) continue;
    if (a.partials[i] && b.partials[i]) return std::nullopt;
    (a.partials[i] ? pair.folded : pair.made).insert(static_cast<std::int32_t>(i));
  }
  if (!pair.folded.empty() && !pair.made.empty()) return std::nullopt;
  if (!pair.folded.empty()) {
    pair.fold();
  } else if (!pair.made.empty()) {
    pair.make_partial();
  } else if (!pair.differing.empty()) {
    pair.local_and_collective();
    pair.exchange();
  }
  return pair.best;
}

}  // namespace tessera::layout::testing
