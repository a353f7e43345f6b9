// The search for combinations that a rule does not admit and that would be right: on a mesh of two ranks, every
// placement of every input, and of the results those that come out right however partial inputs are made up.
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

constexpr std::size_t kMostAsked = 4096;    // combinations of a sample's inputs
constexpr std::size_t kMostSelected = 256;  // combinations of its results' layouts

// Placements worth trying: dimensions of one element are not cut, indices and masks are not partial, and no rule can
// let products pass.
std::vector<Layout> layouts_to_try(const Whole& whole, bool is_result, const Mesh& mesh) {
  std::vector<Layout> out;
  for (const Placement& each : placements_of(whole)) {
    if (each.kind == Placement::Kind::kShard && whole.shape[static_cast<std::size_t>(each.dim)] < 2) continue;
    if (each.kind == Placement::Kind::kPartial && !is_result && !is_floating(whole.dtype)) continue;
    if (each.kind == Placement::Kind::kPartial && !is_result && each.reduction == layout::Reduction::kProd) continue;
    out.push_back(Layout::create(mesh, {each}));
  }
  return out;
}

// Whether the results are right with these layouts, in every style and negated.
bool is_right(const std::vector<const Subject*>& subjects, const Combination& combination) {
  const int styles = combination.is_partial() ? kPartStyles : 1;
  for (const Subject* subject : subjects) {
    for (int style = 0; style < styles; ++style) {
      const auto inputs = subject->cut_inputs(combination, style);
      const WaitAtEnd wait;
      try {
        const auto outputs = call_on_ranks(subject->op(), inputs, subject->attributes(), subject->claims(combination));
        device::Device::get("host").synchronize();
        for (std::size_t o = 0; o < outputs.size(); ++o) {
          std::string wrong;
          const auto whole = recombine(outputs[o], wrong);
          if (!whole || !difference(*whole, subject->outputs()[o], subject->tolerance(), outputs[o].layout).empty())
            return false;
        }
      } catch (const Error&) {
        return false;
      }
    }
  }
  return true;
}

// The layouts of results with which these inputs are right; none: nothing is.
std::optional<Combination> right_results(const std::vector<const Subject*>& subjects, std::vector<Layout> inputs,
                                         const std::vector<std::vector<Layout>>& results) {
  std::size_t all = 1;
  for (const auto& each : results) all *= each.size();
  Combination trial{std::move(inputs), std::vector<Layout>(results.size())};
  for (std::size_t n = 0; n < std::min(all, kMostSelected); ++n) {
    std::size_t rest = n;
    for (std::size_t o = 0; o < results.size(); ++o) {
      trial.outputs[o] = results[o][rest % results[o].size()];
      rest /= results[o].size();
    }
    if (is_right(subjects, trial)) return trial;
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
  for (std::size_t n = 0; n < std::min(all, kMostAsked); ++n) {
    std::size_t rest = all <= kMostAsked ? n : random() % all;
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
      for (const Layout& each : found->outputs) key += concat(" ", each.placements_text());
      rights[key] += 1;
    }
  }
}

bool is_all_zero(const Subject& subject) {
  return std::ranges::all_of(subject.outputs(), [](const Whole& output) {
    return std::ranges::all_of(output.values, [](double value) { return value == 0; });
  });
}

}  // namespace

std::vector<std::string> find_missing(const OpCaseInfo& info, const ValidatorOptions& options) {
  const tensor::Operator op = tensor::find_op(info.op);
  if (op->def.rule == nullptr || !info.samples) return {};
  const Mesh mesh = Mesh::parse("x=2");
  Random random(options.seed);
  // By what the samples look like: a combination of one may not exist in another.
  std::map<std::string, std::pair<int, std::map<std::string, int>>> kinds;
  for (const OpSample& sample : info.samples(random)) {
    if (sample.inputs.empty()) continue;
    try {
      const Subject subject(info, sample);
      if (is_all_zero(subject)) continue;
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
