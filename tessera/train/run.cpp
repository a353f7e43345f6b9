#include "tessera/train/run.h"

#include <exception>
#include <filesystem>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>

#include "tessera/base/atomic_file.h"
#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/base/rank.h"
#include "tessera/base/run_directory.h"
#include "tessera/comm/process_group.h"
#include "tessera/memory/oom_report.h"
#include "tessera/tensor/device_context.h"
#include "tessera/train/bad_step.h"
#include "tessera/train/checkpoint/checkpoint.h"
#include "tessera/train/checkpoint/hugging_face.h"
#include "tessera/train/data/detail/source.h"
#include "tessera/train/data/samples.h"
#include "tessera/train/detail/checkpointing.h"
#include "tessera/train/detail/choose_device.h"
#include "tessera/train/detail/dump_step.h"
#include "tessera/train/detail/loop.h"
#include "tessera/train/detail/product_rate.h"
#include "tessera/train/detail/rank_facts.h"
#include "tessera/train/detail/resume.h"
#include "tessera/train/detail/run_directory.h"
#include "tessera/train/detail/run_signals.h"
#include "tessera/train/detail/run_task.h"
#include "tessera/train/detail/shrinking.h"
#include "tessera/train/detail/start_text.h"
#include "tessera/train/detail/step_failure.h"
#include "tessera/train/memory_fit.h"
#include "tessera/train/trainer.h"

namespace tessera::train {
namespace {

using detail::Phases;

constexpr int kBadStepsKept = 3;  // the first ones are the most useful

// The trainer as the loop uses it.
class TrainerSteps final : public detail::StepRunner {
 public:
  TrainerSteps(Trainer& trainer, const detail::RunTask& task, std::int64_t samples)
      : trainer_(trainer), task_(task), samples_(samples) {}
  StepReport step(Ahead ahead) override { return trainer_.step(can_run_ahead_ ? ahead : Ahead::kNone); }
  [[nodiscard]] bool has_step_ahead() const override { return trainer_.has_step_ahead(); }
  double evaluate(const OnProgress& on_progress) override { return task_.evaluate(trainer_, samples_, on_progress); }
  [[nodiscard]] std::vector<OwnedBytes> memory_now() const override { return trainer_.memory_now(); }

 private:
  Trainer& trainer_;
  const detail::RunTask& task_;
  std::int64_t samples_;
  // The host computes on the cores that enqueue.
  bool can_run_ahead_ = tensor::default_device() != tensor::host_device();
};

// Returns phases that also end with AskedToEnd after a signal.
Phases phases_until_asked(Progress& progress) {
  return [on = detail::phases_on(progress)](const char* name, const char* unit) -> OnProgress {
    return [show = on(name, unit)](std::uint64_t done, std::uint64_t all) {
      show(done, all);
      detail::RunSignals::check_not_asked_to_end();
    };
  };
}

// Returns the resolved configuration, equal on all ranks except for options that may differ. Collective. Throws on all
// ranks if one of them cannot start.
Config agreed_config(const Config& given, const detail::RunTask& task, int world_size) {
  Config config;
  detail::StartCheck check;
  try {
    config = resolved(given, world_size);
    task.check(config);
    check.facts = detail::start_facts(config);
  } catch (const std::exception&) {
    check.error = std::current_exception();
  }
  detail::check_same_on_all_ranks(check);
  return config;
}

// Returns the device of this rank. Collective. Throws on all ranks if one of them has none, or too little memory. Later
// worlds are shrunk worlds of the run, whose memory is still in use.
detail::ChosenDevice agreed_device(const Config& given, const Config& config, int world_size, bool is_first_world) {
  detail::ChosenDevice chosen;
  detail::StartCheck check;
  try {
    chosen = detail::choose_device(config);
    if (is_first_world) check_memory(given, world_size, limits_of(chosen.device));
    check.facts = {{"the kind of device", chosen.device.properties().kind}};
  } catch (const std::exception&) {
    check.error = std::current_exception();
  }
  detail::check_same_on_all_ranks(check);
  return chosen;
}

// Opens the data, which must be equal on all ranks, and returns their digest. Collective. Throws on all ranks if one of
// them cannot start.
std::string open_agreed(detail::RunTask& task, const Phases& phases, RunSummary& summary) {
  const Config& config = summary.config;
  std::string digest;
  detail::StartCheck check;
  try {
    task.open(config, phases);
    digest = task.digest(config);
    check.facts = detail::product_facts(config);  // not with the options, which must agree on the dtype first
    for (detail::Fact& each : task.facts(config, current_place().world_size > 1))
      check.facts.push_back(std::move(each));
    if (current_place().rank == Rank(0)) summary.bigram_entropy = task.entropy(phases);
  } catch (const std::exception&) {
    check.error = std::current_exception();
  }
  detail::check_same_on_all_ranks(check);
  return digest;
}

RankNumbers numbers_of(const RankTally& tally, const Trainer& trainer, const RunSummary& summary, int rank) {
  RankNumbers numbers = tally.numbers(rank);
  numbers.peak = trainer.memory_peak();
  numbers.predicted = trainer.memory_predicted();
  numbers.missing = summary.missing;
  return numbers;
}

// Dumps a bad step. A failure to write does not affect the run.
void keep(const BadStep& step, const std::string& directory, int rank) {
  try {
    const std::string path = write_bad_step(directory, rank, step);
    log::warn("step ", step.report.step, " was bad (loss ", step.report.loss, ", gradient norm ", step.report.grad_norm,
              "); its parameters and gradients are in ", path);
  } catch (const Error& error) {
    log::error("step ", step.report.step, " was bad, and its state could not be written: ", error.message());
  }
}

// Writes the summary. A failure is reported and changes the exit code; the results of the run stay. A directory that
// replaced the locked one is not written.
void write_summary(RunSummary& summary, const RunDirectoryLock* lock = nullptr, Progress* progress = nullptr) {
  try {
    if (lock != nullptr) lock->check_in_place();
    write_file(summary.directory + "/summary.json", to_json(summary), FileKind::kRun);
  } catch (const IoError& error) {
    log::error("the summary of the run could not be written: ", error.message());
    if (progress != nullptr) progress->say("the summary of the run could not be written: " + error.message() + "\n");
    summary.missing.push_back("summary.json: " + error.message());
  }
}

// Restores the trainer and the summary from the checkpoint.
void go_on_from(const std::filesystem::path& checkpoint, const std::string& digest, Trainer& trainer,
                RunSummary& summary) {
  CheckpointState state = trainer.checkpoint_state();
  const detail::Texts texts = load_checkpoint(open_checkpoint(checkpoint), state);
  detail::check_same_data(texts, summary.config, digest, checkpoint.string());
  trainer.continue_from(texts);
  detail::restore_summary(texts, summary);
  TESSERA_CHECK_AS(MismatchError, trainer.step_count() == summary.steps, checkpoint.string(),
                   ": steps must be equal, got ", trainer.step_count(), " in its trainer and ", summary.steps,
                   " in its summary");
}

// Warns about requests for steps before the resume step, unless an earlier start fulfilled them.
void tell_what_lies_behind(const RunSummary& summary, Progress& progress) {
  const RunConfig& run = summary.config.run;
  const auto tell = [&](const std::string& option, std::int64_t first, std::int64_t last, const char* folder) {
    const std::string left = summary.directory + "/" + folder + std::to_string(first);
    if (last == 0 || last > summary.steps || std::filesystem::exists(left)) return;
    progress.say(option + " is before the resume step, " + std::to_string(summary.steps) +
                 "; nothing will be written for it\n");
  };
  tell("run.dump_step " + std::to_string(run.dump_step), run.dump_step, run.dump_step, "dump-");
  const auto [first, last] = profiled_steps(run);
  tell("run.profile_steps " + run.profile_steps, first, last, "profile-");
}

void dump(const detail::SeenStep& seen, const Trainer& trainer, const std::string& directory, int rank) {
  const StepReport& report = seen.report;
  try {
    log::info("the dump of step ", report.step, " is in ", detail::write_step(directory, rank, trainer, seen));
  } catch (const Error& error) {
    log::error("the dump of step ", report.step, " could not be written: ", error.message());
  }
}

// Returns the step of the newest checkpoint.
std::optional<std::int64_t> last_checkpoint(const RunSummary& summary) {
  const auto all = checkpoints_in(detail::checkpoint_directory(summary.config.checkpoint, summary.directory));
  if (all.empty()) return std::nullopt;
  return all.front().step;
}

// Marks a run whose final checkpoint is not on disk: it is not done, and the same command resumes it.
void note_unsaved(RunSummary& summary) {
  if (!summary.unsaved || summary.end == RunEnd::kStopped) return;
  if (summary.end == RunEnd::kDone) summary.end = RunEnd::kFailed;
  summary.reason = "the last checkpoint could not be written: " + *summary.unsaved + "; the same command " +
                   (summary.last_checkpoint ? "resumes after step " + std::to_string(*summary.last_checkpoint)
                                            : "starts from step 0, since no checkpoint exists");
}

// Takes the steps. Stops by policy or by a signal are recorded in the summary. After an error, the first failing rank
// writes the summary, without the values of other ranks, which may be gone.
void take_steps(Trainer& trainer, const detail::RunTask& task, const detail::RunRanks& ranks,
                const RunDirectoryLock* lock, Progress& progress, detail::Checkpointing& between, RunSummary& summary,
                RankTally& tally) {
  const int rank = ranks.rank();
  TrainerSteps steps(trainer, task, summary.config.eval.samples);
  const detail::LoopOptions options{.directory = summary.directory,
                                    .rank = rank,
                                    .has_held_out = task.has_held_out(),
                                    .between = &between,
                                    .lock = lock};
  try {
    detail::take_steps(steps, options, progress, summary, tally);
    between.finish();
    if (!between.is_interrupted()) return;
    summary.end = RunEnd::kInterrupted;
    summary.reason = summary.steps < summary.config.train.steps
                         ? "stop requested; run the same command to continue"
                         : "stop requested during the held-out evaluation; run the same command to evaluate again";
  } catch (const TrainingStopped& stopped) {
    between.finish();
    summary.end = RunEnd::kStopped;
    summary.reason = stopped.message();
  } catch (const Error& error) {
    between.abandon();
    summary.end = RunEnd::kFailed;
    summary.reason = detail::failure_reason(error, summary);
    summary.ranks = {numbers_of(tally, trainer, summary, rank)};
    if (!detail::may_shrink(summary.config, error) && ranks.is_first_to_fail()) write_summary(summary, lock);
    const auto* no_memory = dynamic_cast<const memory::OutOfMemoryError*>(&error);
    if (no_memory != nullptr) progress.say(no_memory->report() + "\n");
    if (no_memory != nullptr) TESSERA_THROW(OutOfMemory, "step ", summary.steps + 1, ": ", summary.reason);
    if (summary.reason != error.message()) TESSERA_THROW(DeviceError, "step ", summary.steps + 1, ": ", summary.reason);
    throw;
  }
}

// Throws AskedToEnd on all ranks if one of them was requested to end since its last check. Collective.
void check_none_asked_to_end() {
  detail::StartCheck check;
  if (detail::RunSignals::is_stop_asked()) check.error = std::make_exception_ptr(detail::AskedToEnd());
  detail::check_same_on_all_ranks(check);
}

std::function<void(const std::string&)> say_on(Progress& progress) {
  return [&progress](const std::string& line) { progress.say(line); };
}

// Prints the final lines of a run that took its steps.
void conclude(const detail::RunRanks& ranks, const RunDirectoryLock* lock, Progress& progress, RunSummary& summary) {
  if (ranks.rank() == 0 || summary.unsaved) summary.last_checkpoint = last_checkpoint(summary);
  note_unsaved(summary);
  if (ranks.rank() == 0) write_summary(summary, lock, &progress);
  ranks.note_written();
  progress.say(short_text(summary));
}

// Registers dumps of bad steps and of run.dump_step. The summary must outlive the steps.
void keep_what_is_asked_for(Trainer& trainer, const RunSummary& summary, int rank) {
  trainer.keep_bad_steps([&summary, rank, left = kBadStepsKept](const BadStep& step) mutable {
    if (left-- > 0) keep(step, summary.directory, rank);
  });
  if (summary.config.run.dump_step > 0) {
    trainer.before_update(summary.config.run.dump_step, [&trainer, &summary, rank](const StepReport& report,
                                                                                   const StepActivations& activations) {
      dump({report, activations, summary.config.train.accumulate}, trainer, summary.directory, rank);
    });
  }
}

// The sequence of worlds of one run.
struct Worlds {
  bool is_first = true;         // later worlds are shrunk worlds
  bool has_told_start = false;  // a world of this run has shown the start text
};

// Returns the FLOP/s of products on the device of this rank; 0 if the MFU needs no measurement.
double measured_flops_on(const device::Device& device, const Config& config) {
  if (device == tensor::host_device()) return detail::measured_flops(config.train.dtype);
  return config.run.peak_flops > 0 || is_own(config.model) ? 0 : detail::product_rate(config.train.dtype);
}

std::string text_of_compute(const device::Device& device, const RunSummary& summary) {
  const std::string& dtype = summary.config.train.dtype;
  if (device == tensor::host_device()) return detail::compute_text(dtype);
  return summary.measured_flops > 0 ? detail::product_rate_text(dtype, summary.measured_flops) : "";
}

void say_start(const detail::RunTask& task, const detail::RunRanks& ranks, const Trainer& trainer,
               const detail::ChosenDevice& chosen, std::optional<std::int64_t> free_nbytes, const RunSummary& summary,
               Progress& progress) {
  detail::StartFacts facts{.config = summary.config,
                           .parameters = summary.parameters,
                           .device = chosen.device.name(),
                           .why_host = chosen.why_not,
                           .backend = ranks.size() > 1 ? comm::world().backend() : std::string_view(),
                           .compute = ranks.rank() == 0 ? text_of_compute(chosen.device, summary) : "",
                           .predicted = trainer.memory_predicted(),
                           .free_nbytes = free_nbytes,
                           .directory = summary.directory};
  task.describe(facts);
  progress.say(detail::start_text(facts));
}

// Runs in this world, from its directory to its summary.
void run_in_world(const Config& given, detail::RunTask& task, Worlds& worlds, std::FILE* out, RunSummary& summary) {
  const detail::RunRanks ranks;
  summary.config = agreed_config(given, task, ranks.size());
  summary.world_size = ranks.size();
  const Config& config = summary.config;
  const detail::ChosenDevice chosen = agreed_device(given, config, ranks.size(), worlds.is_first);
  const tensor::DeviceScope on_device(chosen.device);
  const MemoryLimits limits = limits_of(chosen.device);
  Progress progress(config.run, config.train.steps, ranks.rank() == 0 ? out : nullptr);
  NewRunDirectory made(config.run.directory.empty() ? current_place().run_dir : config.run.directory);
  const Phases phases = phases_until_asked(progress);
  const detail::RunStart start =
      ranks.open_directory(config, say_on(progress), phases("verifying a checkpoint", "bytes"));
  made.made(start.directory);
  if (start.is_finished) {
    made.keep();
    progress.say(finished_text(start.directory.string()));
    summary.directory = start.directory.string();
    summary.steps = config.train.steps;
    summary.was_finished = true;
    return ranks.finish();
  }

  const std::string digest = open_agreed(task, phases, summary);
  if (ranks.rank() == 0) summary.measured_flops = measured_flops_on(chosen.device, config);
  const std::unique_ptr<Trainer> made_trainer = task.make_trainer(config);
  Trainer& trainer = *made_trainer;
  summary.parameters = trainer.parameter_count();
  check_none_asked_to_end();
  if (!start.init.empty()) {
    CheckpointState weights = trainer.initial_weights();
    load_weights(start.init, weights);
    const std::string differences = ranks.rank() == 0 ? unseen_differences(config, start.init) : "";
    if (!differences.empty()) progress.say(differences + "\n");
  }
  if (!start.checkpoint.empty()) go_on_from(start.checkpoint, digest, trainer, summary);
  check_none_asked_to_end();
  ranks.take_directory(start, config, say_on(progress));
  made.keep();
  summary.directory = start.directory.string();
  progress.show_mfu(mfu_per_rate(summary));
  progress.show_unit(unit_of(config.model));
  if (!std::exchange(worlds.has_told_start, true))
    say_start(task, ranks, trainer, chosen, limits.device_nbytes ? limits.device_nbytes : limits.host_nbytes, summary,
              progress);
  tell_what_lies_behind(summary, progress);

  keep_what_is_asked_for(trainer, summary, ranks.rank());
  RankTally tally(ranks.size());
  if (!start.checkpoint.empty()) detail::add_told_steps(summary.directory, ranks.rank(), tally);
  {
    detail::Checkpointing between(trainer, summary, progress, digest);
    take_steps(trainer, task, ranks, start.lock.get(), progress, between, summary, tally);
  }
  summary.ranks = ranks.collect(numbers_of(tally, trainer, summary, ranks.rank()));
  conclude(ranks, start.lock.get(), progress, summary);
  if (summary.end == RunEnd::kDone) task.say_sample(trainer, config, progress);
  ranks.finish();
}

// Returns the summary of a run that was requested to end before it wrote anything.
RunSummary ended_before_steps(std::FILE* out) {
  RunSummary summary{.end = RunEnd::kInterrupted,
                     .reason = "stop requested before the first step; run the same command to start again"};
  if (out != nullptr && current_place().rank == Rank(0)) std::fprintf(out, "interrupted: %s\n", summary.reason.c_str());
  return summary;
}

// Records that the run could not continue with the surviving ranks.
void leave_failed(RunSummary& summary, const Error& error) {
  if (summary.directory.empty()) return;  // it had not begun
  summary.end = RunEnd::kFailed;
  summary.reason = error.message();
  write_summary(summary);
}

}  // namespace

namespace {

RunSummary run_in_worlds(const Config& given, const std::function<std::unique_ptr<detail::RunTask>()>& make_task,
                         std::FILE* out) {
  const detail::RunSignals signals;  // for all worlds of the run
  detail::Shrinking shrinking(given, out);
  for (Worlds worlds;; worlds.is_first = false) {
    RunSummary summary;
    try {
      run_in_world(shrinking.config(), *make_task(), worlds, out, summary);
      return summary;
    } catch (const detail::AskedToEnd&) {
      return ended_before_steps(out);
    } catch (const AbortedError& error) {
      shrinking.note(error);
    } catch (const TimeoutError& error) {
      shrinking.note(error);
    }
    try {
      if (!shrinking.shrink()) return shrinking.left_summary();
    } catch (const Error& error) {
      if (shrinking.is_to_tell()) leave_failed(summary, error);
      throw;
    }
  }
}

}  // namespace

RunSummary run(const Config& given, std::FILE* out) { return run_in_worlds(given, detail::language_task, out); }

RunSummary run(const Task& task, const Config& given, std::FILE* out) {
  Config config = given;
  config.model = {.family = std::string(kOwnFamily)};
  return run_in_worlds(
      config, [&] { return detail::own_task(task); }, out);
}

void check_start(const Config& given, int world_size, int ranks, std::FILE* out) {
  const Config config = resolved(given, world_size);
  const std::unique_ptr<detail::RunTask> task = detail::language_task();
  task->check(config);
  std::vector<std::string> paths;
  for (const auto* entries : {&given.data.files, &given.data.held_out}) {
    for (const std::string& entry : *entries) paths.push_back(detail::read_weighted(entry).path);
  }
  if (given.data.tokenizer != "bytes") paths.push_back(given.data.tokenizer);
  for (const std::string& path : paths)
    TESSERA_CHECK_AS(IoError, std::filesystem::exists(path), "'", path, "': No such file or directory");
  // The ranks find their devices, and compare their memory. Ranks on the host would all report the same.
  const std::string& name = config.run.device;
  const bool is_host = name == tensor::host_device().properties().kind;
  if (is_host || name == "auto") {
    try {
      check_memory(given, world_size, host_limits(ranks));
    } catch (const InvalidArgument&) {
      if (is_host || device::Device::all().size() == 1) throw;
    }
  }
  Progress progress(config.run, 0, out);
  task->open(config, detail::phases_on(progress));
}

bool is_finished_already(const Config& given, const std::string& directory, int world_size, std::FILE* out) {
  const Config config = resolved(given, world_size);
  const detail::RunStart start = detail::look_at_directory(directory, config);
  if (start.is_finished || start.checkpoint.empty()) return start.is_finished;
  Progress progress(config.run, 0, out);
  const Samples training = detail::open_training(config, detail::phases_on(progress));
  detail::check_same_data(checkpoint_texts(open_checkpoint(start.checkpoint)), config,
                          detail::data_digest(training, config.model.sequence), start.checkpoint.string());
  return false;
}

std::string finished_text(const std::string& directory) {
  return "the run in " + directory + " is already finished with these options; nothing to do\n";
}

}  // namespace tessera::train
