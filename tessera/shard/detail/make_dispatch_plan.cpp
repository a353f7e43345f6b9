// Propagates the layouts of one call, and creates the error for operands that do not fit together.
#include <algorithm>

#include "tessera/autograd/hooks.h"
#include "tessera/base/error.h"
#include "tessera/shard/detail/conflict_text.h"
#include "tessera/shard/detail/dispatch_plan.h"
#include "tessera/shard/detail/rearrange.h"
#include "tessera/shard/redistribute.h"
#include "tessera/shard/scopes.h"
#include "tessera/tensor/call.h"
#include "tessera/tensor/cooperation.h"

namespace tessera::shard::detail {
namespace {

using layout::Fix;
using layout::Layout;
using tensor::Call;
using tessera::detail::concat;

constexpr std::size_t kMaxFixes = 3;

// A call over its rule. The rule may not contain an omitted optional argument.
struct RuledCall {
  layout::FactorRule rule;
  std::vector<std::size_t> places;  // input of the call for each operand of the rule
  std::vector<layout::Operand> operands;
  std::vector<Shape> results;
};

layout::Mesh mesh_of(const Call& call) {
  layout::Mesh mesh;
  const auto look_at = [&](const Tensor& tensor) {
    if (!tensor || !tensor.has_layout()) return;
    if (!mesh) mesh = tensor.layout().mesh();
    TESSERA_CHECK_CALL(call, mesh == tensor.layout().mesh(), "tensors must be on one mesh, got ", mesh.text(), " and ",
                       tensor.layout().mesh().text(), "; bring them to one mesh with gather() and distribute()",
                       backward_note());
  };
  for (const Tensor& input : call.inputs) look_at(input);
  for (const Tensor& output : call.outputs) look_at(output);
  return mesh;
}

// Checks plain tensors. Other ranks may have different values, so only constants and values computed from them count as
// replicated.
void check_plain(const Call& call) {
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const Tensor& input = call.inputs[i];
    if (input && !input.has_layout() && input.ndim() > 0 && !input.is_constant()) refuse_plain(call, i);
  }
  for (const Tensor& output : call.outputs) {
    TESSERA_CHECK_CALL(call, !output || output.has_layout(), "out must have a layout, as the result does, got ",
                       tensor::describe(output), "; create it with a layout, or omit it", backward_note());
  }
}

Layout layout_of(const Tensor& input, const layout::Mesh& mesh) {
  return input && input.has_layout() ? input.layout() : Layout::replicated(mesh);
}

RuledCall ruled(const Call& call, const DispatchPlan& entry) {
  RuledCall out;
  out.rule = call.op->def.rule(call);
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    if (call.inputs[i] || out.rule.inputs.size() == call.inputs.size()) out.places.push_back(i);
  }
  TESSERA_CHECK_CALL(call, out.places.size() == out.rule.inputs.size(), "the rule ", out.rule.text(), " requires ",
                     out.rule.inputs.size(), " tensors, got ", out.places.size());
  for (const std::size_t place : out.places) {
    const Tensor& input = call.inputs[place];
    out.operands.push_back({input ? input.shape() : Shape(), layout_of(input, entry.mesh),
                            input ? static_cast<std::int64_t>(itemsize(input.dtype())) : 1});
  }
  for (const tensor::OutputInfo& info : entry.infos) out.results.push_back(info.shape);
  return out;
}

bool is_used(const layout::SubAxis& by, const RuledCall& call) {
  const auto uses = [&](const auto& each) { return each.by.axis == by.axis; };
  return std::ranges::any_of(call.operands, [&](const layout::Operand& operand) {
    bool found = std::ranges::any_of(operand.layout.partials(), uses);
    for (int d = 0; d < operand.layout.ndim(); ++d) found |= std::ranges::any_of(operand.layout.shardings(d), uses);
    return found;
  });
}

// Returns true if the result may have the layout of its target: the layout that the inputs give it, plus cuts by free
// axes of dimensions that no input has (all dimensions, for a tensor created from nothing).
bool fits_target(const RuledCall& call, std::size_t output, const Layout& found, const Layout& target) {
  if (found == target) return true;
  if (!std::ranges::equal(found.partials(), target.partials())) return false;
  for (int d = 0; d < std::max(found.ndim(), target.ndim()); ++d) {
    if (std::ranges::equal(found.shardings(d), target.shardings(d)) &&
        std::ranges::equal(found.sizes(d), target.sizes(d))) {
      continue;
    }
    if (!found.shardings(d).empty()) return false;
    const auto& factors = call.rule.outputs[output][static_cast<std::size_t>(d)];
    for (const std::int32_t factor : factors) {
      // Every rank creates its shard of an empty dimension.
      const bool is_empty = call.results[output][static_cast<std::size_t>(d)] == 0;
      const bool passes = call.rule.factors[static_cast<std::size_t>(factor)].kind == layout::FactorKind::kPass;
      if (!passes && !is_empty) return false;
      for (const layout::OperandFactors& input : call.rule.inputs) {
        for (const layout::DimFactors& dim : input) {
          if (std::ranges::find(dim, factor) != dim.end()) return false;
        }
      }
    }
    for (const layout::Sharding& sharding : target.shardings(d)) {
      if (is_used(sharding.by, call)) return false;
    }
  }
  layout::check_fits(target, call.results[output]);
  return true;
}

// Gives the results the layouts of their targets. Returns the reason if that is impossible.
std::string take_targets(const RuledCall& call, const DispatchPlan& entry, std::vector<Layout>& outputs) {
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    if (!entry.targets[o]) continue;
    if (!fits_target(call, o, outputs[o], entry.targets[o])) {
      return concat("the result is ", outputs[o].placements_text(), ", but the output keeps its layout, ",
                    entry.targets[o].placements_text());
    }
    outputs[o] = entry.targets[o];
  }
  return {};
}

// Returns the axes that shard the cooperative factors whose names begin with `along`. Inputs that fit together shard a
// factor equally, but one may name an axis and another its sub-axes. The first input with the factor decides.
std::vector<layout::SubAxis> cooperating_axes(const RuledCall& call, std::string_view along) {
  std::vector<layout::SubAxis> axes;
  std::vector<bool> is_known(call.rule.factors.size());
  for (std::size_t i = 0; i < call.operands.size(); ++i) {
    const Layout& layout = call.operands[i].layout;
    for (int d = 0; d < layout.ndim(); ++d) {
      bool cooperates = false;
      for (const std::int32_t f : call.rule.inputs[i][static_cast<std::size_t>(d)]) {
        const layout::Factor& factor = call.rule.factors[static_cast<std::size_t>(f)];
        if (is_known[static_cast<std::size_t>(f)] || factor.kind != layout::FactorKind::kCooperate) continue;
        is_known[static_cast<std::size_t>(f)] = true;
        cooperates |= factor.name.starts_with(along);
      }
      for (const layout::Sharding& sharding : layout.shardings(d)) {
        if (cooperates) axes.push_back(sharding.by);
      }
    }
  }
  return axes;
}

void find_phases(const RuledCall& call, DispatchPlan& entry) {
  const tensor::Cooperation* how = entry.op->def.cooperation;
  if (how == nullptr || cooperating_axes(call, {}).empty()) return;
  for (const tensor::CooperativePhase& phase : how->phases) {
    entry.phases.push_back(cooperating_axes(call, phase.along));
  }
}

// Returns a fix with the input numbers of the call.
Fix over_call(const Fix& fix, const Call& call, const RuledCall& ruled, const layout::Mesh& mesh) {
  Fix out;
  out.outputs = fix.outputs;
  out.nbytes = fix.nbytes;
  out.us = fix.us;
  out.moves.resize(call.inputs.size());
  for (const Tensor& input : call.inputs) out.inputs.push_back(layout_of(input, mesh));
  for (std::size_t k = 0; k < ruled.places.size(); ++k) {
    out.inputs[ruled.places[k]] = fix.inputs[k];
    out.moves[ruled.places[k]] = fix.moves[k];
  }
  return out;
}

// Returns true if each rank computes its new shard from its own data.
bool is_local(const Fix& fix) {
  return std::ranges::none_of(fix.moves, [](const auto& move) {
    return move != nullptr &&
           std::ranges::any_of(move->steps, [](const layout::Step& step) { return layout::communicates(step.kind); });
  });
}

// Returns true if a fix redistributes only values that are equal on every rank, so that nothing is sent.
bool is_free(const Fix& fix, const Call& call) {
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    if (!fix.moves[i]) continue;
    const auto sends = [](const layout::Step& step) { return layout::communicates(step.kind); };
    if (call.inputs[i].has_layout() || std::ranges::any_of(fix.moves[i]->steps, sends)) return false;
  }
  return true;
}

// Returns the cheapest ways to make the operands fit; a free one comes first. Given outputs are treated like inputs but
// are not redistributed.
std::vector<Fix> find_fixes(const Call& call, RuledCall ruled, const DispatchPlan& entry) {
  const std::size_t inputs = ruled.operands.size();
  bool is_picky = std::ranges::any_of(call.inputs, [](const Tensor& input) { return input && !input.has_layout(); });
  for (std::size_t o = 0; o < entry.targets.size(); ++o) {
    if (!entry.targets[o]) continue;
    is_picky = true;
    if (!entry.targets[o].partials().empty()) continue;  // pure redistributions do not carry partial values
    ruled.rule.inputs.push_back(ruled.rule.outputs[o]);
    if (!ruled.rule.algebra.empty()) ruled.rule.algebra.emplace_back();
    ruled.operands.push_back(
        {entry.infos[o].shape, entry.targets[o], static_cast<std::int64_t>(itemsize(entry.infos[o].dtype))});
  }
  const layout::Propagation found = layout::propagate_or_fix(ruled.rule, ruled.operands, ruled.results, planner(),
                                                             is_picky ? 16 : static_cast<int>(kMaxFixes));
  std::vector<Fix> out;
  for (const Fix& fix : found.fixes) {
    bool is_good = true;
    for (std::size_t k = inputs; k < fix.moves.size(); ++k) is_good &= fix.moves[k] == nullptr;
    for (std::size_t o = 0; o < entry.targets.size(); ++o) {
      is_good &= !entry.targets[o] || fix.outputs[o] == entry.targets[o];
    }
    if (is_good) out.push_back(over_call(fix, call, ruled, entry.mesh));
  }
  const auto free = std::ranges::find_if(out, [&](const Fix& fix) { return is_free(fix, call); });
  if (free != out.end()) std::rotate(out.begin(), free, free + 1);
  if (out.size() > kMaxFixes) out.resize(kMaxFixes);
  return out;
}

// Returns the fix of an operator without a rule: all inputs replicated.
Fix replicated_fix(const Call& call, const DispatchPlan& entry) {
  Fix fix;
  fix.moves.resize(call.inputs.size());
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const Layout whole = Layout::replicated(entry.mesh);
    const Layout now = layout_of(call.inputs[i], entry.mesh);
    fix.inputs.push_back(whole);
    if (now == whole) continue;
    fix.moves[i] = planner().plan(
        {now, whole, call.inputs[i].shape(), static_cast<std::int64_t>(itemsize(call.inputs[i].dtype()))});
    fix.nbytes += fix.moves[i]->nbytes;
    fix.us += fix.moves[i]->us;
  }
  fix.outputs.assign(call.outputs.size(), Layout::replicated(entry.mesh));
  return fix;
}

// Throws. The first fix is the one that an AutoRedistribute scope would apply.
[[noreturn]] void refuse(const Call& call, const std::string& conflict, const std::vector<Fix>& fixes,
                         const DispatchPlan& entry) {
  const char* forbidden =
      redistribute_mode() == RedistributeMode::kForbidden ? "; a ForbidCommunication scope forbids redistribution" : "";
  const std::string operands = operands_text(call);
  const std::string ways = fixes_text(call, fixes);
  TESSERA_CHECK(entry.rearranged == nullptr, call.op->function, ": elements must move to other ranks on mesh ",
                entry.mesh.text(), ": ", conflict, forbidden, operands,
                "\nAutoRedistribute moves only these elements:\n  ", entry.rearranged->plan->text(),
                ways.empty() ? "" : ways.substr(1), ways.empty() ? "" : "\n", "or call it inside AutoRedistribute",
                backward_note());
  TESSERA_THROW(InvalidArgument, call.op->function, ": operands disagree on mesh ", entry.mesh.text(), ": ", conflict,
                forbidden, ways.empty() ? "; no redistribution of the operands makes them fit" : "", operands, ways,
                ways.empty() ? "" : "\nor call it inside AutoRedistribute", backward_note());
}

// Computes the layouts of the results. If operands do not fit, returns the reason and sets `fixes`.
std::string propagate_call(const Call& call, DispatchPlan& entry, std::vector<Fix>& fixes) {
  if (call.op->def.rule == nullptr) {
    Fix whole = replicated_fix(call, entry);
    entry.outputs = whole.outputs;
    const bool is_whole = std::ranges::all_of(whole.moves, [](const auto& move) { return move == nullptr; });
    std::string conflict = is_whole ? "" : "the operator has no factor rule, so all inputs must be replicated";
    for (std::size_t o = 0; o < entry.targets.size(); ++o) {
      TESSERA_CHECK_CALL(call, !entry.targets[o] || entry.targets[o] == entry.outputs[o],
                         "has no factor rule, so outputs must be replicated", backward_note());
    }
    if (!is_whole) fixes.push_back(std::move(whole));
    return conflict;
  }
  const RuledCall over = ruled(call, entry);
  layout::Propagation found;
  if (over.operands.empty()) {  // created from nothing: replicated, or the layout of the target
    found.outputs.assign(over.results.size(), Layout::replicated(entry.mesh));
  } else {
    found = layout::propagate(over.rule, over.operands, over.results);
  }
  std::string_view found_conflict = found.conflict;
  if (found_conflict.starts_with(over.rule.name + ": ")) found_conflict.remove_prefix(over.rule.name.size() + 2);
  std::string conflict = conflict_with_names(call, found_conflict, over.places);
  if (found.is_match()) {
    conflict = take_targets(over, entry, found.outputs);
    if (conflict.empty()) {
      entry.outputs = std::move(found.outputs);
      find_phases(over, entry);
      return {};
    }
  }
  if (over.operands.empty()) return conflict;
  if (call.op->def.rearrangement != nullptr) {
    entry.rearranged = find_rearranged(call, over.rule, over.results[0], entry.mesh, entry.targets[0]);
    if (entry.rearranged != nullptr) {
      entry.outputs = {entry.rearranged->output};
      if (entry.rearranged->plan->nbytes == 0) return {};
      if (redistribute_mode() == RedistributeMode::kAutomatic) return conflict;
    }
  }
  fixes = find_fixes(call, over, entry);
  return conflict;
}

DispatchPlan keyed(const Call& call, std::uint64_t hash) {
  DispatchPlan entry;
  entry.hash = hash;
  entry.op = call.op;
  entry.mesh = mesh_of(call);
  check_plain(call);
  entry.attributes = tensor::Attributes(call.attributes);
  for (const Tensor& input : call.inputs) {
    OperandKey& key = entry.inputs.emplace_back();
    if (input) key = {input.layout(), input.shape(), input.dtype(), true, !input.has_layout() && input.ndim() > 0};
  }
  for (const Tensor& output : call.outputs) entry.targets.push_back(output ? output.layout() : Layout());
  entry.infos = tensor::infer(call);
  for (std::size_t o = 0; o < call.outputs.size(); ++o) {
    const Tensor& target = call.outputs[o];
    TESSERA_CHECK_CALL(call,
                       !target || (target.shape() == entry.infos[o].shape && target.dtype() == entry.infos[o].dtype),
                       "out must be ", entry.infos[o].dtype, entry.infos[o].shape, ", got ", tensor::describe(target),
                       backward_note());
  }
  return entry;
}

}  // namespace

std::shared_ptr<const DispatchPlan> make_entry(const Call& call, std::uint64_t hash) {
  DispatchPlan entry = keyed(call, hash);
  std::vector<Fix> fixes;
  const std::string conflict = propagate_call(call, entry, fixes);
  if (!conflict.empty() && (entry.rearranged == nullptr || redistribute_mode() != RedistributeMode::kAutomatic)) {
    entry.is_free = !fixes.empty() && is_free(fixes[0], call);
    entry.is_local = !fixes.empty() && is_local(fixes[0]);
    const bool is_backward = entry.is_local && autograd::is_in_backward();
    const bool may_move =
        (redistribute_mode() == RedistributeMode::kAutomatic || entry.is_free || is_backward) && !fixes.empty();
    if (!may_move) refuse(call, conflict, fixes, entry);
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
      entry.moved.push_back(fixes[0].moves[i] ? fixes[0].inputs[i] : Layout());
    }
  }
  return std::make_shared<const DispatchPlan>(std::move(entry));
}

void refuse_moves(const Call& call) {
  DispatchPlan entry = keyed(call, 0);
  std::vector<Fix> fixes;
  const std::string conflict = propagate_call(call, entry, fixes);
  refuse(call, conflict, fixes, entry);
}

}  // namespace tessera::shard::detail
