// The configuration of a training run as one value. Each field is one option. Its name SECTION.FIELD is the same in a
// TOML file, on the command line and in errors:
//
//   [model]                          tessera train --model.layers 6 --mesh.tp 2
//   layers = 6
//
// One table, options(), holds name, help, type and location of each option. The TOML reader, the command line, --help
// and the resolved configuration of a run use it. A new option needs a field here and a row there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/nn/model_config.h"
#include "tessera/nn/optim/schedule.h"

namespace tessera::train {

/// Sizes of the model.
using ModelConfig = nn::ModelConfig;

/// Value of model.family for a model of the user's own (task.h).
inline constexpr std::string_view kOwnFamily = "own";
/// Returns true if the model is the user's own: the other options of [model] do not apply.
inline bool is_own(const ModelConfig& model) { return model.family == kOwnFamily; }
/// Returns the unit of rates and data: "tokens", or "samples" of an own model.
inline std::string_view unit_of(const ModelConfig& model) { return is_own(model) ? "samples" : "tokens"; }

/// The mesh: dp x fsdp x tp ranks, in this order. tp varies fastest.
struct MeshConfig {
  int dp = 0;                     ///< Replicas of the model state. 0: the world size divided by fsdp * tp.
  int fsdp = 1;                   ///< Ranks that parameters, gradients and optimizer state are sharded over.
  int tp = 1;                     ///< Ranks that heads, hidden units and vocabulary are sharded over.
  bool sequence_parallel = true;  ///< Shards the sequence over tp between blocks.
  bool prefetch = true;  ///< Gathers the parameters of the next block over fsdp while the current one computes.
};

/// Rows of the sharding table (nn/sharding_table.h): for each meaning, the axes of the mesh that shard it, as
/// "dp+fsdp".
/// "none" or "": replicated. "auto": the row of nn::standard_sharding().
struct ShardingConfig {
  std::string batch = "auto";           ///< Samples.
  std::string sequence = "auto";        ///< Positions between blocks.
  std::string position = "auto";        ///< Learned positions.
  std::string embed = "auto";           ///< Residual stream.
  std::string heads = "auto";           ///< Heads of attention.
  std::string mlp = "auto";             ///< Hidden units.
  std::string vocab = "auto";           ///< Tokens of the vocabulary.
  std::string parameters = "auto";      ///< Stored parameters: one axis (FSDP).
  std::vector<std::string> other = {};  ///< "MEANING=AXES": rows of meanings that only the model knows.
};

/// Computation of a training step.
struct TrainConfig {
  std::int64_t steps = 1000;    ///< Steps of the run.
  std::int64_t batch = 8;       ///< Samples per step, over all ranks and micro-batches.
  std::int64_t accumulate = 1;  ///< Micro-batches per step.
  std::string dtype = "f32";    ///< Dtype of the blocks: f32 or bf16. Parameters and reductions are f32.
  /// none, full (recomputes each block in backward), selective (all but attention).
  std::string checkpointing = "none";
  bool graph = false;             ///< Captures the step once and replays it.
  bool deterministic = false;     ///< Uses only kernels that give the same bits in every run.
  std::uint64_t seed = 1;         ///< Seed of initial weights, dropout and sample order.
  std::string on_nan = "stop";    ///< Reaction to a loss or gradient that is not finite: stop, or skip the step.
  double spike = 0;               ///< Multiple of the running mean above which a gradient norm is a spike. 0: never.
  std::string on_spike = "skip";  ///< Reaction to a spike: stop or skip.
  /// Patterns of the paths of parameters that keep their values; "*" matches any text.
  std::vector<std::string> freeze = {};
};

/// LoRA adapters (nn/lora.h): only they are trained and saved.
struct LoraConfig {
  std::int64_t rank = 0;                          ///< Width of the adapters. 0: none.
  double alpha = 16;                              ///< Adapters are scaled by alpha / rank.
  std::vector<std::string> modules = {"*_proj"};  ///< Patterns of the paths of linear maps; "*" matches any text.
};

/// Update of the parameters.
struct OptimizerConfig {
  std::string kind = "adamw";   ///< adamw or sgd
  double learning_rate = 3e-3;  ///< Peak learning rate.
  double beta1 = 0.9;           ///< adamw: decay of the mean of gradients.
  double beta2 = 0.95;          ///< adamw: decay of the mean of squared gradients.
  double eps = 1e-8;            ///< adamw: added to the denominator.
  double weight_decay = 0.1;    ///< Weight decay of matrices. Norms and the embedding have none.
  double momentum = 0;          ///< sgd: momentum.
  double clip = 1;              ///< Maximum norm of all gradients. 0: no clipping.
};

/// Learning rate schedule.
using ScheduleConfig = nn::Schedule;

/// Training and held-out tokens.
struct DataConfig {
  std::vector<std::string> files = {};     ///< "PATH" or "PATH=WEIGHT". A directory stands for all its files.
  std::vector<std::string> held_out = {};  ///< Same format. Empty: the last held_out_share of each training file.
  double held_out_share = 0.1;             ///< Fraction of each file, in full samples.
  std::string format = "auto";  ///< text, tokens (with header), u16, u32 (without). auto: by header, otherwise text.
  std::string tokenizer = "bytes";  ///< Tokenizer of text: bytes, or a tokenizer.json, or its directory.
  int read_ahead = 2;               ///< Micro-batches read in advance.
  bool pack = false;                ///< Documents of a sample do not attend to each other.
};

/// Held-out evaluation.
struct EvalConfig {
  std::int64_t every = 100;   ///< Steps between evaluations. 0: only at the end.
  std::int64_t samples = 64;  ///< Held-out samples per evaluation, the same each time.
};

/// Checkpoints of a run, and resuming from them.
struct CheckpointConfig {
  std::int64_t every = 200;     ///< Steps between checkpoints; one more at the end. 0: only at an interrupt.
  int keep = 3;                 ///< Number of checkpoints to keep, the latest ones.
  std::string directory = {};   ///< Empty: checkpoints/ in the run directory.
  std::string resume = "auto";  ///< auto: the last valid checkpoint, if one exists; never; or a path.
  std::string init = {};        ///< Checkpoint or run whose weights the run starts from. Empty: new weights.
};

/// Files and output of a run.
struct RunConfig {
  std::string directory = {};          ///< Empty: the run directory of the launcher, otherwise ./runs/TIME-PID.
  std::string progress = "auto";       ///< bar, lines, none. auto: a bar on a terminal, otherwise lines.
  std::int64_t log_every = 10;         ///< Steps between progress lines.
  std::int64_t sample = 0;             ///< Tokens that the trained model generates at the end.
  double peak_flops = 0;               ///< Peak FLOP/s of the device of one rank. 0: unknown.
  std::int64_t dump_step = 0;          ///< Step whose tensors, including activations, are written. 0: none.
  std::string profile_steps = {};      ///< "A..B": steps to profile. Empty: only on request.
  std::string on_failure = "stop";     ///< Reaction to a lost rank: stop, or continue as a shrunk world (shrink).
  std::int64_t check_replicas = 1000;  ///< Steps between comparisons of parameter replicas. 0: never.
  bool force = false;                  ///< Starts even if the predicted memory exceeds the free memory.
  std::string device = "auto";         ///< Device of the ranks: auto, host, or the name of another device.
  bool shared = false;                 ///< Members of the Unix group may read the run directory.
};

/// Complete configuration of a run. Each field is a section of the TOML file.
struct Config {
  ModelConfig model = {};            ///< Section [model].
  MeshConfig mesh = {};              ///< Section [mesh].
  ShardingConfig sharding = {};      ///< Section [sharding].
  TrainConfig train = {};            ///< Section [train].
  LoraConfig lora = {};              ///< Section [lora].
  OptimizerConfig optimizer = {};    ///< Section [optimizer].
  ScheduleConfig schedule = {};      ///< Section [schedule].
  DataConfig data = {};              ///< Section [data].
  EvalConfig eval = {};              ///< Section [eval].
  CheckpointConfig checkpoint = {};  ///< Section [checkpoint].
  RunConfig run = {};                ///< Section [run].
};

/// Valid range of a numeric option.
struct OptionRange {
  double least = -std::numeric_limits<double>::infinity();  ///< Minimum.
  double most = std::numeric_limits<double>::infinity();    ///< Maximum.
  bool is_open_below = false;                               ///< Excludes `least`.
  bool is_open_above = false;                               ///< Excludes `most`.
};
/// Returns "1 or more", "above 0", "0 to 1", "0 to 1, without 1"; empty if any number is valid.
TESSERA_API std::string to_string(const OptionRange& range);

/// One row of the table of options.
struct Option {
  std::string name;  ///< "model.width"
  std::string help;  ///< Help text of one line.
  /// Pointer to the value of an option.
  using Place =
      std::variant<std::int64_t*, int*, std::uint64_t*, double*, bool*, std::string*, std::vector<std::string>*>;
  std::function<Place(Config&)> place;    ///< Returns the location of the value in a configuration.
  OptionRange range = {};                 ///< Valid range of a number.
  std::vector<std::string> choices = {};  ///< Allowed values of a text. Empty: any.
  bool may_differ = false;                ///< True if ranks of one run may have different values.
};
/// Returns the table of options, in the order of the fields.
TESSERA_API std::span<const Option> options();

/// Returns the type of an option with its choices or range: "integer, 1 or more", "f32|bf16", "list of texts".
TESSERA_API std::string type_text(const Option& option);
/// Returns the value of an option as text that set() accepts; for a list, one text per entry.
TESSERA_API std::vector<std::string> value_texts(const Option& option, const Config& config);

/// Sets one option from text; for a list, appends an entry. Throws InvalidArgument, with the nearest name, if the
/// option is unknown, or if the value does not match its type, range or choices. `config` is unchanged after an error.
TESSERA_API void set(Config& config, std::string_view name, std::string_view value);
/// Sets the options in a TOML file. Throws for unknown sections and keys, with the nearest name and the line, and for
/// invalid values. `config` is unchanged after an error.
TESSERA_API void read_toml(Config& config, const std::filesystem::path& path);
/// Returns TOML text with each option and its help, and the default of each option that differs from it. The default of
/// a size of a resolved model is that of its preset. read_toml() reads it back to an equal configuration.
TESSERA_API std::string to_toml(const Config& config);
/// Returns the configuration with the sizes of the preset and the computed dp. Checks all values that need no file:
/// ranges, divisibility of heads, and that the product of the axes is the world size. The sharding table must divide
/// heads, kv_heads, hidden, vocabulary, sequence and batch. Errors name option, value and fix.
/// Idempotent.
TESSERA_API Config resolved(Config config, int world_size);
/// Returns a 128-bit hash of the resolved configuration as hex, which identifies the run in `summary.json`. Options of
/// [run] and [checkpoint] do not count.
TESSERA_API std::string hash_of(const Config& config);
/// Returns steps A to B of run.profile_steps, "A..B" or "A"; {0, 0} if empty. Throws InvalidArgument otherwise.
TESSERA_API std::pair<std::int64_t, std::int64_t> profiled_steps(const RunConfig& config);

}  // namespace tessera::train
