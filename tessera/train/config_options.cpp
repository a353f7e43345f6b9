// The table of options: a row for each field of Config, in the order of the fields.
#include <algorithm>

#include "tessera/nn/language_model.h"
#include "tessera/train/config.h"

namespace tessera::train {
namespace {

constexpr OptionRange kAny{};
constexpr OptionRange kCount{.least = 1};
constexpr OptionRange kNumber{.least = 0};
constexpr OptionRange kPositive{.least = 0, .is_open_below = true};
constexpr OptionRange kShare{.least = 0, .most = 1};
constexpr OptionRange kExact{.least = 0, .most = 9007199254740992};  // 2^53: exact in TOML, JSON and doubles
constexpr OptionRange kBelowOne{.least = 0, .most = 1, .is_open_above = true};

// Returns the location of a field of a section.
template <class Section, class Field>
std::function<Option::Place(Config&)> at(Section Config::*section, Field Section::*field) {
  return [=](Config& config) -> Option::Place { return &(config.*section.*field); };
}

// Returns the option with values that may differ between the ranks of a run.
Option per_rank(Option option) {
  option.may_differ = true;
  return option;
}

// Presets of all families; those of one family come first.
std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const std::string& family : nn::model_family_names()) {
    for (const nn::Preset& preset : nn::model_family(family).presets) {
      if (std::ranges::find(names, preset.name) == names.end()) names.emplace_back(preset.name);
    }
  }
  return names;
}

// All families, and models of the user's own.
std::vector<std::string> family_names() {
  std::vector<std::string> names = nn::model_family_names();
  names.emplace_back(kOwnFamily);
  return names;
}

using Rows = std::vector<Option>;

void add(Rows& table, Rows rows) {
  for (Option& row : rows) table.push_back(std::move(row));
}

Rows model_options() {
  using M = ModelConfig;
  constexpr auto kModel = &Config::model;
  return {
      {"model.family",
       "Family of models (short form: --model); own: that of a program that calls train::run(task, config)",
       at(kModel, &M::family), kAny, family_names()},
      {"model.preset", "Preset of model sizes; other model options override it", at(kModel, &M::preset), kAny,
       preset_names()},
      {"model.width", "Width of the residual stream, a multiple of model.heads; 0: value of the preset",
       at(kModel, &M::width), kNumber},
      {"model.layers", "Number of blocks; 0: value of the preset", at(kModel, &M::layers), kNumber},
      {"model.heads", "Number of query heads; 0: value of the preset", at(kModel, &M::heads), kNumber},
      {"model.kv_heads", "Number of key and value heads, a divisor of model.heads; 0: value of the preset",
       at(kModel, &M::kv_heads), kNumber},
      {"model.hidden", "Width of the feed-forward layer; 0: value of the preset", at(kModel, &M::hidden), kNumber},
      {"model.vocabulary", "Size of the vocabulary; 0: value of the preset", at(kModel, &M::vocabulary), kNumber},
      {"model.sequence", "Tokens per sample; 0: value of the preset", at(kModel, &M::sequence), kNumber},
      {"model.tied", "Share the weights of the embedding and the output head", at(kModel, &M::tied)},
      {"model.dropout", "Dropout probability on the output of each block", at(kModel, &M::dropout), kBelowOne},
      {"model.norm_eps", "Epsilon of the norms", at(kModel, &M::norm_eps), kPositive},
      {"model.head_width", "Width of a head, even; 0: model.width / model.heads", at(kModel, &M::head_width), kNumber},
      {"model.qkv_bias", "Add biases to query, key and value (llama; gpt2 always does)", at(kModel, &M::qkv_bias)},
      {"model.qk_norm", "Normalize each query and key head (llama)", at(kModel, &M::qk_norm)},
      {"model.window", "Number of keys that a query attends to, its own included (llama); 0: all before it",
       at(kModel, &M::window), kNumber},
      {"model.activation",
       "Activation of the feed-forward layer; auto: that of the family",
       at(kModel, &M::activation),
       kAny,
       {"auto", "gelu", "gelu_tanh", "relu", "silu"}},
      {"model.rope_base", "Base of the rotary position embedding", at(kModel, &M::rope_base), kPositive},
      {"model.rope_factor", "Divisor of rotary positions, for contexts longer than those of the training",
       at(kModel, &M::rope_factor), kPositive},
      {"model.rope_context", "Context of the training, to apply model.rope_factor by frequency; 0: to all frequencies",
       at(kModel, &M::rope_context), kNumber},
      {"model.rope_low_turns", "With model.rope_context: fewer turns are divided fully", at(kModel, &M::rope_low_turns),
       kPositive},
      {"model.rope_high_turns", "With model.rope_context: more turns are not divided", at(kModel, &M::rope_high_turns),
       kPositive},
  };
}

Rows mesh_options() {
  using M = MeshConfig;
  constexpr auto kMesh = &Config::mesh;
  return {
      {"mesh.dp", "Number of replicas of the model state; 0: world size / (fsdp x tp)", at(kMesh, &M::dp), kNumber},
      {"mesh.fsdp", "Number of ranks that parameters, gradients and optimizer state are sharded over",
       at(kMesh, &M::fsdp), kCount},
      {"mesh.tp", "Number of ranks that heads, hidden units and vocabulary are sharded over", at(kMesh, &M::tp),
       kCount},
      {"mesh.sequence_parallel", "Shard the sequence over tp between blocks", at(kMesh, &M::sequence_parallel)},
      {"mesh.prefetch", "Gather the parameters of the next block (fsdp) while this one computes",
       at(kMesh, &M::prefetch)},
  };
}

Rows sharding_options() {
  using S = ShardingConfig;
  constexpr auto kSharding = &Config::sharding;
  return {
      {"sharding.batch", "Axes that shard samples, as dp+fsdp; none: replicated; auto: dp+fsdp",
       at(kSharding, &S::batch)},
      {"sharding.sequence", "Axes that shard positions between blocks; auto: tp with mesh.sequence_parallel",
       at(kSharding, &S::sequence)},
      {"sharding.position", "Axes that shard learned positions; auto: none", at(kSharding, &S::position)},
      {"sharding.embed", "Axes that shard the residual stream; auto: none", at(kSharding, &S::embed)},
      {"sharding.heads", "Axes that shard heads of attention; auto: tp", at(kSharding, &S::heads)},
      {"sharding.mlp", "Axes that shard hidden units; auto: tp", at(kSharding, &S::mlp)},
      {"sharding.vocab", "Axes that shard the vocabulary; auto: tp", at(kSharding, &S::vocab)},
      {"sharding.parameters", "Axis over which parameters are stored in shards and gathered for use; auto: fsdp",
       at(kSharding, &S::parameters)},
      {"sharding.other", "Row of a meaning that only the model knows, as MEANING=AXES", at(kSharding, &S::other)},
  };
}

Rows train_options() {
  using T = TrainConfig;
  constexpr auto kTrain = &Config::train;
  return {
      {"train.steps", "Number of steps", at(kTrain, &T::steps), kCount},
      {"train.batch", "Samples per step, over all ranks and micro-batches", at(kTrain, &T::batch), kCount},
      {"train.accumulate", "Micro-batches per step, with accumulated gradients", at(kTrain, &T::accumulate), kCount},
      {"train.dtype",
       "Data type of the blocks; parameters and reductions are f32",
       at(kTrain, &T::dtype),
       kAny,
       {"f32", "bf16"}},
      {"train.checkpointing",
       "Activation checkpointing: none, full (recompute each block) or selective (recompute all but attention)",
       at(kTrain, &T::checkpointing),
       kAny,
       {"none", "full", "selective"}},
      {"train.graph", "Capture the step, with its collectives, once and replay it (short form: --graph)",
       at(kTrain, &T::graph)},
      {"train.deterministic",
       "Use only kernels that give the same bits in every run, with more memory for attention on CUDA (short form: "
       "--deterministic)",
       at(kTrain, &T::deterministic)},
      {"train.seed", "Seed of initial weights, dropout and sample order", at(kTrain, &T::seed), kExact},
      {"train.on_nan",
       "Action if a loss or gradient is not finite: stop the run, or skip the step",
       at(kTrain, &T::on_nan),
       kAny,
       {"stop", "skip"}},
      {"train.spike", "Spike threshold: gradient norm relative to its running mean; 0: off", at(kTrain, &T::spike),
       kNumber},
      {"train.on_spike",
       "Action on a spike: stop the run, or skip the step",
       at(kTrain, &T::on_spike),
       kAny,
       {"stop", "skip"}},
      {"train.freeze", "Pattern of the paths of parameters that keep their values; * matches any text",
       at(kTrain, &T::freeze)},
  };
}

Rows lora_options() {
  using L = LoraConfig;
  constexpr auto kLora = &Config::lora;
  return {
      {"lora.rank", "Width of LoRA adapters, which alone are trained and saved; 0: none", at(kLora, &L::rank), kNumber},
      {"lora.alpha", "Scale of the adapters, times their rank", at(kLora, &L::alpha), kPositive},
      {"lora.modules", "Pattern of the paths of linear maps with an adapter; * matches any text",
       at(kLora, &L::modules)},
  };
}

Rows optimizer_options() {
  using O = OptimizerConfig;
  constexpr auto kOptimizer = &Config::optimizer;
  return {
      {"optimizer.kind", "Optimizer", at(kOptimizer, &O::kind), kAny, {"adamw", "sgd"}},
      {"optimizer.learning_rate", "Peak learning rate; the schedule scales it", at(kOptimizer, &O::learning_rate),
       kPositive},
      {"optimizer.beta1", "Decay rate of the first moment (adamw)", at(kOptimizer, &O::beta1), kBelowOne},
      {"optimizer.beta2", "Decay rate of the second moment (adamw)", at(kOptimizer, &O::beta2), kBelowOne},
      {"optimizer.eps", "Epsilon in the denominator (adamw)", at(kOptimizer, &O::eps), kPositive},
      {"optimizer.weight_decay", "Weight decay of matrices; norms and the embedding have none",
       at(kOptimizer, &O::weight_decay), kNumber},
      {"optimizer.momentum", "Momentum (sgd)", at(kOptimizer, &O::momentum), kBelowOne},
      {"optimizer.clip", "Maximum global gradient norm; 0: no clipping", at(kOptimizer, &O::clip), kNumber},
  };
}

Rows schedule_options() {
  using S = ScheduleConfig;
  constexpr auto kSchedule = &Config::schedule;
  return {
      {"schedule.kind",
       "Schedule of the learning rate: cosine, wsd (warm-up, stable, decay) or constant",
       at(kSchedule, &S::kind),
       kAny,
       {"cosine", "wsd", "constant"}},
      {"schedule.warmup", "Number of steps in which the learning rate rises from 0", at(kSchedule, &S::warmup),
       kNumber},
      {"schedule.decay", "Share of the steps in which the learning rate falls (wsd)", at(kSchedule, &S::decay), kShare},
      {"schedule.floor", "Final learning rate as a share of the peak", at(kSchedule, &S::floor), kShare},
  };
}

Rows data_options() {
  using D = DataConfig;
  constexpr auto kData = &Config::data;
  return {
      per_rank({"data.files", "Training data: PATH or PATH=WEIGHT; a directory means all files in it",
                at(kData, &D::files)}),
      per_rank({"data.held_out",
                "Evaluation data: PATH or PATH=WEIGHT; if omitted, the last data.held_out_share of each training file",
                at(kData, &D::held_out)}),
      {"data.held_out_share", "Held-out share of each training file, in complete samples",
       at(kData, &D::held_out_share), kBelowOne},
      {"data.format",
       "Format: text, tokens (with header), u16 or u32 (without header); auto: tokens if a header is found, otherwise "
       "text",
       at(kData, &D::format),
       kAny,
       {"auto", "text", "tokens", "u16", "u32"}},
      per_rank({"data.tokenizer", "Tokenizer of text: bytes, or a tokenizer.json, or its directory",
                at(kData, &D::tokenizer)}),
      per_rank({"data.read_ahead", "Number of micro-batches to read ahead", at(kData, &D::read_ahead), kNumber}),
      {"data.pack", "Documents that share a sample do not attend to each other, and each begins at position 0",
       at(kData, &D::pack)},
  };
}

Rows eval_options() {
  using E = EvalConfig;
  constexpr auto kEval = &Config::eval;
  return {
      {"eval.every", "Steps between held-out evaluations; 0: only at the end", at(kEval, &E::every), kNumber},
      {"eval.samples", "Held-out samples per evaluation, the same each time", at(kEval, &E::samples), kCount},
  };
}

Rows checkpoint_options() {
  using C = CheckpointConfig;
  constexpr auto kCheckpoint = &Config::checkpoint;
  return {
      {"checkpoint.every", "Steps between checkpoints, plus one at the end; 0: only after a stop signal",
       at(kCheckpoint, &C::every), kNumber},
      {"checkpoint.keep", "Number of checkpoints to keep, the latest", at(kCheckpoint, &C::keep), kCount},
      {"checkpoint.directory", "Directory of checkpoints; if omitted, checkpoints/ in the run directory",
       at(kCheckpoint, &C::directory)},
      {"checkpoint.resume",
       "auto: resume from the last valid checkpoint in the directory, if one exists; never; or the path of a "
       "checkpoint to start from",
       at(kCheckpoint, &C::resume)},
      {"checkpoint.init",
       "Checkpoint, run directory, or model of transformers, whose weights a new run starts from (short form: --init)",
       at(kCheckpoint, &C::init)},
  };
}

Rows run_options() {
  using R = RunConfig;
  constexpr auto kRun = &Config::run;
  return {
      per_rank(
          {"run.directory", "Run directory; if omitted, TESSERA_RUN_DIR or ./runs/TIME-PID", at(kRun, &R::directory)}),
      per_rank({"run.progress",
                "Progress display: bar, lines or none; auto: bar on a terminal, otherwise lines",
                at(kRun, &R::progress),
                kAny,
                {"auto", "bar", "lines", "none"}}),
      per_rank({"run.log_every", "Steps between progress lines", at(kRun, &R::log_every), kCount}),
      {"run.sample", "Number of tokens to sample from the trained model at the end", at(kRun, &R::sample), kNumber},
      {"run.peak_flops", "Peak FLOP/s of the device of one rank, for the MFU; 0: unknown", at(kRun, &R::peak_flops),
       kNumber},
      {"run.dump_step", "Step whose parameters, gradients, optimizer state and activations are dumped; 0: none",
       at(kRun, &R::dump_step), kNumber},
      {"run.profile_steps", "Steps to profile, as A..B, with the memory at their end; if omitted, only on request",
       at(kRun, &R::profile_steps)},
      {"run.on_failure",
       "Action if a rank dies: the others stop, or resume from the last checkpoint as a shrunk world (shrink)",
       at(kRun, &R::on_failure),
       kAny,
       {"stop", "shrink"}},
      {"run.device", "Device of the ranks: host, or the name of another device; auto: the best that can run the model",
       at(kRun, &R::device)},
      {"run.shared", "Let the user group read the run directory (modes 0750 and 0640 instead of 0700 and 0600)",
       at(kRun, &R::shared)},
      {"run.check_replicas", "Steps between checks that replicas of parameters are bitwise equal; 0: no checks",
       at(kRun, &R::check_replicas), kNumber},
      {"run.force", "Start even if the predicted memory exceeds the free memory (short form: --force)",
       at(kRun, &R::force)},
  };
}

}  // namespace

std::span<const Option> options() {
  static const Rows kTable = [] {
    Rows table;
    for (auto rows : {model_options, mesh_options, sharding_options, train_options, lora_options, optimizer_options,
                      schedule_options, data_options, eval_options, checkpoint_options, run_options})
      add(table, rows());
    return table;
  }();
  return kTable;
}

}  // namespace tessera::train
