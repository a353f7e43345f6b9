// The checkpoint state of a trainer besides its parameters, and resuming from it. The samples of a step depend only on
// its number (Plan::sample_numbers), so the position in the data is the step: batches read ahead are not stored.
#include <nlohmann/json.hpp>

#include "tessera/autograd/autograd.h"
#include "tessera/base/error.h"
#include "tessera/nn/lora.h"
#include "tessera/ops/create/generator.h"
#include "tessera/train/checkpoint/checkpoint.h"
#include "tessera/train/detail/trainer_state.h"
#include "tessera/train/trainer.h"

namespace tessera::train {

BatchSource read_ahead(const Config& config, Samples training) {
  struct Reading {
    std::unique_ptr<ReadAhead> ahead = {};
    std::uint64_t next = 0;
  };
  return [reading = std::make_shared<Reading>(), training = std::move(training), numbers = own_samples(config),
          sequence = config.model.sequence, depth = config.data.read_ahead](std::uint64_t k) {
    if (!reading->ahead || reading->next != k) {
      reading->ahead = std::make_unique<ReadAhead>(
          training, sequence, [numbers, k](std::uint64_t batch) { return numbers(k + batch); }, depth);
      reading->next = k;
    }
    ++reading->next;
    return reading->ahead->next();
  };
}

void Trainer::before_update(std::int64_t step, std::function<void(const StepReport&, const StepActivations&)> look) {
  state_->looked_at_step = step;
  state_->before_update = std::move(look);
}

CheckpointState Trainer::checkpoint_state() const {
  state_->check_no_step_ahead("checkpoint_state");
  CheckpointState out;
  const std::vector<nn::NamedTensor> parameters = named_leaves(model());
  for (const auto& [name, leaf] : parameters) {
    if (state_->config.lora.rank == 0 || nn::is_lora_parameter(name))
      out.tensors.emplace_back("parameters/" + name, leaf.detach());
  }
  for (auto& [name, tensor] : state_->optimizer->state(parameters)) {
    out.tensors.emplace_back("optimizer/" + name, std::move(tensor));
  }
  const ops::GeneratorState random = ops::generator_state();
  nlohmann::ordered_json json = {
      {"step", state_->steps}, {"random", {{"seed", random.seed}, {"call", random.call}}}, {"mean_norm", nullptr}};
  if (state_->mean_norm) json["mean_norm"] = *state_->mean_norm;
  out.texts["trainer"] = json.dump();
  out.on_copied = [state = state_.get()](const device::Event& copied) { state->update_after.push_back(copied); };
  return out;
}

CheckpointState Trainer::initial_weights() const {
  CheckpointState out;
  for (const auto& [name, leaf] : named_leaves(model())) {
    if (!nn::is_lora_parameter(name)) out.tensors.emplace_back("parameters/" + name, leaf.detach());
  }
  return out;
}

void Trainer::continue_from(const std::map<std::string, std::string>& texts) {
  state_->check_no_step_ahead("continue_from");
  const auto text = texts.find("trainer");
  TESSERA_CHECK_AS(MismatchError, text != texts.end(),
                   "the checkpoint has no metadata 'trainer'; it is not from a training run");
  try {
    const nlohmann::json json = nlohmann::json::parse(text->second);
    const std::int64_t steps = json.at("step");
    const ops::GeneratorState random{.seed = json.at("random").at("seed"), .call = json.at("random").at("call")};
    std::optional<double> mean_norm;
    if (!json.at("mean_norm").is_null()) mean_norm = json.at("mean_norm").get<double>();
    TESSERA_CHECK_AS(MismatchError, steps >= 0, "checkpoint: step must be at least 0, got ", steps);
    state_->steps = steps;
    state_->mean_norm = mean_norm;
    ops::set_generator_state(random);
  } catch (const nlohmann::json::exception& error) {
    TESSERA_THROW(MismatchError, "checkpoint metadata 'trainer' cannot be read (", error.what(),
                  "); was it written by another version?");
  }
}

}  // namespace tessera::train
