// Everything that a training run can be told, as one value. Each field is one option, named SECTION.FIELD alike in a
// TOML file, on the command line and in errors:
//
//   [model]                          tessera train --model.layers 6 --mesh.tp 2
//   layers = 6
//
// One table (options()) says name, help, type and place of each: the reader of TOML, the command line, --help and the
// resolved configuration that a run keeps are made from it. A new option is a field here and a row there.
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

namespace tessera::train {

/// A decoder of Llama's shape.
struct ModelConfig {
  std::string preset = "tiny";  ///< numbers of the table presets(); fields that are given beside it win
  std::int64_t width = 0;       ///< of the residual stream; 0 here and below: the preset's
  std::int64_t layers = 0;      ///< blocks
  std::int64_t heads = 0;       ///< of queries
  std::int64_t kv_heads = 0;    ///< of keys and values, a divisor of heads
  std::int64_t hidden = 0;      ///< width of the feed-forward part
  std::int64_t vocabulary = 0;  ///< tokens
  std::int64_t sequence = 0;    ///< tokens of one sample
  bool tied = false;            ///< the head is the embedding
  double dropout = 0;           ///< of what a block adds to the residual stream
  double rope_base = 10000;     ///< of the angles of positions
  double norm_eps = 1e-5;       ///< of norms
};

/// The mesh: dp x fsdp x tp ranks, in this order, tp the fastest.
struct MeshConfig {
  int dp = 0;                     ///< copies of the whole model state; 0: what the other two leave of the world
  int fsdp = 1;                   ///< ranks that parameters, gradients and optimizer state are cut over
  int tp = 1;                     ///< ranks that heads, hidden units and vocabulary are cut over
  bool sequence_parallel = true;  ///< between blocks the sequence is cut over tp
  bool prefetch = true;           ///< fsdp gathers the next block's parameters while this one computes
};

/// What is computed in a step, and how.
struct TrainConfig {
  std::int64_t steps = 1000;           ///< to take
  std::int64_t batch = 8;              ///< samples of one step, over all ranks and micro-batches
  std::int64_t accumulate = 1;         ///< micro-batches of one step
  std::string dtype = "f32";           ///< that blocks compute in: f32 or bf16; parameters and reductions are f32
  std::string checkpointing = "none";  ///< none, full (each block again in backward), selective (all but attention)
  bool graph = false;                  ///< the step is captured once and replayed
  std::uint64_t seed = 1;              ///< of initial weights, dropout and the order of samples
  std::string on_nan = "stop";         ///< loss or gradient that is not finite: stop, or skip the step
  double spike = 0;                    ///< a gradient norm that many times its running mean is a spike; 0: none is
  std::string on_spike = "skip";       ///< stop or skip
};

/// What parameters are updated by.
struct OptimizerConfig {
  std::string kind = "adamw";   ///< adamw or sgd
  double learning_rate = 3e-3;  ///< the largest
  double beta1 = 0.9;           ///< of adamw: kept of the mean of gradients
  double beta2 = 0.95;          ///< of adamw: kept of the mean of their squares
  double eps = 1e-8;            ///< of adamw: added to what is divided by
  double weight_decay = 0.1;    ///< of matrices; norms and the embedding have none
  double momentum = 0;          ///< of sgd
  double clip = 1;              ///< largest norm of all gradients; 0: not clipped
};

/// The learning rate over the steps.
struct ScheduleConfig {
  std::string kind = "cosine";  ///< cosine, wsd (warm-up, stable, decay) or constant
  std::int64_t warmup = 0;      ///< steps from 0 up to the learning rate
  double decay = 0.2;           ///< of wsd: share of the steps in which it falls
  double floor = 0.1;           ///< share of the learning rate that is left at the end
};

/// Where tokens come from.
struct DataConfig {
  std::vector<std::string> files = {};     ///< "PATH" or "PATH=WEIGHT"; a directory: every file in it
  std::vector<std::string> held_out = {};  ///< likewise; empty: the last held_out_share of each training file
  double held_out_share = 0.1;             ///< of each file, in whole samples
  std::string format = "auto";      ///< text, tokens (with header), u16, u32 (without); auto: by header, else text
  std::string tokenizer = "bytes";  ///< of text: bytes, or the path of a tokenizer.json
  int read_ahead = 2;               ///< micro-batches that are read before they are needed
};

/// Held-out evaluation.
struct EvalConfig {
  std::int64_t every = 100;   ///< steps; 0: only at the end
  std::int64_t samples = 64;  ///< of the held-out part, the same each time
};

/// Checkpoints of a run, and how it goes on from them.
struct CheckpointConfig {
  std::int64_t every = 200;     ///< steps between checkpoints, and one at the end; 0: only when asked to stop
  int keep = 3;                 ///< of them the last so many
  std::string directory = {};   ///< empty: checkpoints/ of the run directory
  std::string resume = "auto";  ///< auto: from the last good one, if there is one; never; or the path of one
};

/// What a run leaves behind and says.
struct RunConfig {
  std::string directory = {};          ///< empty: the launcher's run directory, else ./runs/TIME-PID
  std::string progress = "auto";       ///< bar, lines, none; auto: a bar on a terminal, else lines
  std::int64_t log_every = 10;         ///< steps between lines
  std::int64_t sample = 0;             ///< tokens of text that the trained model is asked for at the end
  double peak_flops = 0;               ///< of one rank's device, a second; 0: unknown
  std::int64_t dump_step = 0;          ///< step of which all is written by name, activations too; 0: of none
  std::string profile_steps = {};      ///< "A..B": steps that are profiled; empty: only when asked to
  std::string on_failure = "stop";     ///< a rank that dies: the others stop, or go on as a smaller world (shrink)
  std::int64_t check_replicas = 1000;  ///< steps between comparisons of parameter replicas; 0: none
  bool force = false;                  ///< start even if the predicted memory exceeds the free memory
  bool shared = false;                 ///< members of the group may read the run directory
};

/// All of it.
struct Config {
  ModelConfig model = {};            ///< [model]
  MeshConfig mesh = {};              ///< [mesh]
  TrainConfig train = {};            ///< [train]
  OptimizerConfig optimizer = {};    ///< [optimizer]
  ScheduleConfig schedule = {};      ///< [schedule]
  DataConfig data = {};              ///< [data]
  EvalConfig eval = {};              ///< [eval]
  CheckpointConfig checkpoint = {};  ///< [checkpoint]
  RunConfig run = {};                ///< [run]
};

/// Values that a number may have.
struct OptionRange {
  double least = -std::numeric_limits<double>::infinity();  ///< the smallest
  double most = std::numeric_limits<double>::infinity();    ///< the largest
  bool is_open_below = false;                               ///< `least` itself is none
  bool is_open_above = false;                               ///< `most` itself is none
};
/// "1 or more", "above 0", "0 to 1", "0 to 1, without 1"; empty: any number.
TESSERA_API std::string to_string(const OptionRange& range);

/// One row of the table of options.
struct Option {
  std::string name;  ///< "model.width"
  std::string help;  ///< one line
  /// Where its value is.
  using Place =
      std::variant<std::int64_t*, int*, std::uint64_t*, double*, bool*, std::string*, std::vector<std::string>*>;
  std::function<Place(Config&)> place;    ///< where its value is in a configuration
  OptionRange range = {};                 ///< of a number
  std::vector<std::string> choices = {};  ///< allowed values of a text; empty: any
  bool may_differ = false;                ///< true if ranks of one run may have different values
};
/// The table, in the order of the fields.
TESSERA_API std::span<const Option> options();

/// Type of an option's value, with its choices or its range: "integer, 1 or more", "f32|bf16", "list of texts".
TESSERA_API std::string type_text(const Option& option);
/// The value of an option as set() reads it; of a list, its entries.
TESSERA_API std::vector<std::string> value_texts(const Option& option, const Config& config);

/// Numbers of a preset; what they mean is said at ModelConfig.
struct Preset {
  std::string_view name;    ///< tiny, 124m, 1b, 8b
  std::int64_t width;       ///< of the residual stream
  std::int64_t layers;      ///< blocks
  std::int64_t heads;       ///< of queries
  std::int64_t kv_heads;    ///< of keys and values
  std::int64_t hidden;      ///< width of the feed-forward part
  std::int64_t vocabulary;  ///< tokens
  std::int64_t sequence;    ///< tokens of one sample
};
/// All of them, the smallest first.
TESSERA_API std::span<const Preset> presets();

/// Sets one option from text; to a list it adds an entry. InvalidArgument: no such name (with the nearest), or not a
/// value of its type, range or choices; nothing has changed then.
TESSERA_API void set(Config& config, std::string_view name, std::string_view value);
/// Fills in what a TOML file says. Unknown sections and keys are errors with the nearest match and the line, and so are
/// values that do not fit; nothing has changed then.
TESSERA_API void read_toml(Config& config, const std::filesystem::path& path);
/// As a TOML text that read_toml() reads back to the same configuration, every option with its help.
TESSERA_API std::string to_toml(const Config& config);
/// With the preset's numbers filled in, dp computed, and everything checked that can be without opening a file: values
/// out of range, heads that do not divide, an axis product that is not the world. Errors name option, value and way
/// out. What tp cuts (heads, kv_heads, hidden, vocabulary, with sequence_parallel the sequence) it cuts into equal
/// parts. Resolving again changes nothing.
TESSERA_API Config resolved(Config config, int world_size);
/// 128 bits over the resolved configuration, as hex: what `summary.json` names a run by. Where a run writes and how it
/// shows progress, and its checkpoints, are left out.
TESSERA_API std::string hash_of(const Config& config);
/// Steps A to B of run.profile_steps, from "A..B" or "A"; {0, 0}: none are. InvalidArgument: it is neither.
TESSERA_API std::pair<std::int64_t, std::int64_t> profiled_steps(const RunConfig& config);

}  // namespace tessera::train
