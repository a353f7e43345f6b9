// The table of options: a row for each field of Config, in the order of the fields.
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

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const Preset& preset : presets()) names.emplace_back(preset.name);
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
      {"model.preset", "Numbers to start from; those given beside it win", at(kModel, &M::preset), kAny,
       preset_names()},
      {"model.width", "Width of the residual stream, a multiple of heads; 0: the preset's", at(kModel, &M::width),
       kNumber},
      {"model.layers", "Blocks; 0: the preset's", at(kModel, &M::layers), kNumber},
      {"model.heads", "Heads of queries; 0: the preset's", at(kModel, &M::heads), kNumber},
      {"model.kv_heads", "Heads of keys and values, a divisor of heads; 0: the preset's", at(kModel, &M::kv_heads),
       kNumber},
      {"model.hidden", "Width of the feed-forward part; 0: the preset's", at(kModel, &M::hidden), kNumber},
      {"model.vocabulary", "Tokens there are; 0: the preset's", at(kModel, &M::vocabulary), kNumber},
      {"model.sequence", "Tokens of one sample; 0: the preset's", at(kModel, &M::sequence), kNumber},
      {"model.tied", "The head is the embedding", at(kModel, &M::tied)},
      {"model.dropout", "Share of what a block adds to the residual stream that is dropped", at(kModel, &M::dropout),
       kBelowOne},
      {"model.rope_base", "Base of the angles of positions", at(kModel, &M::rope_base), kPositive},
      {"model.norm_eps", "Added to mean squares in norms", at(kModel, &M::norm_eps), kPositive},
  };
}

Rows mesh_options() {
  using M = MeshConfig;
  constexpr auto kMesh = &Config::mesh;
  return {
      {"mesh.dp", "Copies of the whole model state; 0: what fsdp and tp leave of the ranks", at(kMesh, &M::dp),
       kNumber},
      {"mesh.fsdp", "Ranks that parameters, gradients and optimizer state are cut over", at(kMesh, &M::fsdp), kCount},
      {"mesh.tp", "Ranks that heads, hidden units and vocabulary are cut over", at(kMesh, &M::tp), kCount},
      {"mesh.sequence_parallel", "Between blocks the sequence is cut over tp", at(kMesh, &M::sequence_parallel)},
      {"mesh.prefetch", "fsdp gathers the next block's parameters while this one computes", at(kMesh, &M::prefetch)},
  };
}

Rows train_options() {
  using T = TrainConfig;
  constexpr auto kTrain = &Config::train;
  return {
      {"train.steps", "Steps to take", at(kTrain, &T::steps), kCount},
      {"train.batch", "Samples of one step, over all ranks and micro-batches", at(kTrain, &T::batch), kCount},
      {"train.accumulate", "Micro-batches of one step, whose gradients are added up", at(kTrain, &T::accumulate),
       kCount},
      {"train.dtype",
       "That blocks compute in; parameters and reductions are f32",
       at(kTrain, &T::dtype),
       kAny,
       {"f32", "bf16"}},
      {"train.checkpointing",
       "What backward computes again instead of keeping it: none, full (each block), selective (all but attention)",
       at(kTrain, &T::checkpointing),
       kAny,
       {"none", "full", "selective"}},
      {"train.graph", "The step, collectives included, is captured once and replayed (--graph is short for it)",
       at(kTrain, &T::graph)},
      {"train.seed", "Of initial weights, dropout and the order of samples", at(kTrain, &T::seed), kExact},
      {"train.on_nan",
       "A loss or gradient that is not finite: stop the run, or skip the step",
       at(kTrain, &T::on_nan),
       kAny,
       {"stop", "skip"}},
      {"train.spike", "A gradient norm that many times its running mean is a spike; 0: none is", at(kTrain, &T::spike),
       kNumber},
      {"train.on_spike", "A spike: stop the run, or skip the step", at(kTrain, &T::on_spike), kAny, {"stop", "skip"}},
  };
}

Rows optimizer_options() {
  using O = OptimizerConfig;
  constexpr auto kOptimizer = &Config::optimizer;
  return {
      {"optimizer.kind", "What parameters are updated by", at(kOptimizer, &O::kind), kAny, {"adamw", "sgd"}},
      {"optimizer.learning_rate", "The largest; the schedule scales it", at(kOptimizer, &O::learning_rate), kPositive},
      {"optimizer.beta1", "Of adamw: what is kept of the mean of gradients", at(kOptimizer, &O::beta1), kBelowOne},
      {"optimizer.beta2", "Of adamw: what is kept of the mean of their squares", at(kOptimizer, &O::beta2), kBelowOne},
      {"optimizer.eps", "Of adamw: added to what is divided by", at(kOptimizer, &O::eps), kPositive},
      {"optimizer.weight_decay", "Of matrices; norms and the embedding have none", at(kOptimizer, &O::weight_decay),
       kNumber},
      {"optimizer.momentum", "Of sgd", at(kOptimizer, &O::momentum), kBelowOne},
      {"optimizer.clip", "Largest norm of all gradients together; 0: they are not clipped", at(kOptimizer, &O::clip),
       kNumber},
  };
}

Rows schedule_options() {
  using S = ScheduleConfig;
  constexpr auto kSchedule = &Config::schedule;
  return {
      {"schedule.kind",
       "How the learning rate falls: cosine, wsd (warm-up, stable, decay) or constant",
       at(kSchedule, &S::kind),
       kAny,
       {"cosine", "wsd", "constant"}},
      {"schedule.warmup", "Steps in which it rises from 0", at(kSchedule, &S::warmup), kNumber},
      {"schedule.decay", "Of wsd: share of the steps in which it falls", at(kSchedule, &S::decay), kShare},
      {"schedule.floor", "Share of the learning rate that is left at the end", at(kSchedule, &S::floor), kShare},
  };
}

Rows data_options() {
  using D = DataConfig;
  constexpr auto kData = &Config::data;
  return {
      per_rank(
          {"data.files", "What to train on: PATH or PATH=WEIGHT; a directory: every file in it", at(kData, &D::files)}),
      per_rank({"data.held_out",
                "What to evaluate on, likewise; not given: the last held_out_share of each training file",
                at(kData, &D::held_out)}),
      {"data.held_out_share", "Of each training file, in whole samples", at(kData, &D::held_out_share), kBelowOne},
      {"data.format",
       "text, tokens (with header), u16, u32 (without); auto: by header, else text",
       at(kData, &D::format),
       kAny,
       {"auto", "text", "tokens", "u16", "u32"}},
      per_rank({"data.tokenizer", "Of text: bytes, or the path of a tokenizer.json", at(kData, &D::tokenizer)}),
      per_rank({"data.read_ahead", "Micro-batches that are read before they are needed", at(kData, &D::read_ahead),
                kNumber}),
  };
}

Rows eval_options() {
  using E = EvalConfig;
  constexpr auto kEval = &Config::eval;
  return {
      {"eval.every", "Steps between held-out evaluations; 0: only at the end", at(kEval, &E::every), kNumber},
      {"eval.samples", "Held-out samples of one evaluation, the same each time", at(kEval, &E::samples), kCount},
  };
}

Rows checkpoint_options() {
  using C = CheckpointConfig;
  constexpr auto kCheckpoint = &Config::checkpoint;
  return {
      {"checkpoint.every", "Steps between checkpoints, and one at the end; 0: only when the run is asked to stop",
       at(kCheckpoint, &C::every), kNumber},
      {"checkpoint.keep", "How many of them stay, the last ones", at(kCheckpoint, &C::keep), kCount},
      {"checkpoint.directory", "Where they go; not given: checkpoints/ of the run directory",
       at(kCheckpoint, &C::directory)},
      {"checkpoint.resume",
       "auto: go on from the last good checkpoint of the directory, if there is one; never; or the path of one to "
       "begin from",
       at(kCheckpoint, &C::resume)},
  };
}

Rows run_options() {
  using R = RunConfig;
  constexpr auto kRun = &Config::run;
  return {
      per_rank({"run.directory", "Where the run leaves its files; not given: TESSERA_RUN_DIR, else ./runs/TIME-PID",
                at(kRun, &R::directory)}),
      per_rank({"run.progress",
                "bar, lines or none; auto: a bar on a terminal, else lines",
                at(kRun, &R::progress),
                kAny,
                {"auto", "bar", "lines", "none"}}),
      per_rank({"run.log_every", "Steps between lines", at(kRun, &R::log_every), kCount}),
      {"run.sample", "Tokens of text that the trained model is asked for at the end", at(kRun, &R::sample), kNumber},
      {"run.peak_flops", "Of one rank's device, a second, to relate speed to; 0: unknown", at(kRun, &R::peak_flops),
       kNumber},
      {"run.dump_step", "Step whose parameters, gradients, optimizer state and activations are written; 0: of none",
       at(kRun, &R::dump_step), kNumber},
      {"run.profile_steps", "A..B: steps that are profiled, with the memory at their end; not given: when asked to",
       at(kRun, &R::profile_steps)},
      {"run.on_failure",
       "When a rank dies: the others stop, or go on from the last checkpoint as a smaller world (shrink)",
       at(kRun, &R::on_failure),
       kAny,
       {"stop", "shrink"}},
      {"run.shared", "Let members of the group read the run directory (modes 0750 and 0640, else 0700 and 0600)",
       at(kRun, &R::shared)},
      {"run.check_replicas", "Steps between checks that replicas of parameters are bitwise equal; 0: no checks",
       at(kRun, &R::check_replicas), kNumber},
      {"run.force", "Start even if the predicted memory exceeds the free memory (--force is short for it)",
       at(kRun, &R::force)},
  };
}

}  // namespace

std::span<const Option> options() {
  static const Rows kTable = [] {
    Rows table;
    for (auto rows : {model_options, mesh_options, train_options, optimizer_options, schedule_options, data_options,
                      eval_options, checkpoint_options, run_options})
      add(table, rows());
    return table;
  }();
  return kTable;
}

}  // namespace tessera::train
