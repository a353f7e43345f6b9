#include "tessera/layout/testing/plan_interpreter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "tessera/layout/arithmetic.h"

namespace tessera::layout::testing {
namespace {

constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();

bool is_close(double a, double b) { return std::abs(a - b) <= 1e-9 * (1 + std::abs(a) + std::abs(b)); }

double neutral(Reduction reduction) { return reduction == Reduction::kProd ? 1 : 0; }

double reduce(double a, double b, Reduction reduction) {
  switch (reduction) {
    case Reduction::kMin: return std::min(a, b);
    case Reduction::kMax: return std::max(a, b);
    case Reduction::kProd: return a * b;
    default: return a + b;
  }
}

class Interpreter {
 public:
  Interpreter(const Plan& plan, std::uint64_t seed)
      : plan_(plan), mesh_(plan.request.from.mesh()), shape_(plan.request.shape), random_(seed) {
    numel_ = static_cast<std::size_t>(shape_.numel());
    for (std::int64_t place = 0; place < mesh_.size(); ++place) {
      ranks_.push_back(mesh_.ranks().at(place));
      coordinates_.push_back(mesh_.coordinates(ranks_.back()));
    }
  }

  std::string run() {
    for (std::size_t i = 0; i < numel_; ++i) truth_.push_back(static_cast<double>(random_() % 97) + 2);
    fill(plan_.request.from);
    Layout at = plan_.request.from;
    for (const Step& step : plan_.steps) {
      if (step.before != at) return fail(step, "does not begin where the one before ended");
      at = step.after;
      const std::string problem = execute(step);
      if (!problem.empty()) return fail(step, problem);
    }
    if (at != plan_.request.to && !plan_.steps.empty()) return "the last step does not end at the target";
    return check_end();
  }

 private:
  using Table = std::vector<double>;

  [[nodiscard]] std::string fail(const Step& step, const std::string& what) const {
    return fmt::format("{} {} -> {}: {}", to_string(step.kind), step.before.placements_text(),
                       step.after.placements_text(), what);
  }

  [[nodiscard]] std::int64_t along(std::size_t rank, const SubAxis& part) const {
    const std::int64_t after = mesh_.axis(part.axis).size / (part.before * part.size);
    return coordinates_[rank][static_cast<std::size_t>(part.axis)] / after % part.size;
  }

  // Returns the elements that the rank holds under a layout.
  [[nodiscard]] std::vector<bool> holds(const Layout& layout, std::size_t rank) const {
    std::vector<IndexMap> maps;
    for (int d = 0; d < shape_.ndim(); ++d) maps.push_back(index_map(layout, shape_, d, ranks_[rank]));
    std::vector<bool> held(numel_);
    for (std::size_t i = 0; i < numel_; ++i) {
      auto left = static_cast<std::int64_t>(i);
      bool is_held = true;
      for (std::size_t d = shape_.size(); d-- > 0;) {
        is_held = is_held && maps[d].local(left % shape_[d]).has_value();
        left /= shape_[d];
      }
      held[i] = is_held;
    }
    return held;
  }

  // Returns the ranks that differ from this one only along these sub-axes.
  [[nodiscard]] std::vector<std::size_t> group(const std::vector<SubAxis>& parts, std::size_t rank) const {
    const auto rest = [&](std::size_t r, int axis) {  // the coordinate with the digits of these sub-axes set to 0
      std::int64_t value = coordinates_[r][static_cast<std::size_t>(axis)];
      for (const SubAxis& part : parts) {
        if (part.axis == axis) value -= along(r, part) * (mesh_.axis(axis).size / (part.before * part.size));
      }
      return value;
    };
    std::vector<std::size_t> members;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      bool is_member = true;
      for (int axis = 0; axis < mesh_.ndim(); ++axis) is_member = is_member && rest(r, axis) == rest(rank, axis);
      if (is_member) members.push_back(r);
    }
    return members;
  }

  static std::vector<SubAxis> parts_of(std::span<const PartialAxis> partials) {
    std::vector<SubAxis> parts;
    for (const PartialAxis& partial : partials) parts.push_back(partial.by);
    return parts;
  }

  // Fills in values whose reduction along the partial axes is correct;
  // ranks that agree on those axes hold equal values.
  void fill(const Layout& layout) {
    const auto partials = layout.partials();
    std::int64_t count = 1;
    std::int64_t averaged = 1;
    for (const PartialAxis& partial : partials) {
      count *= partial.by.size;
      if (partial.reduction == Reduction::kAvg) averaged *= partial.by.size;
    }
    const Reduction kind = partials.empty() ? Reduction::kSum : partials.front().reduction;
    std::vector<Table> shares(static_cast<std::size_t>(count), Table(numel_));
    for (std::size_t i = 0; i < numel_; ++i) {
      const std::size_t chosen = random_() % shares.size();
      double others = 0;
      for (std::size_t s = 0; s < shares.size(); ++s) {
        const auto noise = static_cast<double>(random_() % 23);
        shares[s][i] = kind == Reduction::kMin    ? truth_[i] + noise
                       : kind == Reduction::kMax  ? truth_[i] - noise
                       : kind == Reduction::kProd ? 1
                                                  : noise - 11;
        if (s != chosen) others += shares[s][i];
      }
      const bool is_sum = kind == Reduction::kSum || kind == Reduction::kAvg;
      shares[chosen][i] = is_sum ? truth_[i] * static_cast<double>(averaged) - others : truth_[i];
    }
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      std::size_t share = 0;
      for (const PartialAxis& partial : partials)
        share = share * static_cast<std::size_t>(partial.by.size) + static_cast<std::size_t>(along(r, partial.by));
      const auto held = holds(layout, r);
      Table table(numel_, kNothing);
      for (std::size_t i = 0; i < numel_; ++i) {
        if (held[i]) table[i] = shares[share][i];
      }
      tables_.push_back(std::move(table));
    }
  }

  std::string execute(const Step& step) {
    const std::int64_t budget =
        plan_.request.budget_nbytes > 0
            ? plan_.request.budget_nbytes
            : std::max(largest_local_numel(plan_.request.from, shape_), largest_local_numel(plan_.request.to, shape_)) *
                  plan_.request.itemsize;
    if (largest_local_numel(step.after, shape_) * plan_.request.itemsize > budget) return "its part is over the budget";
    std::vector<Table> next;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      Table table(numel_, kNothing);
      const auto held = holds(step.after, r);
      const std::string problem = make_table(step, r, held, table);
      if (!problem.empty()) return fmt::format("rank {}: {}", ranks_[r].value(), problem);
      next.push_back(std::move(table));
    }
    tables_ = std::move(next);
    return {};
  }

  std::string make_table(const Step& step, std::size_t rank, const std::vector<bool>& held, Table& table) {
    switch (step.kind) {
      case StepKind::kAllReduce:
      case StepKind::kReduceScatter: return fold(step, rank, held, table);
      case StepKind::kPartition: return partition(step, rank, held, table);
      case StepKind::kZeroFill: return zero_fill(step, rank, held, table);
      case StepKind::kPermute: return permute(step, rank, held, table);
      case StepKind::kSlice: return fetch(step, rank, {rank}, held, table);
      default: return fetch(step, rank, group(step.axes, rank), held, table);
    }
  }

  // Returns the axes that are partial in one layout but not in the same way in the other, over common sub-axes.
  [[nodiscard]] std::vector<PartialAxis> without(std::span<const PartialAxis> all,
                                                 std::span<const PartialAxis> gone) const {
    const auto refined = [&](std::span<const PartialAxis> partials) {
      std::vector<PartialAxis> atoms;
      for (const PartialAxis& partial : partials) {
        std::vector<std::int64_t> bounds = {partial.by.before, partial.by.before * partial.by.size};
        for (const auto& others : {all, gone}) {
          for (const PartialAxis& other : others) {
            for (const std::int64_t bound : {other.by.before, other.by.before * other.by.size}) {
              if (other.by.axis == partial.by.axis && bound > bounds[0] && bound < bounds[1]) bounds.push_back(bound);
            }
          }
        }
        std::sort(bounds.begin(), bounds.end());
        bounds.erase(std::unique(bounds.begin(), bounds.end()), bounds.end());
        for (std::size_t i = 1; i < bounds.size(); ++i)
          atoms.push_back({{partial.by.axis, bounds[i - 1], bounds[i] / bounds[i - 1]}, partial.reduction});
      }
      return atoms;
    };
    std::vector<PartialAxis> left;
    const auto others = refined(gone);
    for (const PartialAxis& partial : refined(all)) {
      if (std::find(others.begin(), others.end(), partial) == others.end()) left.push_back(partial);
    }
    return left;
  }

  std::string fetch(const Step& step, std::size_t rank, const std::vector<std::size_t>& from,
                    const std::vector<bool>& held, Table& table) {
    if (!without(step.before.partials(), step.after.partials()).empty() ||
        !without(step.after.partials(), step.before.partials()).empty()) {
      return "changes what is partial";
    }
    std::int64_t received = 0;
    for (std::size_t i = 0; i < numel_; ++i) {
      if (!held[i]) continue;
      if (!std::isnan(tables_[rank][i])) {
        table[i] = tables_[rank][i];
        continue;
      }
      for (const std::size_t peer : from) {
        if (!std::isnan(tables_[peer][i])) table[i] = tables_[peer][i];
      }
      if (std::isnan(table[i])) return fmt::format("nobody in its group holds element {}", i);
      ++received;
    }
    if (received * plan_.request.itemsize > step.nbytes)
      return fmt::format("receives {} elements, {} bytes were said", received, step.nbytes);
    return {};
  }

  // Checks that the complete new shard comes from one peer, and that the shard of each peer goes to one rank.
  std::string permute(const Step& step, std::size_t rank, const std::vector<bool>& held, Table& table) {
    const auto members = group(step.axes, rank);
    const auto is_part = [&](std::size_t peer) {
      for (std::size_t i = 0; i < numel_; ++i) {
        if (std::isnan(tables_[peer][i]) == held[i]) return false;
      }
      return true;
    };
    std::int64_t holders = 0;
    std::int64_t takers = 0;
    for (const std::size_t peer : members) {
      if (is_part(peer)) {
        table = tables_[peer];
        ++holders;
      }
      if (holds(step.after, peer) == held) ++takers;
    }
    if (holders != takers) return fmt::format("{} hold its new part whole, {} want it", holders, takers);
    const std::int64_t count = std::count(held.begin(), held.end(), true);
    return count * plan_.request.itemsize > step.nbytes ? "receives more than was said" : "";
  }

  std::string fold(const Step& step, std::size_t rank, const std::vector<bool>& held, Table& table) {
    const auto settled = without(step.before.partials(), step.after.partials());
    if (settled.empty()) return "folds nothing";
    if (!without(step.after.partials(), step.before.partials()).empty()) return "makes something partial";
    auto parts = parts_of(settled);
    const auto members = group(parts, rank);
    if (members != group(step.axes, rank)) return "its axes are not those it settles";
    double averaged = 1;
    for (const PartialAxis& partial : settled) {
      if (partial.reduction == Reduction::kAvg) averaged *= static_cast<double>(partial.by.size);
    }
    for (std::size_t i = 0; i < numel_; ++i) {
      if (!held[i]) continue;
      double value = tables_[members.front()][i];
      for (std::size_t m = 1; m < members.size(); ++m)
        value = reduce(value, tables_[members[m]][i], settled.front().reduction);
      for (const std::size_t member : members) {
        if (std::isnan(tables_[member][i])) return fmt::format("a member does not hold element {}", i);
      }
      table[i] = value / averaged;
    }
    return {};
  }

  std::string partition(const Step& step, std::size_t rank, const std::vector<bool>& held, Table& table) {
    const auto made = without(step.after.partials(), step.before.partials());
    if (made.empty() || !without(step.before.partials(), step.after.partials()).empty()) return "makes nothing partial";
    bool keeps = true;
    for (const PartialAxis& partial : made) {
      const bool is_first_only = partial.reduction == Reduction::kSum || partial.reduction == Reduction::kProd;
      if (is_first_only && along(rank, partial.by) != 0) keeps = false;
    }
    for (std::size_t i = 0; i < numel_; ++i) {
      if (!held[i]) continue;
      if (std::isnan(tables_[rank][i])) return "needs what it does not hold";
      table[i] = keeps ? tables_[rank][i] : neutral(made.front().reduction);
    }
    return {};
  }

  std::string zero_fill(const Step& step, std::size_t rank, const std::vector<bool>& held, Table& table) {
    for (const PartialAxis& partial : without(step.after.partials(), step.before.partials())) {
      if (partial.reduction != Reduction::kSum) return "fills with zeros what is not a sum";
    }
    for (std::size_t i = 0; i < numel_; ++i) {
      if (held[i]) table[i] = std::isnan(tables_[rank][i]) ? 0 : tables_[rank][i];
    }
    return {};
  }

  std::string check_end() {
    const Layout& to = plan_.request.to;
    const auto partials = to.partials();
    double averaged = 1;
    for (const PartialAxis& partial : partials) {
      if (partial.reduction == Reduction::kAvg) averaged *= static_cast<double>(partial.by.size);
    }
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      const auto held = holds(to, r);
      const auto members = group(parts_of(partials), r);
      for (std::size_t i = 0; i < numel_; ++i) {
        if (held[i] == std::isnan(tables_[r][i])) return fmt::format("rank {} ends with other elements", r);
        if (!held[i]) continue;
        double value = tables_[members.front()][i];
        for (std::size_t m = 1; m < members.size(); ++m)
          value = reduce(value, tables_[members[m]][i], partials.front().reduction);
        if (!is_close(value / averaged, truth_[i]))
          return fmt::format("rank {} ends with {} for element {}, not {}", r, value / averaged, i, truth_[i]);
      }
    }
    return {};
  }

  const Plan& plan_;
  Mesh mesh_;
  Shape shape_;
  std::mt19937_64 random_;
  std::size_t numel_ = 0;
  std::vector<Rank> ranks_;
  std::vector<Coordinates> coordinates_;
  std::vector<double> truth_;
  std::vector<Table> tables_;  // by rank
};

}  // namespace

std::string check_plan(const Plan& plan, std::uint64_t seed) { return Interpreter(plan, seed).run(); }

}  // namespace tessera::layout::testing
