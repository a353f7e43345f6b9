// Searches for right combinations that a rule does not admit: on a mesh of two ranks, every placement of every input,
// and the placements of the results that are right for all constructions of partial inputs.
#include <algorithm>
#include <map>

#include "tessera/base/error.h"
#include "tessera/ops/testing/validator.h"
#include "tessera/ops/testing/validator_subject.h"

namespace tessera::ops::testing {
namespace {

using layout::Layout;
using layout::Mesh;
using layout::Placement;
using tessera::detail::concat;

constexpr std::size_t kMaxAsked = 1000;  // input combinations of a sample; beyond this, a random selection

// Returns the placements to try: dimensions of one element are not sharded, indices and masks are not partial, and no
// rule admits partial products.
std::vector<Layout> layouts_to_try(const Whole& whole, bool is_result, const Mesh& mesh) {
  std::vector<Layout> out;
  for (const Placement& each : placements_of(whole)) {
    if (each.kind == Placement::Kind::kShard && whole.shape[static_cast<std::size_t>(each.dim)] < 2) continue;
    if (each.kind == Placement::Kind::kPartial && !is_result && !is_floating(whole.dtype)) continue;
    if (each.kind == Placement::Kind::kPartial && !is_result && each.reduction == Reduction::kProd) continue;
    out.push_back(Layout::create(mesh, {each}));
  }
  return out;
}

// Removes the result layouts for which this call is wrong. Without `localize`, the local calls do not depend on these
// layouts: they are made once, and the results are checked with each layout.
void keep_right(const Subject& subject, const std::vector<Layout>& inputs, int style,
                std::vector<std::vector<Layout>>& results) {
  Combination trial{inputs, {}};
  for (const auto& each : results) trial.outputs.push_back(each[0]);
  const auto sharding = subject.sharded_inputs(trial, style);
  const WaitAtEnd wait;
  try {
    std::vector<Parts> outputs = call_on_ranks(subject.op(), sharding, subject.attributes(), subject.claims(trial));
    wait_for_work();
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      std::erase_if(results[o], [&](const Layout& layout) {
        outputs[o].layout = layout;
        std::string wrong;
        const auto whole = recombine(outputs[o], wrong);
        return !whole || !difference(*whole, subject.outputs()[o], subject.tolerance(), layout).empty();
      });
    }
  } catch (const Error&) {
    results[0].clear();
  }
}

// Returns the result layouts for which these inputs are right, in every style and negated; nullopt if there are none.
std::optional<std::vector<Layout>> right_results(const std::vector<const Subject*>& subjects,
                                                 const std::vector<Layout>& inputs,
                                                 const std::vector<std::vector<Layout>>& results) {
  const bool is_localized = subjects[0]->op()->def.localize != nullptr;
  std::vector<std::vector<std::vector<Layout>>> starts = {results};
  if (is_localized) {
    starts.clear();
    for (std::size_t n = 0; n < results[0].size(); ++n) {
      auto& start = starts.emplace_back();
      for (const auto& each : results) start.push_back({each[std::min(n, each.size() - 1)]});
    }
  }
  for (auto& left : starts) {
    bool is_over = false;
    for (const Subject* subject : subjects) {
      for (int style = 0; style < kPartStyles && !is_over; ++style) {
        keep_right(*subject, inputs, style, left);
        is_over = std::ranges::any_of(left, [](const auto& each) { return each.empty(); });
      }
    }
    if (is_over) continue;
    std::vector<Layout> out;
    for (const auto& each : left) out.push_back(each[0]);
    return out;
  }
  return std::nullopt;
}

void search_sample(const Subject& subject, const Mesh& mesh, Random& random, std::map<std::string, int>& rights) {
  const std::optional<Subject> negated = subject.negated();
  std::vector<const Subject*> subjects = {&subject};
  if (negated) subjects.push_back(&*negated);
  std::vector<std::vector<Layout>> inputs;
  std::vector<std::vector<Layout>> results;
  std::size_t all = 1;
  for (std::size_t i = 0; i < subject.inputs().size(); ++i) {
    inputs.push_back(subject.has(i) ? layouts_to_try(subject.inputs()[i], false, mesh) : std::vector<Layout>{Layout()});
    all *= inputs.back().size();
  }
  for (const Whole& output : subject.outputs()) results.push_back(layouts_to_try(output, true, mesh));
  for (std::size_t n = 0; n < std::min(all, kMaxAsked); ++n) {
    std::size_t rest = all <= kMaxAsked ? n : random() % all;
    std::vector<Layout> chosen;
    for (const auto& each : inputs) {
      chosen.push_back(each[rest % each.size()]);
      rest /= each.size();
    }
    if (subject.admitted(chosen, mesh)) continue;
    std::string key;
    for (const Layout& each : chosen) key += concat(key.empty() ? "" : ", ", each ? each.placements_text() : "none");
    if (const auto found = right_results(subjects, chosen, results)) {
      key += " ->";
      for (const Layout& each : *found) key += concat(" ", each.placements_text());
      rights[key] += 1;
    }
  }
}

// Returns true if a result has enough nonzero elements to exclude chance.
bool tells_something(const Subject& subject) {
  return std::ranges::any_of(subject.outputs(), [](const Whole& output) {
    return std::ranges::count_if(output.values, [](double value) { return value != 0; }) > 3;
  });
}

}  // namespace

std::vector<std::string> find_missing(const OpCaseInfo& info, const ValidatorOptions& options) {
  const tensor::Operator op = tensor::find_op(info.op);
  if (op->def.rule == nullptr || !info.samples) return {};
  const Mesh mesh = Mesh::parse("x=2");
  Random random(options.seed);
  // Grouped by the form of the samples: a combination of one may not exist in another.
  std::map<std::string, std::pair<int, std::map<std::string, int>>> kinds;
  for (const OpSample& sample : info.samples(random)) {
    if (sample.inputs.empty()) continue;
    try {
      const Subject subject(info, sample);
      if (!tells_something(subject)) continue;
      std::string kind;
      for (const Whole& input : subject.inputs()) kind += concat(kind.empty() ? "" : ", ", input.shape.ndim(), "-d");
      auto& [samples, rights] = kinds[kind];
      samples += 1;
      search_sample(subject, mesh, random, rights);
    } catch (const Error&) {
      continue;  // validate() reports it
    }
  }
  std::vector<std::string> out;
  for (const auto& [kind, found] : kinds) {
    for (const auto& [key, right] : found.second) {
      if (right < found.first) continue;
      out.push_back(
          concat(info.op, " (", kind, "): ", key, " (", found.first, found.first == 1 ? " sample)" : " samples)"));
    }
  }
  return out;
}

}  // namespace tessera::ops::testing
