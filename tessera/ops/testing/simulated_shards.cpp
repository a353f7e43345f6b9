#include "tessera/ops/testing/simulated_shards.h"

#include <algorithm>

#include "tessera/base/error.h"
#include "tessera/tensor/cooperation.h"

namespace tessera::ops::testing {
namespace {

using layout::Layout;
using tessera::detail::concat;

thread_local SimulatedShards* current = nullptr;

// The call of one rank.
struct LocalCall {
  std::vector<Tensor> inputs;
  std::vector<layout::LocalOperand> operands;  // shards of the inputs
  tensor::Attributes localized;
  tensor::AttributesRef attributes;
};

LocalCall local_call(const tensor::Call& global, std::size_t rank, std::span<const Parts> inputs,
                     std::span<const ClaimedOutput> outputs) {
  LocalCall out{{}, {}, {}, global.attributes};
  for (const Parts& input : inputs) {
    out.inputs.push_back(input.layout ? input.by_rank[rank] : Tensor());
    out.operands.push_back(input.layout ? local_operands(input.layout, input.shape)[rank] : layout::LocalOperand());
  }
  if (global.op->def.localize == nullptr) return out;
  std::vector<layout::LocalOperand> of_outputs;
  for (const ClaimedOutput& output : outputs) of_outputs.push_back(local_operands(output.layout, output.shape)[rank]);
  out.localized = global.op->def.localize({global, out.operands, of_outputs});
  out.attributes = out.localized.ref();
  return out;
}

void call_on_rank(const tensor::Call& global, std::size_t rank, std::span<const Parts> inputs,
                  std::span<const ClaimedOutput> outputs, std::span<Parts> results) {
  const LocalCall local = local_call(global, rank, inputs, outputs);
  std::vector<Tensor> computed(outputs.size());
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    if (results[o].by_rank.size() > rank) computed[o] = results[o].by_rank[rank];  // in place
  }
  if (local.inputs.empty()) {
    computed = {tensor::call_on(device::Device::get("host"), global.op, local.attributes)};
  } else {
    tensor::call_into({global.op, local.inputs, local.attributes, computed});
  }
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    if (results[o].by_rank.size() <= rank) results[o].by_rank.push_back(computed[o]);
  }
}

Parts on_every_rank(const Tensor& tensor, const layout::Mesh& mesh) {
  return {tensor.shape(), tensor.dtype(), Layout::replicated(mesh),
          std::vector<Tensor>(static_cast<std::size_t>(mesh.size()), tensor)};
}

// Returns the axes with the prefix `along` that shard a factor along which ranks cooperate.
std::vector<int> cooperating_axes(const tensor::Call& global, std::span<const Parts> inputs,
                                  std::string_view along = {}) {
  if (global.op->def.cooperation == nullptr) return {};
  const RuleOperands operands = rule_of(global);
  std::vector<int> axes;
  for (std::size_t i = 0; i < operands.inputs.size(); ++i) {
    const Parts& input = inputs[operands.inputs[i]];
    for (int d = 0; input.layout && d < input.layout.ndim(); ++d) {
      const auto& factors = operands.rule.inputs[i][static_cast<std::size_t>(d)];
      const bool cooperates = std::ranges::any_of(factors, [&](std::int32_t f) {
        const layout::Factor& factor = operands.rule.factors[static_cast<std::size_t>(f)];
        return factor.kind == layout::FactorKind::kCooperate && factor.name.starts_with(along);
      });
      for (const layout::Sharding& by : input.layout.shardings(d)) {
        if (cooperates && std::ranges::find(axes, by.by.axis) == axes.end()) axes.push_back(by.by.axis);
      }
    }
  }
  return axes;
}

// Stacks tensors of one shape along a new first dimension.
Whole stacked(const std::vector<const Whole*>& parts) {
  std::vector<std::int64_t> sizes = {static_cast<std::int64_t>(parts.size())};
  for (const std::int64_t size : parts[0]->shape) sizes.push_back(size);
  Whole out{Shape(std::span<const std::int64_t>(sizes)), parts[0]->dtype, {}};
  for (const Whole* part : parts) {
    TESSERA_CHECK_AS(MismatchError, part->shape == parts[0]->shape, "statistics of the ranks must have one shape, got ",
                     parts[0]->shape, " and ", part->shape);
    out.values.insert(out.values.end(), part->values.begin(), part->values.end());
  }
  return out;
}

// Simulates the collectives of an operator: the statistics of all ranks of a phase, their reduction, then the next
// phase.
class Cooperating {
 public:
  Cooperating(const tensor::Call& global, std::span<const Parts> inputs, std::span<const ClaimedOutput> outputs)
      : global_(global), inputs_(inputs), mesh_(outputs[0].layout.mesh()) {
    for (std::int64_t rank = 0; rank < mesh_.size(); ++rank) {
      locals_.push_back(local_call(global, static_cast<std::size_t>(rank), inputs, outputs));
    }
    reduced_.resize(locals_.size());
    own_.resize(locals_.size());
  }

  void run(std::span<Parts> results) {
    const WaitAtEnd wait;
    const tensor::Cooperation& how = *global_.op->def.cooperation;
    for (const tensor::CooperativePhase& phase : how.phases) {
      std::vector<std::vector<Whole>> statistics(locals_.size());
      std::vector<std::vector<Tensor>> computed;
      for (std::size_t r = 0; r < locals_.size(); ++r) computed.push_back(on_rank(r, phase.statistics, results.size()));
      wait_for_work();
      for (std::size_t r = 0; r < locals_.size(); ++r) {
        for (const Tensor& each : computed[r]) statistics[r].push_back(read(each));
        own_[r].insert(own_[r].end(), computed[r].begin(), computed[r].end());
      }
      const std::vector<int> axes = cooperating_axes(global_, inputs_, phase.along);
      for (std::size_t r = 0; r < locals_.size(); ++r) reduce(phase, axes, statistics, r);
    }
    for (std::size_t r = 0; r < locals_.size(); ++r) {
      const std::vector<Tensor> outputs = on_rank(r, how.finish, results.size());
      for (std::size_t o = 0; o < results.size(); ++o) results[o].by_rank.push_back(outputs[o]);
    }
  }

 private:
  std::vector<Tensor> on_rank(std::size_t rank, std::vector<Tensor> (*compute)(const tensor::CooperativeCall&),
                              std::size_t outputs) {
    try {
      std::vector<Tensor> none(outputs);
      const LocalCall& local = locals_[rank];
      const tensor::Call call{global_.op, local.inputs, local.attributes, none};
      return compute({call, global_, local.operands, reduced_[rank], own_[rank]});
    } catch (const Error& error) {
      TESSERA_THROW(MismatchError, "rank ", rank, " cannot run the call on its local shards: ", error.message());
    }
  }

  void reduce(const tensor::CooperativePhase& phase, const std::vector<int>& axes,
              const std::vector<std::vector<Whole>>& statistics, std::size_t rank) {
    const layout::RankSet group = mesh_.group(axes, mesh_.ranks().at(static_cast<std::int64_t>(rank)));
    for (std::size_t s = 0; s < statistics[rank].size(); ++s) {
      std::vector<const Whole*> parts;
      for (std::int64_t g = 0; g < group.size(); ++g) {
        parts.push_back(&statistics[static_cast<std::size_t>(mesh_.ranks().place_of(group.at(g)))][s]);
      }
      reduced_[rank].push_back(to_tensor(phase.is_gathered() ? stacked(parts) : reduced(parts, phase.reductions[s])));
    }
  }

  const tensor::Call& global_;
  std::span<const Parts> inputs_;
  const layout::Mesh& mesh_;
  std::vector<LocalCall> locals_;             // by rank
  std::vector<std::vector<Tensor>> reduced_;  // by rank
  std::vector<std::vector<Tensor>> own_;      // by rank
};

void run_ranks(const tensor::Call& global, std::span<const Parts> inputs, std::span<const ClaimedOutput> outputs,
               std::span<Parts> results) {
  const std::int64_t ranks = outputs[0].layout.mesh().size();
  if (!cooperating_axes(global, inputs).empty()) {
    Cooperating(global, inputs, outputs).run(results);
    return;
  }
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    try {
      call_on_rank(global, static_cast<std::size_t>(rank), inputs, outputs, results);
    } catch (const Error& error) {
      TESSERA_THROW(MismatchError, "rank ", rank, " cannot run the call on its local shards: ", error.message());
    }
  }
}

}  // namespace

std::vector<Parts> call_on_ranks(const tensor::Operator& op, std::span<const Parts> inputs,
                                 const tensor::AttributesRef& attributes, std::span<const ClaimedOutput> outputs) {
  std::vector<Tensor> globals;
  for (const Parts& input : inputs) {
    globals.push_back(input.layout ? Tensor::sharded(input.shape, input.dtype, input.layout, input.by_rank[0])
                                   : Tensor());
  }
  std::vector<Tensor> none(outputs.size());
  std::vector<Parts> results;
  for (const ClaimedOutput& output : outputs) results.push_back({output.shape, output.dtype, output.layout, {}});
  run_ranks({op, globals, attributes, none}, inputs, outputs, results);
  return results;
}

WaitAtEnd::~WaitAtEnd() {
  try {
    wait_for_work();
  } catch (const Error&) {  // reading the results reports the failure
    return;
  }
}

RuleOperands rule_of(const tensor::Call& call) {
  RuleOperands out{call.op->def.rule(call), {}};
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    if (call.inputs[i] || out.rule.inputs.size() == call.inputs.size()) out.inputs.push_back(i);
  }
  TESSERA_CHECK_CALL(call, out.inputs.size() == out.rule.inputs.size(), "rule ", out.rule.text(), " requires ",
                     out.rule.inputs.size(), " tensors, got ", out.inputs.size());
  return out;
}

layout::Propagation propagate_call(const RuleOperands& operands, const tensor::Call& call,
                                   std::span<const Layout> layouts, std::span<const Shape> outputs,
                                   const layout::Mesh& mesh) {
  std::vector<layout::Operand> inputs;
  for (const std::size_t i : operands.inputs) {
    const Tensor& tensor = call.inputs[i];
    inputs.push_back({tensor ? tensor.shape() : Shape(), layouts[i] ? layouts[i] : Layout::replicated(mesh),
                      tensor ? static_cast<std::int64_t>(itemsize(tensor.dtype())) : 1});
  }
  return layout::propagate(operands.rule, inputs, outputs);
}

SimulatedShards::SimulatedShards(const layout::Mesh& mesh) : mesh_(mesh) {
  TESSERA_CHECK(current == nullptr, "another simulation is active on this thread");
  current = this;
  tensor::set_hook(tensor::HookKind::kShard, &SimulatedShards::answer);
}

SimulatedShards::~SimulatedShards() {
  current = nullptr;
  const WaitAtEnd wait;
}

void SimulatedShards::answer(const tensor::Call& call) {
  TESSERA_CHECK(current != nullptr, "a sharded call requires an active simulation: ", call.text());
  current->run(call);
}

Tensor SimulatedShards::add(Parts parts) {
  Tensor tensor = Tensor::sharded(parts.shape, parts.dtype, parts.layout, parts.by_rank[0]);
  entries_[tensor.state()] = {tensor, std::move(parts)};
  return tensor;
}

Parts SimulatedShards::parts_of(const Tensor& tensor) const {
  if (!tensor) return {};
  if (!tensor.has_layout()) return on_every_rank(tensor, mesh_);
  const auto found = entries_.find(tensor.state());
  if (found != entries_.end()) return found->second.parts;
  for (const auto& [state, entry] : entries_) {  // a detached handle of a known tensor
    if (entry.tensor.local().is_same(tensor.local())) return entry.parts;
  }
  TESSERA_THROW(InvalidArgument, "this simulation did not create ", describe(tensor));
}

Whole SimulatedShards::whole_of(const Tensor& tensor) const {
  std::string wrong;
  auto whole = recombine(parts_of(tensor), wrong);
  TESSERA_CHECK_AS(MismatchError, whole.has_value(), wrong);
  return *whole;
}

void SimulatedShards::gather(const tensor::Call& call, std::vector<Parts>& inputs, const std::string& why) {
  wait_for_work();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].layout || inputs[i].layout.is_replicated()) continue;
    moves_.push_back(concat("input ", i, " ", inputs[i].layout.placements_text(), " of ", call.text(), ": ", why));
    std::string wrong;
    const auto whole = recombine(inputs[i], wrong);
    TESSERA_CHECK_AS(MismatchError, whole.has_value(), call.op.name(), ": input ", i, ": ", wrong);
    inputs[i] = on_every_rank(to_tensor(*whole), mesh_);
    gathered_.push_back(inputs[i]);
  }
}

void SimulatedShards::run(const tensor::Call& call) {
  std::vector<Parts> inputs;
  for (const Tensor& input : call.inputs) inputs.push_back(parts_of(input));
  const std::vector<tensor::OutputInfo> infos = tensor::infer(call);
  std::vector<Shape> shapes;
  for (const tensor::OutputInfo& info : infos) shapes.push_back(info.shape);
  std::vector<Layout> claimed(infos.size(), Layout::replicated(mesh_));
  if (call.op->def.rule == nullptr) {
    gather(call, inputs, "it has no rule");
  } else {
    std::vector<Layout> layouts;
    for (const Parts& input : inputs) layouts.push_back(input.layout);
    layout::Propagation found = propagate_call(rule_of(call), call, layouts, shapes, mesh_);
    if (found.is_match()) {
      claimed = std::move(found.outputs);
    } else {
      gather(call, inputs, found.conflict);
    }
  }
  std::vector<ClaimedOutput> outputs;
  std::vector<Parts> results;
  for (std::size_t o = 0; o < infos.size(); ++o) {
    outputs.push_back({infos[o].shape, infos[o].dtype, claimed[o]});
    const Parts given = call.outputs[o] ? parts_of(call.outputs[o]) : Parts();
    TESSERA_CHECK_CALL(call, !given.layout || given.layout == claimed[o], "cannot write ", claimed[o].placements_text(),
                       " into ", given.layout.placements_text());
    results.push_back(given.layout ? given : Parts{infos[o].shape, infos[o].dtype, claimed[o], {}});
  }
  run_ranks(call, inputs, outputs, results);
  local_calls_ += mesh_.size();
  for (std::size_t o = 0; o < infos.size(); ++o) {
    if (!call.outputs[o]) call.outputs[o] = add(std::move(results[o]));
  }
}

}  // namespace tessera::ops::testing
