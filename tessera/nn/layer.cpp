#include "tessera/nn/layer.h"

#include <algorithm>

#include "tessera/autograd/autograd.h"
#include "tessera/base/error.h"
#include "tessera/nn/detail/module_state.h"

namespace tessera::nn {
namespace detail {
namespace {

// As matches(), with "*" for any text without a dot: components are compared one by one.
bool matches_path(std::string_view pattern, std::string_view path) {
  while (true) {
    const std::size_t pattern_end = pattern.find('.');
    const std::size_t path_end = path.find('.');
    if (!matches(pattern.substr(0, pattern_end), path.substr(0, path_end))) return false;
    if (pattern_end == std::string_view::npos || path_end == std::string_view::npos) return pattern_end == path_end;
    pattern.remove_prefix(pattern_end + 1);
    path.remove_prefix(path_end + 1);
  }
}

}  // namespace

std::vector<std::shared_ptr<ModuleState>> modules_at(const Module& model, std::string_view pattern) {
  std::vector<std::shared_ptr<ModuleState>> out;
  for_each_module(model.state(), "", [&](const std::string& path, const std::shared_ptr<ModuleState>& each) {
    if (!path.empty() && matches_path(pattern, path)) out.push_back(each);
  });
  return out;
}

bool is_checkpointed(const ModuleState& module) {
  return module.checkpointing.has_value() && tensor::is_grad_enabled();
}

bool is_intercepted(const ModuleState& module) {
  return module.checkpointing.has_value() || static_cast<bool>(module.context->observer);
}

Tensor observed(const ModuleState& module, const Tensor& result) {
  if (!module.context->observer) return result;
  std::string path = module.name;
  for (std::shared_ptr<ModuleState> at = module.parent.lock(); at != nullptr; at = at->parent.lock()) {
    if (!at->name.empty()) path = at->name + "." + path;
  }
  if (!path.empty()) module.context->observer(path, result);
  return result;
}

Tensor checkpointed(const ModuleState& module, const Tensor& x, std::function<Tensor(const Tensor&)> body) {
  const std::shared_ptr<ParameterUnits> units = module.context->units;
  const autograd::CheckpointBody repeated = [units, body = std::move(body)](const std::vector<Tensor>& inputs) {
    const ParameterUnits::RepeatedScope scope(units.get());
    return std::vector<Tensor>{body(inputs[0])};
  };
  return autograd::checkpoint(repeated, {x}, *module.checkpointing)[0];
}

void refuse_checkpoint(const ModuleState& module) {
  TESSERA_THROW(NotSupported, "checkpointing: forward() of ", module.kind,
                " must take a tensor first and return one; checkpoint the modules that it calls");
}

}  // namespace detail

std::int64_t set_checkpointing(const Module& model, std::string_view pattern, const CheckpointingOptions& options) {
  const auto found = detail::modules_at(model, pattern);
  TESSERA_CHECK(!found.empty(), "set_checkpointing: pattern must match the path of a module, got '", pattern,
                "'; print the model to see its paths");
  for (const auto& module : found) module->checkpointing = options;
  return static_cast<std::int64_t>(found.size());
}

void clear_checkpointing(const Module& model) {
  detail::for_each_module(model.state(), "", [](const std::string&, const auto& each) { each->checkpointing.reset(); });
}

}  // namespace tessera::nn
