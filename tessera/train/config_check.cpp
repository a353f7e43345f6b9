// resolved(): resolves a configuration for a world size, or throws.
#include <string>

#include "tessera/base/error.h"
#include "tessera/train/config.h"
#include "tessera/train/detail/option_values.h"

namespace tessera::train {
namespace {

const Preset& preset_of(const ModelConfig& model) {
  for (const Preset& preset : presets()) {
    if (preset.name == model.preset) return preset;
  }
  TESSERA_THROW(InvalidArgument, "model.preset is '", model.preset, "', of which there are no numbers");
}

void fill_in(ModelConfig& model) {
  const Preset& preset = preset_of(model);
  const auto fill = [](std::int64_t& field, std::int64_t number) {
    if (field == 0) field = number;
  };
  fill(model.width, preset.width);
  fill(model.layers, preset.layers);
  fill(model.heads, preset.heads);
  fill(model.kv_heads, preset.kv_heads);
  fill(model.hidden, preset.hidden);
  fill(model.vocabulary, preset.vocabulary);
  fill(model.sequence, preset.sequence);
}

void check_model(const ModelConfig& model) {
  TESSERA_CHECK(model.width % model.heads == 0, "model.width is ", model.width, ", which ", model.heads,
                " heads (model.heads) do not divide; take a width of ", model.width / model.heads * model.heads, " or ",
                (model.width / model.heads + 1) * model.heads, ", or other heads");
  TESSERA_CHECK(model.width / model.heads % 2 == 0, "model.width ", model.width, " over model.heads ", model.heads,
                " is ", model.width / model.heads,
                " numbers a head; positions turn pairs of them, so it must be even: take other heads or width");
  TESSERA_CHECK(model.heads % model.kv_heads == 0, "model.kv_heads is ", model.kv_heads,
                ", which does not divide model.heads, ", model.heads, "; each head of keys serves as many of queries");
}

// Returns the divisors of a number, as "1, 2, 4".
std::string divisors(std::int64_t number) {
  std::string text;
  for (std::int64_t divisor = 1; divisor <= number; ++divisor) {
    if (number % divisor == 0) text += (text.empty() ? "" : ", ") + std::to_string(divisor);
  }
  return text;
}

void fit_world(MeshConfig& mesh, int world_size) {
  const std::int64_t cut = std::int64_t{mesh.fsdp} * mesh.tp;
  if (mesh.dp == 0) {
    TESSERA_CHECK(world_size % cut == 0, "mesh.fsdp ", mesh.fsdp, " x mesh.tp ", mesh.tp, " is ", cut,
                  ", which does not divide the world of ", world_size, world_size == 1 ? " rank" : " ranks",
                  "; their product must be one of ", divisors(world_size), ", or start a multiple of ", cut,
                  " ranks (-n)");
    mesh.dp = static_cast<int>(world_size / cut);
  }
  const std::int64_t product = mesh.dp * cut;
  if (product == world_size) return;
  std::string way_out = "start " + std::to_string(product) + " ranks (-n " + std::to_string(product) + ")";
  if (world_size % cut == 0) way_out += ", or take mesh.dp " + std::to_string(world_size / cut) + " (or 0: what fits)";
  TESSERA_THROW(InvalidArgument, "mesh.dp ", mesh.dp, " x mesh.fsdp ", mesh.fsdp, " x mesh.tp ", mesh.tp, " is ",
                product, ", but the world has ", world_size, world_size == 1 ? " rank" : " ranks", "; ", way_out);
}

void check_cut(const char* name, std::int64_t value, int tp) {
  TESSERA_CHECK(value % tp == 0, name, " is ", value, ", which does not divide into mesh.tp ", tp,
                " equal parts; take a multiple of ", tp, ", such as ", (value / tp + 1) * tp,
                ", or a tp that divides it");
}

void check_cuts(const Config& config) {
  const int tp = config.mesh.tp;
  check_cut("model.heads", config.model.heads, tp);
  check_cut("model.kv_heads", config.model.kv_heads, tp);
  check_cut("model.hidden", config.model.hidden, tp);
  check_cut("model.vocabulary", config.model.vocabulary, tp);
  if (config.mesh.sequence_parallel) check_cut("model.sequence", config.model.sequence, tp);
}

void check_batch(const TrainConfig& train, const MeshConfig& mesh) {
  const std::int64_t parts = std::int64_t{mesh.dp} * mesh.fsdp * train.accumulate;
  TESSERA_CHECK(train.batch % parts == 0, "train.batch is ", train.batch, ", but mesh.dp ", mesh.dp, " x mesh.fsdp ",
                mesh.fsdp, " x train.accumulate ", train.accumulate, " micro-batches of a step share it; take ",
                (train.batch / parts + 1) * parts, " or another multiple of ", parts);
}

// Rejects steps that are never reached.
void check_asked_steps(const Config& config) {
  const std::int64_t steps = config.train.steps;
  const std::int64_t first = profiled_steps(config.run).first;
  TESSERA_CHECK(first <= steps, "run.profile_steps is '", config.run.profile_steps, "', but train.steps is ", steps,
                ": there is no step ", first, "; name steps of the run, 1 to ", steps);
  TESSERA_CHECK(config.run.dump_step <= steps, "run.dump_step is ", config.run.dump_step, ", but train.steps is ",
                steps, ": there is no such step; name one of the run, 1 to ", steps);
}

}  // namespace

Config resolved(Config config, int world_size) {
  TESSERA_CHECK(world_size >= 1, "a world has at least one rank, not ", world_size);
  for (const Option& option : options()) detail::check_value(option, config);
  fill_in(config.model);
  check_model(config.model);
  fit_world(config.mesh, world_size);
  check_cuts(config);
  check_batch(config.train, config.mesh);
  TESSERA_CHECK(config.schedule.warmup <= config.train.steps, "schedule.warmup is ", config.schedule.warmup,
                " steps, but train.steps is ", config.train.steps, "; the warm-up must end within the run");
  check_asked_steps(config);
  TESSERA_CHECK(!config.checkpoint.resume.empty(), "checkpoint.resume is ''; it must be auto, never, or a path");
  return config;
}

}  // namespace tessera::train
