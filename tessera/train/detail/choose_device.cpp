#include "tessera/train/detail/choose_device.h"

#include <memory>
#include <vector>

#include "tessera/autograd/autograd.h"
#include "tessera/base/error.h"
#include "tessera/base/rank.h"
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

// Returns why a model cannot be trained on a device; empty if it can.
std::string what_is_missing(const device::Device& device, const Config& config) {
  const GeneratorScope restored;
  const tensor::DeviceScope scope(device);
  try {
    const Config trial = small(config);
    const auto model = make_model(trial, ParallelPlan::create(trial, 1), std::make_shared<shard::ExposedTime>());
    const auto optimizer = make_optimizer(trial.optimizer, model->module());
    const Tensor tokens = ops::zeros({1, trial.model.sequence}, {.dtype = DType::kI32});
    autograd::backward(model->loss(tokens, tokens, 0));
    optimizer->step();
    device.synchronize();
  } catch (const Error& error) {
    return error.message();
  }
  return {};
}

bool is_host(const device::Device& device) { return device.state() == tensor::host_device().state(); }

// Returns the device of this name. A kind without an index stands for the device of that kind of this rank.
device::Device named(const std::string& name) {
  std::vector<device::Device> of_kind;
  for (const device::Device& each : device::Device::all()) {
    if (each.properties().kind == name) of_kind.push_back(each);
  }
  if (!of_kind.empty()) return of_kind[static_cast<std::size_t>(current_place().local_rank) % of_kind.size()];
  try {
    return device::Device::get(name);
  } catch (const Error& error) {
    TESSERA_THROW(InvalidArgument, "run.device: must be auto or a device of this machine, got '", name, "'; ",
                  error.message());
  }
}

}  // namespace

device::Device choose_device(const Config& config) {
  const std::string& name = config.run.device;
  if (name != "auto") {
    device::Device device = named(name);
    if (is_host(device) || is_own(config.model)) return device;
    const std::string missing = what_is_missing(device, config);
    TESSERA_CHECK(missing.empty(), "run.device: ", name, " must have every operator of ", config.model.family,
                  ", got: ", missing, "; use auto");
    return device;
  }
  if (current_place().world_size > 1 || is_own(config.model)) return tensor::host_device();
  for (const device::Device& each : device::Device::all()) {
    if (!is_host(each) && what_is_missing(each, config).empty()) return each;
  }
  return tensor::host_device();
}

}  // namespace tessera::train::detail
