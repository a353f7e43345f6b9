#include "tessera/train/detail/choose_device.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "tessera/autograd/autograd.h"
#include "tessera/base/error.h"
#include "tessera/comm/device_of_rank.h"
#include "tessera/nn/generation.h"
#include "tessera/nn/language_model.h"
#include "tessera/ops/create/create.h"
#include "tessera/ops/create/generator.h"
#include "tessera/tensor/device_context.h"
#include "tessera/train/make_model.h"

namespace tessera::train::detail {
namespace {

// Restores the generator of this rank, from which a trial draws.
class GeneratorScope {
 public:
  ~GeneratorScope() { ops::set_generator_state(before_); }
  GeneratorScope() = default;
  GeneratorScope(const GeneratorScope&) = delete;
  GeneratorScope& operator=(const GeneratorScope&) = delete;

 private:
  ops::GeneratorState before_ = ops::generator_state();
};

// Returns a configuration with the operators of `config`, and the sizes of the smallest preset with one layer.
Config small(const Config& config) {
  Config out;
  out.model = config.model;
  out.model.preset = nn::model_family(config.model.family).presets.front().name;
  for (auto size : {&ModelConfig::width, &ModelConfig::heads, &ModelConfig::kv_heads, &ModelConfig::hidden,
                    &ModelConfig::vocabulary})
    out.model.*size = 0;
  out.model.layers = 1;
  out.model.sequence = 8;
  out.train.dtype = config.train.dtype;
  out.train.checkpointing = config.train.checkpointing;
  out.optimizer = config.optimizer;
  return resolved(out, 1);
}

// Uses a small model on the default device.
void try_model(const Config& trial, ModelUse use) {
  const auto model = make_model(trial, ParallelPlan::create(trial, 1), std::make_shared<shard::ExposedTime>());
  if (use == ModelUse::kGeneration) {
    const std::vector<std::uint32_t> prompt{0, 1};
    (void)nn::generate(*model, {&prompt, 1}, {.max_tokens = 2, .context = trial.model.sequence});
    return;
  }
  const Tensor tokens = ops::zeros({1, trial.model.sequence}, {.dtype = DType::kI32});
  if (use == ModelUse::kLoss) {
    const autograd::NoGrad no_grad;
    (void)model->loss(tokens, tokens, 0);
    return;
  }
  const auto optimizer = make_optimizer(trial.optimizer, model->module());
  autograd::backward(model->loss(tokens, tokens, 0));
  optimizer->step();
}

// Returns why a model cannot be used on a device; empty if it can.
std::string what_is_missing(const device::Device& device, const Config& config, ModelUse use) {
  const GeneratorScope restored;
  const tensor::DeviceScope scope(device);
  try {
    try_model(small(config), use);
    tensor::current_stream(device).synchronize();
  } catch (const Error& error) {
    return error.message();
  }
  return {};
}

bool is_host(const device::Device& device) { return device.state() == tensor::host_device().state(); }

std::vector<std::string> other_kinds() {
  std::vector<std::string> kinds;
  for (const device::Device& each : device::Device::all()) {
    const std::string& kind = each.properties().kind;
    if (!is_host(each) && std::ranges::find(kinds, kind) == kinds.end()) kinds.push_back(kind);
  }
  return kinds;
}

bool has_kind(const std::string& name) {
  return std::ranges::any_of(device::Device::all(),
                             [&](const device::Device& each) { return each.properties().kind == name; });
}

// Returns the device of this name. A kind without an index stands for the device of that kind of this rank.
device::Device named(const std::string& name) {
  try {
    if (!has_kind(name)) return device::Device::get(name);
    const device::Device host = tensor::host_device();
    return host.properties().kind == name ? host : comm::device_of_rank(name);
  } catch (const Error& error) {
    TESSERA_THROW(InvalidArgument, "run.device: must be auto or a device of this machine, got '", name, "'; ",
                  error.message());
  }
}

// Returns the device of this kind for this rank, if a run can use it; otherwise sets the reason.
std::optional<device::Device> usable(const std::string& kind, const Config& config, ModelUse use,
                                     std::string& why_not) {
  try {
    const device::Device device = comm::device_of_rank(kind);
    why_not = comm::why_not_connected(kind);
    if (why_not.empty()) why_not = what_is_missing(device, config, use);
    if (why_not.empty()) return device;
  } catch (const NotSupported& error) {
    why_not = error.message();
  }
  return std::nullopt;
}

}  // namespace

ChosenDevice choose_device(const Config& config, ModelUse use) {
  const std::string& name = config.run.device;
  if (name != "auto") {
    const device::Device device = named(name);
    if (is_host(device)) return {device};
    const std::string apart = comm::why_not_connected(device.properties().kind);
    TESSERA_CHECK(apart.empty(), "run.device: ", name, " must connect the ranks, got: ", apart, "; use host");
    if (is_own(config.model)) return {device};
    const std::string missing = what_is_missing(device, config, use);
    TESSERA_CHECK(missing.empty(), "run.device: ", name, " must have every operator of ", config.model.family,
                  ", got: ", missing, "; use auto");
    return {device};
  }
  ChosenDevice host{tensor::host_device()};
  if (is_own(config.model)) return host;
  for (const std::string& kind : other_kinds()) {
    std::string why_not;
    if (const auto device = usable(kind, config, use, why_not)) return {*device};
    host.why_not += (host.why_not.empty() ? "" : "; ") + why_not;
  }
  return host;
}

}  // namespace tessera::train::detail
