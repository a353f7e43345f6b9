// resolved(): resolves a configuration for a world size, or throws.
#include <string>

#include "tessera/base/error.h"
#include "tessera/nn/language_model.h"
#include "tessera/train/config.h"
#include "tessera/train/detail/option_values.h"
#include "tessera/train/plan.h"

namespace tessera::train {
namespace {

const nn::Preset& preset_of(const ModelConfig& model) {
  std::string names;
  for (const nn::Preset& preset : nn::model_family(model.family).presets) {
    if (preset.name == model.preset) return preset;
    names += (names.empty() ? "" : ", ") + std::string(preset.name);
  }
  TESSERA_THROW(InvalidArgument, "model.preset: must be one of ", names, " for model.family ", model.family, ", got '",
                model.preset, "'");
}

void fill_in(ModelConfig& model) {
  const nn::Preset& preset = preset_of(model);
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

void check_width(const ModelConfig& model) {
  TESSERA_CHECK(model.width % model.heads == 0, "model.width: must be a multiple of model.heads (", model.heads,
                "), got ", model.width, "; use ", model.width / model.heads * model.heads, " or ",
                (model.width / model.heads + 1) * model.heads, ", or change model.heads");
  TESSERA_CHECK(model.width / model.heads % 2 == 0, "model.width / model.heads: must be even, got ", model.width, " / ",
                model.heads, " = ", model.width / model.heads, "; change model.width or model.heads");
}

void check_model(const ModelConfig& model) {
  if (model.head_width > 0) {
    TESSERA_CHECK(model.head_width % 2 == 0, "model.head_width: must be even, got ", model.head_width);
  } else {
    check_width(model);
  }
  TESSERA_CHECK(model.heads % model.kv_heads == 0, "model.kv_heads: must divide model.heads (", model.heads, "), got ",
                model.kv_heads);
  TESSERA_CHECK(model.rope_context == 0 || model.rope_low_turns < model.rope_high_turns,
                "model.rope_low_turns: must be below model.rope_high_turns (", model.rope_high_turns, "), got ",
                model.rope_low_turns);
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
    TESSERA_CHECK(world_size % cut == 0, "mesh.fsdp ", mesh.fsdp, " x mesh.tp ", mesh.tp, " must divide the world of ",
                  world_size, world_size == 1 ? " rank" : " ranks", ", got ", cut, "; the product must be one of ",
                  divisors(world_size), ", or start a multiple of ", cut, " ranks (-n)");
    mesh.dp = static_cast<int>(world_size / cut);
  }
  const std::int64_t product = mesh.dp * cut;
  if (product == world_size) return;
  std::string way_out = "start " + std::to_string(product) + " ranks (-n " + std::to_string(product) + ")";
  if (world_size % cut == 0)
    way_out += ", or use mesh.dp " + std::to_string(world_size / cut) + " (or 0, which selects it)";
  TESSERA_THROW(InvalidArgument, "mesh.dp ", mesh.dp, " x mesh.fsdp ", mesh.fsdp, " x mesh.tp ", mesh.tp,
                " must equal the world of ", world_size, world_size == 1 ? " rank" : " ranks", ", got ", product, "; ",
                way_out);
}

// Checks that the rows of the sharding table divide the sizes of the model and the batch.
class ShardingCheck {
 public:
  explicit ShardingCheck(const Config& config)
      : config_(config),
        mesh_(layout::Mesh::create({{"dp", config.mesh.dp}, {"fsdp", config.mesh.fsdp}, {"tp", config.mesh.tp}})),
        table_(sharding_table(config, mesh_)) {}

  void check_model() const {
    const ShardingConfig& rows = config_.sharding;
    check("model.heads", config_.model.heads, "heads", rows.heads);
    check("model.kv_heads", config_.model.kv_heads, "heads", rows.heads);
    check("model.hidden", config_.model.hidden, "mlp", rows.mlp);
    check("model.vocabulary", config_.model.vocabulary, "vocab", rows.vocab);
    check("model.sequence", config_.model.sequence, "sequence", rows.sequence);
  }
  void check_batch() const {
    const TrainConfig& train = config_.train;
    const std::int64_t parts = ranks_of("batch") * train.accumulate;
    const std::string& row = config_.sharding.batch;
    const std::string axes =
        row == "auto" ? tessera::detail::concat("mesh.dp ", config_.mesh.dp, " x mesh.fsdp ", config_.mesh.fsdp)
                      : "sharding.batch " + row;
    TESSERA_CHECK(train.batch % parts == 0, "train.batch: must be a multiple of ", parts, " (", axes,
                  " x train.accumulate ", train.accumulate, "), got ", train.batch, "; use ",
                  (train.batch / parts + 1) * parts);
  }

 private:
  [[nodiscard]] std::int64_t ranks_of(const std::string& meaning) const {
    std::int64_t ranks = 1;
    for (const std::string& axis : table_.rows().at(meaning)) ranks *= mesh_.axis(mesh_.index_of(axis)).size;
    return ranks;
  }
  void check(const char* name, std::int64_t value, const std::string& meaning, const std::string& row) const {
    const std::int64_t ranks = ranks_of(meaning);
    const std::string source = row == "auto" ? "mesh.tp" : "sharding." + meaning;
    TESSERA_CHECK(value % ranks == 0, name, ": must be a multiple of ",
                  row == "auto" ? source : source + " = \"" + row + "\"", " (", ranks, "), got ", value, "; use ",
                  (value / ranks + 1) * ranks, ", or change ", source);
  }

  const Config& config_;
  layout::Mesh mesh_;
  nn::ShardingTable table_;
};

// Rejects steps that are never reached.
void check_asked_steps(const Config& config) {
  const std::int64_t steps = config.train.steps;
  const std::int64_t first = profiled_steps(config.run).first;
  TESSERA_CHECK(first <= steps, "run.profile_steps: must begin at or before train.steps (", steps, "), got '",
                config.run.profile_steps, "'");
  TESSERA_CHECK(config.run.dump_step <= steps, "run.dump_step: must be at most train.steps (", steps, "), got ",
                config.run.dump_step);
}

}  // namespace

Config resolved(Config config, int world_size) {
  TESSERA_CHECK(world_size >= 1, "world size: must be at least 1, got ", world_size);
  for (const Option& option : options()) detail::check_value(option, config);
  if (!is_own(config.model)) {
    fill_in(config.model);
    check_model(config.model);
  }
  fit_world(config.mesh, world_size);
  const ShardingCheck sharding(config);
  if (!is_own(config.model)) sharding.check_model();
  sharding.check_batch();
  TESSERA_CHECK(config.schedule.warmup <= config.train.steps, "schedule.warmup: must be at most train.steps (",
                config.train.steps, "), got ", config.schedule.warmup);
  check_asked_steps(config);
  TESSERA_CHECK(config.lora.rank == 0 || !config.checkpoint.init.empty(),
                "lora.rank: requires the weights of a trained model, got ", config.lora.rank,
                " without checkpoint.init; use --init CHECKPOINT");
  TESSERA_CHECK(!config.data.pack || !config.train.graph,
                "data.pack: requires steps without train.graph, since documents differ from step to step; omit one");
  TESSERA_CHECK(!config.checkpoint.resume.empty(), "checkpoint.resume: must be auto, never or a path, got ''");
  return config;
}

}  // namespace tessera::train
