#include "tessera/layout/propagate.h"

#include <fmt/format.h>

#include "tessera/base/bytes.h"
#include "tessera/base/error.h"
#include "tessera/layout/detail/call.h"
#include "tessera/layout/detail/fix_search.h"
#include "tessera/layout/detail/layout_state.h"

namespace tessera::layout {
namespace {

// Returns the outputs if the inputs are compatible as they are, otherwise the conflict.
Propagation match(const detail::FactorCall& call) {
  Propagation out;
  if (const auto found = call.match(out.conflict)) {
    if (auto outputs = call.outputs_under(*found, out.conflict)) out.outputs = std::move(*outputs);
  }
  if (!out.conflict.empty()) out.conflict = call.rule().name + ": " + out.conflict;
  return out;
}

std::string steps_text(const Plan& plan) {
  std::string out;
  for (const Step& step : plan.steps) {
    out += out.empty() ? "" : ", then ";
    out += to_string(step.kind);
    for (std::size_t i = 0; i < step.axes.size(); ++i) {
      out += i == 0 ? " over " : " and ";
      out += detail::name_of(plan.request.to.mesh(), step.axes[i]);
    }
  }
  return out;
}

// Returns the reason why a candidate was rejected. `best_us` is the cost of the chosen one.
std::string why_dropped(const detail::FoundFix& fix, double best_us) {
  if (!fix.invalid.empty()) return fix.invalid;
  if (fix.us <= best_us) return "same cost as the best, which redistributes fewer inputs or comes first";
  const double more_us = fix.us - best_us;
  return fmt::format("{:.{}f} us more than the best", more_us, more_us < 1 ? 4 : 1);
}

}  // namespace

std::string Fix::text() const {
  std::string out;
  for (std::size_t i = 0; i < moves.size(); ++i) {
    if (!moves[i]) continue;
    out += fmt::format("{}redistribute input {} to {}: {}, {}, {:.1f} us", out.empty() ? "" : "; ", i,
                       inputs[i].placements_text(), steps_text(*moves[i]),
                       format_bytes(static_cast<std::uint64_t>(moves[i]->nbytes)), moves[i]->us);
  }
  return out.empty() ? "no redistribution" : out;
}

Propagation propagate(const FactorRule& rule, std::span<const Operand> inputs, std::span<const Shape> outputs) {
  return match(detail::FactorCall(rule, inputs, outputs));
}

Propagation propagate_or_fix(const FactorRule& rule, std::span<const Operand> inputs, std::span<const Shape> outputs,
                             Planner& planner, int most) {
  const detail::FactorCall call(rule, inputs, outputs);
  Propagation out = match(call);
  if (out.is_match() || most <= 0) return out;
  for (detail::FoundFix& fix : detail::FixSearch(call, planner, false).run(static_cast<std::size_t>(most))) {
    out.fixes.push_back({std::move(fix.inputs), std::move(fix.outputs), std::move(fix.moves), fix.nbytes, fix.us});
  }
  return out;
}

std::vector<Candidate> explain(const FactorRule& rule, std::span<const Operand> inputs, std::span<const Shape> outputs,
                               Planner& planner, std::size_t most) {
  const detail::FactorCall call(rule, inputs, outputs);
  std::vector<Candidate> out;
  const detail::FoundFix* answer = nullptr;  // the first that the rule allows: the cheapest comes first
  std::vector<detail::FoundFix> found = detail::FixSearch(call, planner, true).run(most);
  for (detail::FoundFix& fix : found) {
    if (answer == nullptr && fix.invalid.empty()) answer = &fix;
    std::string dropped = answer == &fix ? std::string() : why_dropped(fix, answer != nullptr ? answer->us : 0);
    out.push_back({std::move(fix.inputs), std::move(fix.outputs), fix.us, fix.nbytes, std::move(dropped)});
  }
  return out;
}

}  // namespace tessera::layout
