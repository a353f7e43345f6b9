#include "tessera/nn/module.h"

#include <algorithm>
#include <set>
#include <unordered_set>

#include "tessera/autograd/autograd.h"
#include "tessera/base/error.h"
#include "tessera/memory/label.h"
#include "tessera/nn/detail/module_state.h"
#include "tessera/nn/distribute.h"
#include "tessera/ops/create/create.h"
#include "tessera/ops/create/random.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/shard/distribute.h"

namespace tessera::nn {
namespace detail {
namespace {

std::string joined(const std::string& path, const std::string& name) { return path.empty() ? name : path + "." + name; }

const std::shared_ptr<ModuleState>* as_module(const ModuleState::Entry& entry) {
  return std::get_if<std::shared_ptr<ModuleState>>(&entry.item);
}

const std::shared_ptr<ParameterSlot>* as_slot(const ModuleState::Entry& entry) {
  return std::get_if<std::shared_ptr<ParameterSlot>>(&entry.item);
}

}  // namespace

void for_each_module(const std::shared_ptr<ModuleState>& module, const std::string& path,
                     const std::function<void(const std::string&, const std::shared_ptr<ModuleState>&)>& visit) {
  visit(path, module);
  for (const ModuleState::Entry& entry : module->entries) {
    if (const auto* child = as_module(entry)) for_each_module(*child, joined(path, entry.name), visit);
  }
}

void for_each_slot(const std::shared_ptr<ModuleState>& module, const std::string& path,
                   const std::function<void(const std::string&, const std::shared_ptr<ParameterSlot>&)>& visit) {
  for (const ModuleState::Entry& entry : module->entries) {
    const std::string full = joined(path, entry.name);
    if (const auto* slot = as_slot(entry)) {
      visit(full, *slot);
    } else {
      for_each_slot(*as_module(entry), full, visit);
    }
  }
}

bool matches(std::string_view pattern, std::string_view text) {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == text;
  if (!text.starts_with(pattern.substr(0, star))) return false;
  const std::string_view rest = pattern.substr(star + 1);
  for (std::size_t at = star; at <= text.size(); ++at) {
    if (matches(rest, text.substr(at))) return true;
  }
  return false;
}

}  // namespace detail

namespace {

using detail::ModuleState;
using detail::ParameterSlot;

void check_name(const ModuleState& module, const std::string& name) {
  TESSERA_CHECK(!name.empty() && name.find('.') == std::string::npos, module.kind,
                ": a name must not be empty or contain a dot, got '", name, "'");
  for (const ModuleState::Entry& entry : module.entries)
    TESSERA_CHECK(entry.name != name, module.kind, ": names must be unique, got '", name, "' twice");
}

// Parameters and buffers, shared ones once.
std::vector<NamedParameter> slots_of(const std::shared_ptr<ModuleState>& module, bool are_buffers) {
  std::vector<NamedParameter> out;
  std::set<const ParameterSlot*> seen;
  detail::for_each_slot(module, "", [&](const std::string& path, const std::shared_ptr<ParameterSlot>& slot) {
    if (slot->is_buffer == are_buffers && seen.insert(slot.get()).second) out.push_back({path, Parameter(slot)});
  });
  return out;
}

// Adds the leaves of all parameters, shared ones once. Training steps call it, so it builds no paths.
void add_leaves(const ModuleState& module, std::unordered_set<const ParameterSlot*>& seen, std::vector<Tensor>& out) {
  for (const ModuleState::Entry& entry : module.entries) {
    if (const auto* child = std::get_if<std::shared_ptr<ModuleState>>(&entry.item)) {
      add_leaves(**child, seen, out);
      continue;
    }
    const ParameterSlot& slot = *std::get<std::shared_ptr<ParameterSlot>>(entry.item);
    if (!slot.is_buffer && seen.insert(&slot).second) out.push_back(slot.leaf);
  }
}

Tensor created(const Shape& shape, const ParameterOptions& options, const layout::Layout& stored) {
  const ops::CreateOptions where{.dtype = options.dtype, .layout = stored};
  const double scale = options.init.scale;
  switch (options.init.kind) {
    case Init::Kind::kZeros: return ops::zeros(shape, where);
    case Init::Kind::kOnes: return ops::ones(shape, where);
    case Init::Kind::kUniform: {
      const Tensor out = ops::empty(shape, where);
      ops::uniform_(out, -scale, scale);
      return out;
    }
    case Init::Kind::kNormal: {
      const Tensor out = ops::empty(shape, where);
      ops::normal_(out, 0, scale);
      return out;
    }
    case Init::Kind::kTruncatedNormal: return ops::trunc_normal(shape, 0, scale, -3 * scale, 3 * scale, where);
  }
  TESSERA_THROW(InvalidArgument, "parameter: unknown kind of initial values");
}

// Replaces the leaves of all parameters and buffers.
void replace_leaves(const std::shared_ptr<ModuleState>& module, const char* what,
                    const std::function<Tensor(const Tensor&)>& change) {
  const autograd::NoGrad no_grad;
  const memory::Label label("parameters");
  detail::for_each_slot(module, "", [&](const std::string& path, const std::shared_ptr<ParameterSlot>& slot) {
    TESSERA_CHECK(slot->units == nullptr, what, ": must precede distribute(), got a distributed parameter ", path);
    const bool requires_grad = autograd::requires_grad(slot->leaf);
    const Tensor changed = change(slot->leaf.detach());
    if (changed.is_same(slot->leaf)) return;
    slot->leaf = changed;
    if (requires_grad) autograd::set_requires_grad(slot->leaf, true);
  });
}

void adopt(const std::shared_ptr<ModuleState>& module, const std::shared_ptr<detail::ModelContext>& context) {
  detail::for_each_module(module, "", [&](const std::string&, const auto& each) { each->context = context; });
}

}  // namespace

Module::Module(std::string kind) : state_(std::make_shared<ModuleState>()) { state_->kind = std::move(kind); }

void Module::add_child(const std::string& name, const Module& child) {
  check_name(*state_, name);
  detail::for_each_module(child.state(), "", [&](const std::string&, const auto& each) {
    TESSERA_CHECK(each != state_, kind(), ": a module must not contain itself, got it in child '", name, "'");
  });
  state_->entries.push_back({name, child.state()});
  if (child.state()->parent.expired()) {
    child.state()->parent = state_;
    child.state()->name = name;
  }
  adopt(child.state(), state_->context);
}

Parameter Module::parameter(const std::string& name, const Shape& shape, const ParameterOptions& options) {
  check_name(*state_, name);
  const std::string what = kind() + "." + name;
  TESSERA_CHECK(options.meaning.empty() || static_cast<int>(options.meaning.size()) == shape.ndim(), what,
                ": must have one meaning per dimension of ", to_string(shape), ", got ", options.meaning.size());
  const memory::Label label("parameters");
  const ShardingScope* scope = ShardingScope::current();
  auto slot = std::make_shared<ParameterSlot>();
  slot->options = options;
  slot->leaf =
      created(shape, options, scope == nullptr ? layout::Layout() : scope->stored(shape, options.meaning, what));
  autograd::set_requires_grad(slot->leaf, true);
  state_->entries.push_back({name, slot});
  return Parameter(slot);
}

Parameter Module::share(const std::string& name, const Parameter& parameter) {
  check_name(*state_, name);
  TESSERA_CHECK(parameter, kind(), ".", name, ": must share a parameter, got an empty handle");
  state_->entries.push_back({name, parameter.slot()});
  return parameter;
}

Parameter Module::buffer(const std::string& name, const Tensor& value) {
  check_name(*state_, name);
  TESSERA_CHECK(value, kind(), ".", name, ": a buffer must have a value, got an empty tensor");
  auto slot = std::make_shared<ParameterSlot>();
  slot->leaf = value.detach();
  slot->is_buffer = true;
  state_->entries.push_back({name, slot});
  return Parameter(slot);
}

std::vector<NamedParameter> Module::named_parameters() const { return slots_of(state_, false); }

std::vector<NamedParameter> Module::named_buffers() const { return slots_of(state_, true); }

std::vector<Tensor> Module::parameters() const {
  std::vector<Tensor> out;
  std::unordered_set<const ParameterSlot*> seen;
  add_leaves(*state_, seen, out);
  return out;
}

std::vector<NamedModule> Module::named_modules() const {
  std::vector<NamedModule> out;
  detail::for_each_module(state_, "", [&](const std::string& path, const auto& module) {
    out.push_back({path, Module(module)});
  });
  return out;
}

std::int64_t Module::parameter_count() const {
  std::int64_t count = 0;
  for (const NamedParameter& each : named_parameters()) count += each.parameter.leaf().numel();
  return count;
}

std::string Module::path() const {
  std::string path;
  for (std::shared_ptr<ModuleState> at = state_; at != nullptr; at = at->parent.lock()) {
    if (!at->name.empty()) path = path.empty() ? at->name : at->name + "." + path;
  }
  return path;
}

const std::string& Module::kind() const { return state_->kind; }

void Module::train(bool is_training) const {
  detail::for_each_module(state_, "", [&](const std::string&, const auto& each) { each->is_training = is_training; });
}

bool Module::is_training() const { return state_->is_training; }

std::int64_t Module::set_requires_grad(std::string_view pattern, bool requires_grad) const {
  std::int64_t count = 0;
  for (const NamedParameter& each : named_parameters()) {
    if (!detail::matches(pattern, each.path)) continue;
    ++count;
    autograd::set_requires_grad(each.parameter.leaf(), requires_grad);
  }
  return count;
}

void Module::to(DType dtype) const {
  TESSERA_CHECK(is_floating(dtype), "to: dtype must be floating, got ", to_string(dtype));
  replace_leaves(state_, "to",
                 [&](const Tensor& leaf) { return is_floating(leaf.dtype()) ? ops::cast(leaf, dtype) : leaf; });
}

void Module::to(const device::Device& device) const {
  replace_leaves(state_, "to", [&](const Tensor& leaf) { return leaf.to(device); });
}

std::vector<NamedTensor> Module::state_dict() const {
  std::vector<NamedTensor> out;
  for (const auto& all : {named_parameters(), named_buffers()}) {
    for (const NamedParameter& each : all) out.emplace_back(each.path, each.parameter.leaf().detach());
  }
  return out;
}

void Module::load_state_dict(std::span<const NamedTensor> tensors) const {
  std::vector<NamedTensor> own = state_dict();
  std::vector<std::pair<Tensor, Tensor>> copies;
  std::string problems;
  for (const auto& [path, leaf] : own) {
    const auto found = std::ranges::find(tensors, path, &NamedTensor::first);
    if (found == tensors.end()) {
      problems += "\n  missing: " + path + " " + to_string(leaf.shape());
    } else if (found->second.shape() != leaf.shape()) {
      problems +=
          "\n  shape of " + path + ": must be " + to_string(leaf.shape()) + ", got " + to_string(found->second.shape());
    } else {
      copies.emplace_back(leaf, found->second);
    }
  }
  for (const auto& [path, value] : tensors) {
    if (std::ranges::find(own, path, &NamedTensor::first) == own.end())
      problems += "\n  unknown: " + path + " " + to_string(value.shape());
  }
  TESSERA_CHECK(problems.empty(), "load_state_dict: tensors must match those of ", kind(), ":", problems);
  const autograd::NoGrad no_grad;
  for (auto& [leaf, value] : copies) {
    if (leaf.has_layout() && !value.has_layout())
      value = shard::distribute(value, leaf.layout(), shard::DataOn::kEveryRank);
    ops::copy_(leaf, value);
  }
}

void Module::set_observer(ModuleObserver observer) const { state_->context->observer = std::move(observer); }

Tensor Module::constrain(const Tensor& x, const Meaning& meaning) const {
  detail::ModelContext& context = *state_->context;
  if (!context.mesh || !x.has_layout()) return x;
  const auto known = std::ranges::find(context.activations, meaning, &std::pair<Meaning, layout::Layout>::first);
  if (known != context.activations.end()) return detail::constrained(x, known->second, context.exposed);
  const layout::Layout to = context.table.layout_of(context.mesh, meaning, "an activation of " + path());
  context.activations.emplace_back(meaning, to);
  return detail::constrained(x, to, context.exposed);
}

bool Module::is_observed() const { return static_cast<bool>(state_->context->observer); }

Tensor Module::observe(std::string_view name, const Tensor& value) const {
  if (is_observed()) {
    const std::string own = path();
    state_->context->observer(own.empty() ? std::string(name) : own + "." + std::string(name), value);
  }
  return value;
}

}  // namespace tessera::nn
