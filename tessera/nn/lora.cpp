#include "tessera/nn/lora.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "tessera/autograd/autograd.h"
#include "tessera/base/error.h"
#include "tessera/nn/detail/module_state.h"
#include "tessera/ops/matrix/matrix.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/shard/distribute.h"

namespace tessera::nn {
namespace {

using detail::ModuleState;
using detail::ParameterSlot;
using States = std::vector<std::shared_ptr<ModuleState>>;

constexpr const char* kA = "lora_a";
constexpr const char* kB = "lora_b";

// Creates parameters of a module from outside of its type.
class OpenModule : public Module {
 public:
  explicit OpenModule(std::shared_ptr<ModuleState> state) : Module(std::move(state)) {}
  using Module::parameter;
};

Parameter weight_of(const ModuleState& linear) {
  for (const ModuleState::Entry& entry : linear.entries) {
    if (entry.name == "weight") return Parameter(std::get<std::shared_ptr<ParameterSlot>>(entry.item));
  }
  return {};
}

// The linear maps that match any of the patterns, each once, in the order of the model.
States matching(const Module& model, const std::vector<std::string>& patterns) {
  States out;
  std::map<std::string, bool> is_used;
  for (const std::string& pattern : patterns) is_used[pattern] = false;
  detail::for_each_module(model.state(), "", [&](const std::string& path, const std::shared_ptr<ModuleState>& each) {
    if (each->kind != "Linear") return;
    for (const std::string& pattern : patterns) {
      if (!detail::matches(pattern, path)) continue;
      is_used[pattern] = true;
      if (std::ranges::find(out, each) == out.end()) out.push_back(each);
    }
  });
  for (const auto& [pattern, used] : is_used) {
    TESSERA_CHECK(used, "add_lora: modules must match paths of Linear modules, got '", pattern,
                  "'; print the model to see its paths");
  }
  return out;
}

void check_alone(const Module& model, const States& linears) {
  std::map<const ParameterSlot*, int> uses;
  detail::for_each_slot(model.state(), "", [&](const std::string&, const auto& slot) { ++uses[slot.get()]; });
  for (const auto& linear : linears) {
    TESSERA_CHECK(!linear->lora, "add_lora: a Linear module must have one adapter, got ", Module(linear).path(),
                  " again");
    TESSERA_CHECK(uses[weight_of(*linear).slot().get()] == 1, "add_lora: a Linear module must own its weight, got ",
                  Module(linear).path(), ", which shares it; leave it out of the patterns");
  }
}

}  // namespace

std::int64_t add_lora(const Module& model, const LoraOptions& options) {
  TESSERA_CHECK(options.rank > 0 && options.alpha > 0 && std::isfinite(options.alpha),
                "add_lora: rank and alpha must be positive, got ", options.rank, " and ", options.alpha);
  const States linears = matching(model, options.modules);
  check_alone(model, linears);
  model.set_requires_grad("*", false);
  for (const auto& linear : linears) {
    OpenModule module(linear);
    const Parameter weight = weight_of(*linear);
    const std::int64_t out = weight.shape()[0];
    const std::int64_t in = weight.shape()[1];
    const Meaning& meaning = weight.meaning();
    const double bound = 1 / std::sqrt(static_cast<double>(in));
    const Parameter a = module.parameter(kA, {options.rank, in},
                                         {.init = Init::uniform(bound), .meaning = {"", meaning[1]}, .decays = false});
    const Parameter b = module.parameter(kB, {out, options.rank},
                                         {.init = Init::zeros(), .meaning = {meaning[0], ""}, .decays = false});
    weight.slot()->has_adapter = true;
    linear->lora = detail::LoraAdapter{a, b, options.alpha / static_cast<double>(options.rank)};
  }
  return std::ssize(linears);
}

std::int64_t merge_lora(const Module& model) {
  const autograd::NoGrad no_grad;
  std::int64_t count = 0;
  detail::for_each_module(model.state(), "", [&](const std::string& path, const std::shared_ptr<ModuleState>& each) {
    if (!each->lora) return;
    const Tensor weight = weight_of(*each).leaf().detach();
    TESSERA_CHECK(weight_of(*each).slot()->units == nullptr,
                  "merge_lora: must precede distribute(), got the adapter of ", path);
    const Tensor product =
        ops::matmul(shard::gather(each->lora->b.leaf().detach()), shard::gather(each->lora->a.leaf().detach()));
    ops::add_(weight,
              shard::distribute(ops::mul(product, each->lora->scale), weight.layout(), shard::DataOn::kEveryRank));
    std::erase_if(each->entries, [](const ModuleState::Entry& entry) { return entry.name == kA || entry.name == kB; });
    weight_of(*each).slot()->has_adapter = false;
    each->lora.reset();
    ++count;
  });
  return count;
}

bool is_lora_parameter(std::string_view path) {
  return path.ends_with(std::string(".") + kA) || path.ends_with(std::string(".") + kB);
}

namespace detail {

Tensor adapted(const ModuleState& linear, const Tensor& x, const Tensor& y) {
  if (!linear.lora) return y;
  const Tensor narrow = ops::linear(x, linear.lora->a);
  return ops::add(y, ops::mul(ops::linear(narrow, linear.lora->b), linear.lora->scale));
}

}  // namespace detail
}  // namespace tessera::nn
