#include "tessera/layout/testing/exhaustive_propagation.h"

#include <algorithm>
#include <set>
#include <string>
#include <tuple>

#include "tessera/base/error.h"

namespace tessera::layout::testing {
namespace {

struct Costed {
  Layout layout;
  double us = 0;
  bool stays = false;
};

class Enumeration {
 public:
  Enumeration(const FactorRule& rule, std::span<const Operand> inputs, std::span<const Shape> outputs, Planner& planner,
              std::size_t most)
      : rule_(rule), inputs_(inputs), outputs_(outputs), planner_(planner), max_(most) {}

  std::vector<ExhaustiveFix> run() {
    find_kinds();
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      all_.emplace_back();
      LayoutParts parts;
      parts.dims.resize(inputs_[i].shape.size());
      add_layouts(i, 0, parts);
      std::ranges::stable_sort(all_[i], {}, &Costed::us);
    }
    combine({});
    return std::move(best_);
  }

 private:
  const Mesh& mesh() const { return inputs_[0].layout.mesh(); }

  void find_kinds() {
    kinds_.resize(static_cast<std::size_t>(mesh().ndim()));
    for (const Operand& input : inputs_) {
      for (const PartialAxis& partial : input.layout.partials()) {
        kinds_[static_cast<std::size_t>(partial.by.axis)].insert(partial.reduction);
      }
    }
  }

  // Adds every layout over the axes from `axis`; an axis takes any position in the list of any dimension.
  void add_layouts(std::size_t input, std::int32_t axis, LayoutParts& parts) {
    if (axis == mesh().ndim()) {
      add(input, parts);
      return;
    }
    add_layouts(input, axis + 1, parts);
    const SubAxis by{axis, 1, mesh().axis(axis).size};
    if (by.size == 1) return;
    for (const Reduction kind : kinds_[static_cast<std::size_t>(axis)]) {
      parts.partials.push_back({by, kind});
      add_layouts(input, axis + 1, parts);
      parts.partials.pop_back();
    }
    for (DimShardings& dim : parts.dims) {
      for (std::size_t at = 0; at <= dim.shardings.size(); ++at) {
        dim.shardings.insert(dim.shardings.begin() + static_cast<std::ptrdiff_t>(at), Sharding{by, 1});
        add_layouts(input, axis + 1, parts);
        dim.shardings.erase(dim.shardings.begin() + static_cast<std::ptrdiff_t>(at));
      }
    }
  }

  void add(std::size_t input, const LayoutParts& parts) {
    const Operand& from = inputs_[input];
    Layout to;
    try {
      to = Layout::create(mesh(), parts);
    } catch (const InvalidArgument&) {  // mixed reductions
      return;
    }
    if (to == from.layout) {
      all_[input].push_back({to, 0, true});
    } else {
      all_[input].push_back({to, planner_.plan({from.layout, to, from.shape, from.itemsize, 0})->us, false});
    }
  }

  void combine(const ExhaustiveFix& so_far) {
    const std::size_t i = so_far.inputs.size();
    if (i == inputs_.size()) {
      offer(so_far);
      return;
    }
    for (const Costed& each : all_[i]) {
      if (best_.size() == max_ && so_far.us + each.us > best_.back().us) return;  // all further ones cost more
      ExhaustiveFix more = so_far;
      more.inputs.push_back(each.layout);
      more.us += each.us;
      more.moved += each.stays ? 0 : 1;
      combine(more);
    }
  }

  static std::string text(const ExhaustiveFix& fix) {
    std::string out;
    for (const Layout& layout : fix.inputs) out += layout.placements_text();
    return out;
  }

  void offer(const ExhaustiveFix& fix) {
    std::vector<Operand> moved(inputs_.begin(), inputs_.end());
    for (std::size_t i = 0; i < moved.size(); ++i) moved[i].layout = fix.inputs[i];
    if (!propagate(rule_, moved, outputs_).is_match()) return;
    best_.push_back(fix);
    std::ranges::stable_sort(best_, [](const ExhaustiveFix& a, const ExhaustiveFix& b) {
      return std::tuple(a.us, a.moved, text(a)) < std::tuple(b.us, b.moved, text(b));
    });
    if (best_.size() > max_) best_.pop_back();
  }

  const FactorRule& rule_;
  std::span<const Operand> inputs_;
  std::span<const Shape> outputs_;
  Planner& planner_;
  std::size_t max_;
  std::vector<std::set<Reduction>> kinds_;  // by axis
  std::vector<std::vector<Costed>> all_;    // by input, the cheapest first
  std::vector<ExhaustiveFix> best_;
};

}  // namespace

std::vector<ExhaustiveFix> exhaustive_fixes(const FactorRule& rule, std::span<const Operand> inputs,
                                            std::span<const Shape> outputs, Planner& planner, std::size_t most) {
  return Enumeration(rule, inputs, outputs, planner, most).run();
}

}  // namespace tessera::layout::testing
