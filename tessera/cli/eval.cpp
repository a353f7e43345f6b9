// `tessera eval`: the loss of a trained model on held-out text.
#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/cli/checkpoint_verbs.h"
#include "tessera/cli/saved_model_options.h"
#include "tessera/cli/table.h"
#include "tessera/cli/verb.h"
#include "tessera/tensor/device_context.h"
#include "tessera/train/data/samples.h"
#include "tessera/train/evaluation.h"
#include "tessera/train/progress.h"
#include "tessera/train/saved_model.h"

namespace tessera::cli {
namespace {

struct Options {
  SavedModelWords model;
  std::vector<std::string> data;
  std::string format = "auto";
  std::int64_t samples = 0;
  bool json = false;
};

struct Result {
  train::CheckpointInfo checkpoint;
  double loss = 0;
  std::uint64_t samples = 0;
  std::int64_t sequence = 0;
};

// Returns the samples of --data, in full, or the held-out samples of the run.
train::Samples open_samples(const Options& options, const train::CheckpointInfo& from, const train::Config& config,
                            train::Progress& progress) {
  train::PhaseProgress shown(progress, "reading data", "bytes");
  const train::OnProgress on_progress = [&](std::uint64_t done, std::uint64_t all) { shown.at(done, all); };
  train::DataConfig data = config.data;
  data.tokenizer = train::saved_tokenizer(from, config, options.model.tokenizer);
  if (options.data.empty()) {
    TESSERA_CHECK(!data.held_out.empty() || data.held_out_share > 0,
                  "--data: required, because the run has no held-out data");
    return train::Samples::open(data, train::DataSplit::kHeldOut, config.model.sequence, config.train.seed,
                                on_progress);
  }
  data.files = options.data;
  data.held_out.clear();
  data.held_out_share = 0;
  data.format = options.format;
  return train::Samples::open(data, train::DataSplit::kTraining, config.model.sequence, config.train.seed, on_progress);
}

std::uint64_t sample_count(const Options& options, const train::Samples& samples, const train::Config& config) {
  if (options.samples > 0) return static_cast<std::uint64_t>(options.samples);
  return options.data.empty() ? static_cast<std::uint64_t>(config.eval.samples) : samples.per_epoch();
}

void evaluate(const Options& options, Result& result) {
  const bool is_first = current_place().rank == Rank(0);
  const train::CheckpointInfo from = saved_model_at(options.model.checkpoint);
  const train::SavedModelOptions how = model_options(options.model);
  const tensor::DeviceScope on_device(train::saved_model_device(from, how, train::ModelUse::kLoss));
  const train::SavedModel saved = train::open_saved_model(from, how);
  train::Progress progress({}, 0, is_first ? stderr : nullptr);
  const train::Samples samples = open_samples(options, from, saved.config, progress);
  TESSERA_CHECK(samples.largest_token() < saved.config.model.vocabulary,
                "--data: tokens must be below model.vocabulary, ", saved.config.model.vocabulary, ", got ",
                samples.largest_token(), "; use the tokenizer of the run");
  const std::uint64_t count = sample_count(options, samples, saved.config);
  train::PhaseProgress shown(progress, "evaluating", "batches");
  const double loss = train::evaluate(
      *saved.model, saved.plan, saved.config.model.sequence,
      [&](std::uint64_t number, std::span<std::int32_t> tokens) { samples.read(number, tokens); },
      static_cast<std::int64_t>(count), [&](std::uint64_t done, std::uint64_t all) { shown.at(done, all); });
  if (!is_first) return;
  progress.say("");  // the result starts on a new line
  result = {.checkpoint = from, .loss = loss, .samples = count, .sequence = saved.config.model.sequence};
}

void print(const Result& result, bool is_json) {
  const std::uint64_t tokens = result.samples * static_cast<std::uint64_t>(result.sequence);
  if (is_json) {
    print_json({{"checkpoint", result.checkpoint.path.string()},
                {"step", result.checkpoint.step},
                {"loss", result.loss},
                {"perplexity", std::exp(result.loss)},
                {"tokens", tokens},
                {"samples", result.samples}});
    return;
  }
  std::vector<std::pair<std::string, std::string>> entries = {
      {"checkpoint", shown(result.checkpoint.path.string())},
      {"step", std::to_string(result.checkpoint.step)},
      {"loss", fmt::format("{:.6f}", result.loss)},
      {"perplexity", fmt::format("{:.4f}", std::exp(result.loss))},
      {"tokens", std::to_string(tokens)},
      {"samples", std::to_string(result.samples)}};
  std::fputs(to_text(std::vector<PrintedSection>{{"eval", std::move(entries)}}, stdout_style()).c_str(), stdout);
}

Body declare(Command& command) {
  const auto options = std::make_shared<Options>();
  add_saved_model_options(command, options->model);
  command.add("--data", &options->data, "Text or token files (default: the held-out data of the run)",
              {.type = "FILE", .repeat = Repeat::kEach, .paths = Paths::kFiles});
  command.add("--format", &options->format, "Format of --data", {.choices = {"auto", "text", "tokens", "u16", "u32"}});
  command.add("--samples", &options->samples,
              "Samples of model.sequence tokens (default: all of --data, or eval.samples of the run)",
              {.type = "N", .range = Range{1, 1e15}});
  command.add("--json", &options->json, "Print JSON");
  command.footer =
      "loss: mean over the predicted tokens, in nats; perplexity: exp(loss). Tokens after the last complete sample of "
      "a "
      "file\nare not predicted. Without --data, the loss is that which the run reports for this checkpoint.\n"
      "  tessera eval run --data held_out.txt\n"
      "  tessera eval run/checkpoints/step-000000200 --mesh tp=2 --json";
  return [options] {
    return reported([&]() -> int {
      Result result;
      bool is_printed = false;
      on_ranks(mesh_of(options->model.mesh), [&] {
        Result own;
        evaluate(*options, own);
        if (current_place().rank != Rank(0)) return;
        result = own;
        is_printed = true;
      });
      if (is_printed) print(result, options->json);
      return kDone;
    });
  };
}

const VerbRegistration kEval({"eval", "Evaluate a trained model on text", declare});

}  // namespace
}  // namespace tessera::cli
