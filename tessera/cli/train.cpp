// `tessera train`: the options of train/config.h as a command line, and the ranks that run them (implemented in
// train/run.h). With -n it starts the ranks itself, each as `tessera train` with the same options; otherwise it is a
// rank of the world that started it.
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tessera/analysis/report/report.h"
#include "tessera/base/env.h"
#include "tessera/base/error.h"
#include "tessera/cli/outputs.h"
#include "tessera/cli/train_relay.h"
#include "tessera/cli/verb.h"
#include "tessera/comm/launch/launch.h"
#include "tessera/comm/launch_environment.h"
#include "tessera/comm/world.h"
#include "tessera/train/config.h"
#include "tessera/train/data/tokenizer.h"
#include "tessera/train/dry_run.h"
#include "tessera/train/make_model.h"
#include "tessera/train/run.h"
#include "tessera/watch/verdict_file.h"

namespace tessera::cli {
namespace {

// The parsed command line.
struct Words {
  int ranks = 0;  // 0: omitted
  std::string config_file;
  bool is_print = false;
  bool is_dry = false;
  bool is_print_sharding = false;
  bool is_pinned = false;
  int restarts = 0;
  int deadline = 0;  // in seconds; 0: omitted
  std::string on_failure = "kill";
  std::string ranks_as = "processes";
  bool is_started = false;  // by `tessera train -n`, which writes the report after all ranks have ended
  std::vector<std::vector<std::string>> values;  // one element per option; empty: omitted
};

bool is_list(const train::Option& option) {
  train::Config none;
  return std::holds_alternative<std::vector<std::string>*>(option.place(none));
}

// Converts "model" to "Model".
std::string group_of(const train::Option& option) {
  std::string group = option.name.substr(0, option.name.find('.'));
  group[0] = static_cast<char>(group[0] - 'a' + 'A');
  return group;
}

std::string help_of(const train::Option& option) {
  std::string notes = to_string(option.range);
  std::string value;
  for (const std::string& each : value_texts(option, train::Config())) value += each;
  if (!value.empty()) notes += (notes.empty() ? "default " : "; default ") + value;
  if (is_list(option)) notes = "may be repeated";
  return notes.empty() ? option.help : option.help + " (" + notes + ")";
}

std::string type_of(const train::Option& option) {
  if (is_list(option)) return "TEXT";
  const std::string text = type_text(option);
  const std::string kind = text.substr(0, text.find(','));
  if (kind == "true or false") return "true|false";
  if (kind == "integer") return "N";
  if (kind == "number") return "X";
  return kind == "text" ? "TEXT" : kind;
}

// Returns the values that a shell offers.
std::vector<std::string> examples_of(const train::Option& option) {
  train::Config none;
  if (std::holds_alternative<bool*>(option.place(none))) return {"true", "false"};
  return option.choices;
}

Paths paths_of(const train::Option& option) {
  if (option.name.ends_with(".directory")) return Paths::kDirectories;
  constexpr std::string_view kFiles[] = {"data.files", "data.held_out", "data.tokenizer", "checkpoint.resume",
                                         "checkpoint.init"};
  return std::ranges::count(kFiles, option.name) > 0 ? Paths::kFiles : Paths::kNone;
}

train::Config read_config(const Words& words) {
  train::Config config;
  if (!words.config_file.empty()) train::read_toml(config, words.config_file);
  std::size_t at = 0;
  for (const train::Option& option : train::options()) {
    const std::vector<std::string>& given = words.values[at++];
    if (given.empty()) continue;
    if (is_list(option)) std::get<std::vector<std::string>*>(option.place(config))->clear();
    for (const std::string& value : given) train::set(config, option.name, value);
  }
  // Checkpoints of adapters name the weights that they belong to, from any working directory.
  std::string& init = config.checkpoint.init;
  if (!init.empty()) init = std::filesystem::absolute(init).lexically_normal().string();
  return config;
}

// Returns the command of a rank: this program with every option that differs from its default.
std::vector<std::string> rank_command(const train::Config& config) {
  std::vector<std::string> command{std::filesystem::read_symlink("/proc/self/exe").string(), "train", "--started"};
  for (const train::Option& option : train::options()) {
    const std::vector<std::string> values = value_texts(option, config);
    if (values == value_texts(option, train::Config())) continue;
    for (const std::string& value : values) {
      command.push_back("--" + option.name + (value.empty() ? "" : "=" + value));
      if (value.empty()) command.emplace_back();  // "--name=" would take the next argument
    }
  }
  return command;
}

// Writes the HTML report of an ended run; for a run that did nothing, only if the directory has no report. A directory
// without run files has replaced the run directory and gets no report.
void leave_page(const std::string& directory, bool is_kept = false) {
  if (directory.empty()) return;  // it ended before it had a directory
  const auto has = [&](const char* name) { return std::filesystem::exists(directory + name); };
  if (!has("/config.toml") && !has("/launch.json")) return;
  if (is_kept && std::filesystem::exists(directory + "/report.html")) return;
  std::printf("%s\n", analysis::leave_report_page(directory).c_str());
}

int start_ranks(train::Config config, const Words& words) {
  if (config.run.progress == "auto" && ::isatty(1) == 1) config.run.progress = "bar";
  const bool shrinks = words.on_failure == "shrink";
  if (shrinks) config.run.on_failure = "shrink";
  const std::string directory = config.run.directory.empty() ? env::run_dir() : config.run.directory;
  if (!directory.empty() && train::is_finished_already(config, directory, words.ranks, stdout)) {
    const std::string path = std::filesystem::absolute(directory).lexically_normal().string();
    std::fputs(train::finished_text(path).c_str(), stdout);
    leave_page(path, /*is_kept=*/true);
    return kDone;
  }
  train::check_start(config, words.ranks, words.ranks, stdout);
  auto relay = std::make_unique<TrainRelay>();
  comm::LaunchOptions options{.command = rank_command(config),
                              .ranks = words.ranks,
                              .on_failure = shrinks ? comm::OnFailure::kShrink : comm::OnFailure::kKill,
                              .restarts = words.restarts,
                              .run_dir = config.run.directory,
                              .run_dir_option = "--run.directory",
                              .shared = config.run.shared,
                              .pinned = words.is_pinned};
  options.verdict = watch::verdict_of_run;
  options.out = relay->out();
  options.err = relay->err();
  const comm::LaunchReport ended = comm::launch(options);
  relay.reset();  // prints the output of the ranks first
  leave_page(ended.run_dir);
  return ended.exit_code;
}

// Returns the run directory of ranks that this process runs, as an absolute path.
std::string own_run_directory(const train::Config& config) {
  const std::string directory = config.run.directory.empty() ? fmt::format("runs/{:%Y%m%d-%H%M%S}-{}",
                                                                           fmt::gmtime(std::time(nullptr)), ::getpid())
                                                             : config.run.directory;
  return std::filesystem::absolute(directory).lexically_normal().string();
}

// Puts the record of this rank into the run directory, unless TESSERA_RUN_DIR is set. Ranks of a larger world without a
// given directory learn it only after rendezvous, which is too late.
void name_run_directory(const train::Config& config) {
  const RankPlace place = comm::read_launch_environment().place;
  if (!place.run_dir.empty() || (config.run.directory.empty() && place.world_size > 1)) return;
  ::setenv("TESSERA_RUN_DIR", own_run_directory(config).c_str(), 1);
}

// Returns true if the run reached its goal: its steps with their checkpoint, or, after an interruption, a checkpoint to
// resume from, and complete output.
bool is_good(const train::RunSummary& summary) {
  if (summary.end == train::RunEnd::kInterrupted) return !summary.unsaved;
  return summary.end == train::RunEnd::kDone && summary.missing.empty();
}

// Runs the ranks as threads of this process, which share its devices.
int run_threads(train::Config config, const Words& words) {
  if (config.run.directory.empty()) config.run.directory = env::run_dir();
  config.run.directory = own_run_directory(config);
  if (train::is_finished_already(config, config.run.directory, words.ranks, stdout)) {
    std::fputs(train::finished_text(config.run.directory).c_str(), stdout);
    leave_page(config.run.directory, /*is_kept=*/true);
    return kDone;
  }
  train::check_start(config, words.ranks, words.ranks, stdout);
  train::RunSummary summary;
  const auto run_rank = [&] {
    train::RunSummary own = train::run(config);
    if (current_place().rank == Rank(0)) summary = std::move(own);
  };
  simulate(words.ranks, run_rank, {.run_dir = config.run.directory});
  leave_page(summary.directory, summary.was_finished);
  return is_good(summary) ? kDone : kFailed;
}

// Removes the weight from PATH=WEIGHT.
std::string path_of_data(const std::string& entry) {
  const std::size_t equals = entry.rfind('=');
  return std::filesystem::exists(entry) ? entry : entry.substr(0, equals);
}

// Throws if an input is inside the directories of the run, or a directory inside an input: the run writes, truncates
// and removes files there.
void check_inputs(const train::Config& config) {
  std::vector<std::string> inputs;
  for (const auto* entries : {&config.data.files, &config.data.held_out}) {
    for (const std::string& entry : *entries) inputs.push_back(path_of_data(entry));
  }
  if (config.data.tokenizer != "bytes") inputs.push_back(train::Tokenizer::file_of(config.data.tokenizer));
  const std::string launched = env::run_dir();
  check_directory("train: --run.directory",
                  !config.run.directory.empty() ? config.run.directory
                  : !launched.empty()           ? launched
                                                : "runs",
                  inputs);
  if (!config.checkpoint.directory.empty())
    check_directory("train: --checkpoint.directory", config.checkpoint.directory, inputs);
}

// Returns the number of ranks of the run. A dry run needs none of them, and takes their number from the mesh.
int world_size_of(const Words& words, const train::Config& config, int launched) {
  if (words.ranks > 0) return words.ranks;
  return words.is_dry && launched == 1 ? train::mesh_size(config) : launched;
}

// Returns the options as a configuration that fits its world. Throws before anything is done.
train::Config read_and_check(const Words& words) {
  const comm::LaunchEnvironment launched = comm::read_launch_environment();
  TESSERA_CHECK(
      words.ranks > 0 || (words.restarts == 0 && words.on_failure == "kill" && !words.is_pinned),
      "--restarts, --on-failure, --pin: require -n; under another launcher, use the options of that launcher");
  TESSERA_CHECK(words.ranks_as == "processes" ||
                    (words.ranks > 0 && words.restarts == 0 && words.on_failure == "kill" && !words.is_pinned),
                "--ranks-as threads: requires -n, and excludes --restarts, --on-failure and --pin");
  TESSERA_CHECK(words.ranks == 0 || launched.place.world_size == 1,
                "-n: must be omitted in a rank that a launcher started, got one of ", launched.place.world_size,
                " ranks of ", launched.launcher);
  const train::Config config = read_config(words);
  const int world_size = world_size_of(words, config, launched.place.world_size);
  const train::Config resolved = train::resolved(config, world_size);
  const bool is_shown = words.is_print || words.is_print_sharding;
  TESSERA_CHECK(is_shown || words.is_dry || !config.data.files.empty(),
                "--data.files: required, as in --data.files my.txt");
  check_inputs(config);
  return is_shown ? resolved : config;
}

// Blocks the signal that requests a profile, which would end a process without a handler. It stays pending for the run,
// also in the ranks that this process starts.
void keep_profile_requests() {
  sigset_t asked;
  ::sigemptyset(&asked);
  ::sigaddset(&asked, SIGUSR1);
  ::pthread_sigmask(SIG_BLOCK, &asked, nullptr);
}

int train(const Words& words) {
  keep_profile_requests();
  if (words.deadline > 0) ::setenv("TESSERA_DEADLINE", std::to_string(words.deadline).c_str(), 1);  // ranks inherit it
  int code = kUsage;
  try {
    const train::Config config = read_and_check(words);
    code = kFailed;
    if (words.is_print) {
      std::fputs(train::to_toml(config).c_str(), stdout);
      return kDone;
    }
    if (words.is_dry) {
      const int world_size = world_size_of(words, config, 1);
      std::fputs(train::dry_run_text(config, world_size, std::max(words.ranks, 1)).c_str(), stdout);
      return kDone;
    }
    if (words.is_print_sharding) {
      std::fputs(train::sharding_text(config).c_str(), stdout);
      return kDone;
    }
    if (words.ranks > 0) return words.ranks_as == "threads" ? run_threads(config, words) : start_ranks(config, words);
    name_run_directory(config);
    tessera::init();
    const train::RunSummary summary = train::run(config);
    if (!words.is_started && comm::read_launch_environment().place.rank == Rank(0))
      leave_page(summary.directory, summary.was_finished);
    return is_good(summary) ? kDone : kFailed;
  } catch (const InvalidArgument& error) {  // concerns user input: the source location does not matter
    std::fprintf(stderr, "tessera: %s\n", error.message().c_str());
  } catch (const IoError& error) {
    std::fprintf(stderr, "tessera: %s\n", error.message().c_str());
  }
  return code;
}

// Adds the options of the table, and short names of some for interactive use.
void add_table(Command& command, Words& words) {
  const auto table = train::options();
  for (std::size_t at = 0; at < table.size(); ++at) {
    const train::Option& option = table[at];
    command.add("--" + option.name, &words.values[at], help_of(option),
                {.type = type_of(option),
                 .group = group_of(option),
                 .examples = examples_of(option),
                 .repeat = is_list(option) ? Repeat::kAll : Repeat::kLast,
                 .paths = paths_of(option)});
  }
  const auto add_short = [&](const char* name, std::string_view full, const std::string& help, bool is_flag) {
    const auto found = std::ranges::find(table, full, &train::Option::name);
    command.add(name, &words.values[static_cast<std::size_t>(found - table.begin())], help,
                {.type = is_flag ? "" : type_of(*found), .is_flag = is_flag, .repeat = Repeat::kLast});
  };
  add_short("--dump-step", "run.dump_step", "Short for --run.dump_step", false);
  add_short("--profile-steps", "run.profile_steps", "Short for --run.profile_steps", false);
  add_short("--model", "model.family", "Family of models: --model.family", false);
  add_short("--init", "checkpoint.init", "Checkpoint whose weights the run starts from: --checkpoint.init", false);
  add_short("--device", "run.device", "Device of the ranks: --run.device", false);
  add_short("--graph", "train.graph", "Capture the step once and replay it: --train.graph true", true);
  add_short("--deterministic", "train.deterministic",
            "Use only kernels that give the same bits in every run: --train.deterministic true", true);
  add_short("--force", "run.force", "Start even if the predicted memory exceeds the free memory: --run.force true",
            true);
}

Body declare(Command& command) {
  const auto words = std::make_shared<Words>();
  words->values.resize(train::options().size());
  command.add("-n,--ranks", &words->ranks, "Number of ranks to start on this machine (default: run as one rank)",
              {.type = "N", .range = Range{1, 4096}});
  command.add("--config", &words->config_file, "TOML file with options; options of the command line override it",
              {.type = "FILE", .paths = Paths::kFiles});
  command.add("--restarts", &words->restarts,
              "With -n: number of times to restart all ranks after a failure; they resume from the last checkpoint",
              {.type = "N", .range = Range{0, 1'000'000}});
  command.add("--deadline", &words->deadline, "Deadline of collectives in seconds (default: TESSERA_DEADLINE, 300)",
              {.type = "SECONDS", .range = Range{1, 31'536'000}});
  command.add("--on-failure", &words->on_failure,
              "With -n, action if a rank dies: kill the others, or let them continue as a shrunk world (shrink)",
              {.type = "WHAT", .shows_default = true, .choices = {"kill", "shrink"}});
  command.add(
      "--ranks-as", &words->ranks_as,
      "With -n: start a process per rank, each with a GPU if the ranks use GPUs, or run the ranks as threads of "
      "this process, which share one GPU",
      {.type = "WHAT", .shows_default = true, .choices = {"processes", "threads"}});
  command.add("--pin", &words->is_pinned,
              "With -n: pin each rank to separate adjacent cores, and set TESSERA_THREADS to their number");
  command.add("--print-config", &words->is_print, "Print the resolved configuration as TOML and exit");
  command.add(
      "--dry-run", &words->is_dry,
      "Print whether the run fits, with predicted memory, operations, communication and time, and exit. Without "
      "-n, the mesh may have any size");
  command.add("--print-sharding", &words->is_print_sharding,
              "Print the sharding table and the layouts of every parameter on the mesh of -n ranks, and exit");
  command.add("--started", &words->is_started, "", {.group = ""});
  add_table(command, *words);
  command.footer =
      "A TOML file uses the same names: --model.layers 6 is layers = 6 under [model].\n"
      "Writes config.toml, metrics.jsonl, loss.csv, summary.json and report.html to the run directory.\n"
      "An unfinished run in the run directory resumes from its last valid checkpoint. After SIGTERM, SIGHUP or one "
      "SIGINT,\n"
      "the run writes a checkpoint after the current step, or after the current batch of an evaluation, and ends.\n"
      "SIGUSR1 profiles the next steps.\n"
      "Exit codes: 0 all steps are done, or a signal ended the run; 1 the run stopped or failed, or its last "
      "checkpoint or\n"
      "a line of its files could not be written; 2 invalid options.\n"
      "  tessera train -n 4 --mesh.tp 2 --data.files my_text --train.steps 500 --run.sample 200\n"
      "  mpirun -n 16 tessera train --config run.toml --train.seed 2";
  return [words] { return train(*words); };
}

const VerbRegistration kTrain({"train", "Train a Llama-style model on a mesh of ranks", declare});

}  // namespace
}  // namespace tessera::cli
