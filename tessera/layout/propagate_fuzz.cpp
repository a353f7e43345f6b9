// Random calls of operators.
// - If propagation reports that inputs are compatible, each rank computes from its shards and must obtain the declared
//   shard; the same holds after every fix.
// - If they are incompatible, the fixes must be the cheapest of all, by exhaustive search: one run in sixteen, on plain
//   layouts.
// - A randomly corrupted text of a rule is rejected, or read as a rule that prints the same text.
//
//   layout_propagate_fuzz [--runs N] [--seed S] [--seconds T]
#include <fmt/format.h>

#include "tessera/base/error.h"
#include "tessera/base/testing/fuzz.h"
#include "tessera/layout/propagate.h"
#include "tessera/layout/testing/exhaustive_propagation.h"
#include "tessera/layout/testing/random_calls.h"
#include "tessera/layout/testing/rule_values.h"

namespace tessera::layout::testing {
namespace {

std::string check_claims(Random& random, std::uint64_t seed) {
  const CallOptions options;
  const RandomCall call = random_call(random, random_mesh(random, options), options);
  Planner planner;
  const Propagation found = propagate_or_fix(call.rule, call.inputs, call.outputs, planner, 2);
  if (found.is_match()) {
    const std::string wrong = check_values(call.rule, call.inputs, call.outputs, found.outputs, seed);
    return wrong.empty() ? std::string() : wrong + "\n  " + call.text();
  }
  for (const Fix& fix : found.fixes) {
    RandomCall moved = call;
    for (std::size_t i = 0; i < fix.inputs.size(); ++i) {
      if (!fix.moves[i] && !(fix.inputs[i] == call.inputs[i].layout))
        return "an input moves without a plan\n  " + call.text();
      moved.inputs[i].layout = fix.inputs[i];
    }
    const Propagation again = propagate(call.rule, moved.inputs, call.outputs);
    if (!again.is_match())
      return "a fix does not fit: " + again.conflict + "\n  " + call.text() + "\n  " + moved.text();
    if (again.outputs != fix.outputs) return "a fix names other outputs\n  " + moved.text();
    const std::string wrong = check_values(call.rule, moved.inputs, call.outputs, fix.outputs, seed);
    if (!wrong.empty()) return "behind a fix: " + wrong + "\n  " + moved.text();
  }
  return {};
}

std::string check_fixes(Random& random) {
  CallOptions options;
  options.plain = true;
  options.max_axes = random() % 8 == 0 ? 4 : 3;
  RandomCall call = random_call(random, random_mesh(random, options), options);
  for (Operand& input : call.inputs) input.itemsize = std::int64_t{1} << (random() % 20);  // cheap and expensive bytes
  CostModel model;
  if (random() % 4 == 0) model.launch_us = 0.5;
  if (random() % 4 == 0) model.links[1].latency_us = 20;
  Planner planner(model, 1 << 20);
  const std::size_t most = 1 + random() % 4;
  const Propagation found = propagate_or_fix(call.rule, call.inputs, call.outputs, planner, static_cast<int>(most));
  if (found.is_match()) return {};
  const auto wanted = exhaustive_fixes(call.rule, call.inputs, call.outputs, planner, most);
  std::string wrong;
  if (found.fixes.size() != wanted.size()) {
    wrong = fmt::format("{} fixes, there are {}", found.fixes.size(), wanted.size());
  }
  for (std::size_t f = 0; f < wanted.size() && wrong.empty(); ++f) {
    if (found.fixes[f].us == wanted[f].us && found.fixes[f].inputs == wanted[f].inputs) continue;
    wrong = fmt::format("fix {} costs {} us ({}), the best {} us", f, found.fixes[f].us, found.fixes[f].text(),
                        wanted[f].us);
    for (const Layout& layout : wanted[f].inputs) wrong += " " + layout.placements_text();
  }
  return wrong.empty() ? wrong : wrong + "\n  " + call.text();
}

std::string check_text(Random& random) {
  CallOptions options;
  const FactorRule rule = random_call(random, random_mesh(random, options), options).rule;
  std::string text = rule.text();
  if (!(FactorRule::parse(text).text() == text)) return "does not print what it reads: " + text;
  constexpr std::string_view kLetters = "ijk()[],;:->=+1 24sum";
  for (std::uint64_t i = random() % 4; i > 0; --i) {
    const std::size_t at = random() % text.size();
    if (random() % 2 == 0)
      text[at] = kLetters[random() % kLetters.size()];
    else if (random() % 2 == 0)
      text.erase(at, 1 + random() % 3);
    else
      text.insert(at, 1, kLetters[random() % kLetters.size()]);
    if (text.empty()) return {};
  }
  try {
    const FactorRule read = FactorRule::parse(text);
    const FactorRule again = FactorRule::parse(read.text());
    return again == read && again.text() == read.text() ? std::string() : "reads back as another rule: " + text;
  } catch (const InvalidArgument&) {
    return {};
  }
}

std::string check_one(std::uint64_t seed) {
  Random random(seed);
  if (std::string wrong = check_text(random); !wrong.empty()) return wrong;
  return seed % 16 == 0 ? check_fixes(random) : check_claims(random, seed);
}

}  // namespace
}  // namespace tessera::layout::testing

int main(int argc, char** argv) {
  return tessera::fuzz::run(argc, argv, "random calls", tessera::layout::testing::check_one);
}
