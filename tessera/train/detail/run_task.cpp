#include "tessera/train/detail/run_task.h"

#include <algorithm>
#include <array>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/train/detail/agreement.h"
#include "tessera/train/detail/digest.h"
#include "tessera/train/detail/resume.h"
#include "tessera/train/detail/run_signals.h"
#include "tessera/train/detail/workload.h"
#include "tessera/train/run.h"

namespace tessera::train::detail {
namespace {

constexpr double kTemperature = 0.8;
constexpr std::uint64_t kDigestedSamples = 64;

std::optional<Samples> open_held_out(const Config& config, const Phases& phases) {
  if (config.data.held_out.empty() && config.data.held_out_share == 0) return std::nullopt;
  return Samples::open(config.data, DataSplit::kHeldOut, config.model.sequence, config.train.seed,
                       phases("reading held-out data", "bytes"));
}

// Throws InvalidArgument unless the vocabulary covers every token. The error names the smallest that fits the mesh.
void check_vocabulary(const Samples& samples, const Config& config, const char* option) {
  const std::int64_t largest = samples.largest_token();
  const std::int64_t tp = config.mesh.tp;
  TESSERA_CHECK(largest < config.model.vocabulary, "model.vocabulary: must be larger than every token of ", option,
                ", got ", config.model.vocabulary, " with token ", largest, "; use --model.vocabulary ",
                (largest + tp) / tp * tp, " or more");
}

class LanguageTask final : public RunTask {
 public:
  void check(const Config& config) const override {
    TESSERA_CHECK(!is_own(config.model), "model.family: own models need a program that calls train::run(task, config)");
    TESSERA_CHECK(!config.data.files.empty(), "data.files: required, as in --data.files my.txt");
  }
  void open(const Config& config, const Phases& phases) override {
    training_ = open_training(config, phases);
    held_out_ = open_held_out(config, phases);
    check_vocabulary(*training_, config, "data.files");
    if (held_out_) check_vocabulary(*held_out_, config, config.data.held_out.empty() ? "data.files" : "data.held_out");
  }
  [[nodiscard]] std::vector<Fact> facts(const Config& config, bool has_others) const override {
    std::vector<Fact> facts;
    if (!has_others) return facts;  // their digests read much
    const auto add = [&](const std::string& option, const std::vector<std::string>& files, const Samples& samples) {
      for (Fact& each : data_facts(option, files, samples, config.model.sequence)) facts.push_back(std::move(each));
    };
    const bool is_named = !config.data.held_out.empty();
    add("data.files", config.data.files, *training_);
    if (held_out_)
      add(is_named ? "data.held_out" : "the held-out share of data.files",
          is_named ? config.data.held_out : config.data.files, *held_out_);
    return facts;
  }
  [[nodiscard]] std::string digest(const Config& config) const override {
    return data_digest(*training_, config.model.sequence);
  }
  [[nodiscard]] bool has_held_out() const override { return held_out_.has_value(); }
  [[nodiscard]] std::optional<double> entropy(const Phases& phases) const override {
    if (!held_out_) return std::nullopt;
    return held_out_->bigram_entropy(phases("counting pairs of held-out tokens", "samples"));
  }
  [[nodiscard]] std::unique_ptr<Trainer> make_trainer(const Config& config) const override {
    return std::make_unique<Trainer>(config, *training_);
  }
  double evaluate(Trainer& trainer, std::int64_t samples, const OnProgress& on_progress) const override {
    return trainer.evaluate(*held_out_, samples, on_progress);
  }
  void describe(StartFacts& facts) const override {
    facts.training = training_->tokens();
    facts.held_out = held_out_ ? held_out_->tokens() : 0;
  }
  void say_sample(Trainer& trainer, const Config& config, Progress& progress) const override;

 private:
  std::optional<Samples> training_;
  std::optional<Samples> held_out_;  // empty: no held-out data
};

// A failure does not affect the run.
void LanguageTask::say_sample(Trainer& trainer, const Config& config, Progress& progress) const {
  if (config.run.sample == 0) return;
  const Tokenizer& tokenizer = training_->tokenizer();
  PhaseProgress shown(progress, "sample", "tokens");
  Agreement agreement;
  std::uint64_t drawn = 0;
  const OnProgress on_progress = [&](std::uint64_t done, std::uint64_t all) {
    shown.at(drawn = done, all);
    if (agreement.exchange_now({.stop = RunSignals::is_stop_asked()}).stop) throw AskedToEnd();
  };
  const std::string count = std::to_string(config.run.sample);
  try {
    const std::vector<std::uint32_t> tokens =
        trainer.sample({tokenizer.end_of_text()}, config.run.sample, kTemperature, config.train.seed, on_progress);
    progress.say("\na sample of " + count + " tokens:\n" + printable(tokenizer.decode(tokens)) + "\n");
  } catch (const AskedToEnd&) {
    progress.say("sample: stop requested after " + std::to_string(drawn) + " of " + count + " tokens\n");
  }
}

class OwnTask final : public RunTask {
 public:
  explicit OwnTask(Task task) : task_(std::move(task)) {}

  void check(const Config& config) const override {
    const std::int64_t rows = config.train.batch / config.train.accumulate;
    TESSERA_CHECK(task_.create != nullptr && task_.training.size > 0 && task_.training.read != nullptr, "task ",
                  task_.name, ": must have a function that creates the model, and training data");
    TESSERA_CHECK(!has_held_out() || task_.held_out.read != nullptr, "task ", task_.name,
                  ": held-out data must have a function read");
    TESSERA_CHECK(!has_held_out() || config.eval.samples % rows == 0,
                  "eval.samples: must be a multiple of train.batch / train.accumulate (", rows, ") for a task, got ",
                  config.eval.samples, "; use ", (config.eval.samples / rows + 1) * rows);
    TESSERA_CHECK(config.run.sample == 0, "run.sample: must be 0 for a task, got ", config.run.sample);
  }
  void open(const Config& /*config*/, const Phases& /*phases*/) override {}
  [[nodiscard]] std::vector<Fact> facts(const Config& config, bool has_others) const override {
    if (!has_others) return {};
    return {{"the task", task_.name}, {"the digest of the training samples", digest(config)}};
  }
  [[nodiscard]] std::string digest(const Config& /*config*/) const override {
    Digest digest;
    digest.add(task_.training.size);
    const std::uint64_t count = std::min(kDigestedSamples, task_.training.size);
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::array sample{task_.training.size / count * i};
      for (const Tensor& each : read_samples(task_, task_.training, sample)) {
        digest.add(to_string(each.shape()));
        digest.add(std::string_view(reinterpret_cast<const char*>(each.data()), each.nbytes()));
      }
    }
    return digest.hex();
  }
  [[nodiscard]] bool has_held_out() const override { return task_.held_out.size > 0; }
  [[nodiscard]] std::optional<double> entropy(const Phases& /*phases*/) const override { return std::nullopt; }
  [[nodiscard]] std::unique_ptr<Trainer> make_trainer(const Config& config) const override {
    return std::make_unique<Trainer>(config, task_);
  }
  double evaluate(Trainer& trainer, std::int64_t samples, const OnProgress& on_progress) const override {
    return trainer.evaluate(samples, on_progress);
  }
  void describe(StartFacts& facts) const override {
    facts.name = task_.name;
    facts.training = task_.training.size;
    facts.held_out = task_.held_out.size;
  }
  void say_sample(Trainer& /*trainer*/, const Config& /*config*/, Progress& /*progress*/) const override {}

 private:
  Task task_;
};

}  // namespace

Phases phases_on(Progress& progress) {
  return [&progress](const char* name, const char* unit) -> OnProgress {
    return [shown = PhaseProgress(progress, name, unit)](std::uint64_t done, std::uint64_t all) mutable {
      shown.at(done, all);
    };
  };
}

Samples open_training(const Config& config, const Phases& phases) {
  return Samples::open(config.data, DataSplit::kTraining, config.model.sequence, config.train.seed,
                       phases("reading data.files", "bytes"));
}

std::unique_ptr<RunTask> language_task() { return std::make_unique<LanguageTask>(); }

std::unique_ptr<RunTask> own_task(Task task) { return std::make_unique<OwnTask>(std::move(task)); }

}  // namespace tessera::train::detail
