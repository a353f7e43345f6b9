#include "tessera/train/detail/resume.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>
#include <nlohmann/json.hpp>

#include "tessera/base/atomic_file.h"
#include "tessera/base/error.h"
#include "tessera/base/json_depth.h"
#include "tessera/base/log.h"
#include "tessera/base/regular_file.h"
#include "tessera/train/detail/digest.h"
#include "tessera/train/detail/option_values.h"

namespace tessera::train::detail {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kDigestedSamples = 64;

// Sections that do not affect the results, or that apply only from now on.
constexpr std::array kFreeSections = {"run.", "checkpoint.", "eval.", "mesh.", "sharding.", "data."};
constexpr std::array kFreeOptions = {"model.preset", "train.steps",    "train.on_nan",
                                     "train.spike",  "train.on_spike", "train.graph"};

bool is_free(const std::string& name) {
  if (name == "data.pack") return false;  // the digest of the data does not depend on it
  return std::ranges::any_of(kFreeSections, [&](const char* section) { return name.starts_with(section); }) ||
         std::ranges::any_of(kFreeOptions, [&](const char* option) { return name == option; });
}

// Options that may differ from those of a finished run, because nothing would change. Some of [run] request more.
bool is_free_when_finished(const std::string& name) {
  constexpr std::array kAsked = {"run.sample", "run.dump_step", "run.profile_steps"};
  if (std::ranges::any_of(kAsked, [&](const char* option) { return name == option; })) return false;
  return name.starts_with("run.") || name.starts_with("checkpoint.") || name.starts_with("mesh.") ||
         name.starts_with("sharding.") || name == "model.preset";
}

std::string joined(const std::vector<std::string>& values) {
  std::string text;
  for (const std::string& value : values) text += (text.empty() ? "" : ", ") + value;
  return text.empty() ? "not given" : text;
}

using Options = std::map<std::string, std::vector<std::string>>;

// Returns the options as written: file names may not be UTF-8.
Options options_of(const Config& config) {
  Options all;
  for (const Option& option : options()) {
    for (const std::string& value : value_texts(option, config)) all[option.name].push_back(as_utf8(value));
    (void)all[option.name];  // also if the list is empty
  }
  return all;
}

// An option that only one of them has was added by another version.
std::string differing(const Options& before, const Options& now, bool (*is_left_out)(const std::string&) = is_free) {
  std::string text;
  for (const auto& [name, values] : now) {
    const auto found = before.find(name);
    if (is_left_out(name) || found == before.end() || found->second == values) continue;
    text += (text.empty() ? "" : "; ") + name + " is " + joined(values) + " here, and was " + joined(found->second);
  }
  return text;
}

Json parsed(const Texts& texts, const char* name) {
  const auto found = texts.find(name);
  TESSERA_CHECK_AS(MismatchError, found != texts.end(), "the checkpoint has no metadata '", name,
                   "'; it is not from a training run");
  try {
    return Json::parse(found->second);
  } catch (const nlohmann::json::exception& error) {
    TESSERA_THROW(MismatchError, "checkpoint metadata '", name, "' cannot be read (", error.what(), ")");
  }
}

Json loss_json(const std::optional<double>& loss) {
  if (!loss) return nullptr;
  return std::isfinite(*loss) ? Json(*loss) : Json("not finite");
}

std::optional<double> loss_from(const Json& json) {
  if (json.is_null()) return std::nullopt;
  return json.is_number() ? json.get<double>() : std::numeric_limits<double>::quiet_NaN();
}

constexpr const char* kWaysOut = "; use the previous values, or start another run with another --run.directory";

[[noreturn]] void throw_unreadable(const std::string& where, const nlohmann::json::exception& error) {
  TESSERA_THROW(MismatchError, where, " has metadata that cannot be read (", error.what(),
                "); was it written by another version?");
}

constexpr std::uint64_t kLongestLine = std::uint64_t{1} << 20;
constexpr std::size_t kMaxDepth = 64;  // maximum nesting of JSON

// Calls `take` for each line of a file of the run directory. A missing file has none.
template <class Take>
void each_line_of(const std::filesystem::path& path, Take take) {
  if (!std::filesystem::exists(path)) return;
  each_line(RegularFile(path.string()), kLongestLine, take);
}

// Replaces the file by its complete lines up to `step`. A file without other lines is left unchanged, which needs no
// space on a full disk. `step_of` returns the step of a line; 0 for a heading, -1 if the line is corrupt.
void keep_lines(const std::filesystem::path& path, std::int64_t step,
                std::int64_t (*step_of)(const std::string& line)) {
  const auto step_at = [&](const FileLine& line) { return line.is_long ? -1 : step_of(std::string(line.text)); };
  const auto is_kept = [&](const FileLine& line) {
    const std::int64_t of = step_at(line);
    return line.is_ended && of >= 0 && of <= step;
  };
  bool has_others = false;
  std::int64_t corrupt = 0;
  each_line_of(path, [&](const FileLine& line) {
    has_others |= !is_kept(line);
    corrupt += line.is_ended && step_at(line) < 0 ? 1 : 0;
  });
  if (corrupt > 0) log::warn("'", path.string(), "': ", corrupt, " lines are corrupt; removed");
  if (!has_others) return;
  AtomicFile out(path.string(), FileKind::kRun);
  each_line_of(path, [&](const FileLine& line) {
    if (is_kept(line)) out.stream() << line.text << '\n';
  });
  out.commit();
}

// Returns null for a line that is not a JSON object.
nlohmann::json object_of(std::string_view line) {
  if (tessera::detail::json_depth(line) > kMaxDepth) return nullptr;
  nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
  return json.is_object() ? json : nlohmann::json();
}

// Returns a field of a line of metrics.jsonl, or nothing if it is missing or has another type.
template <class Number>
std::optional<Number> number_in(const nlohmann::json& json, const char* name) {
  if (!json.is_object()) return std::nullopt;
  const auto found = json.find(name);
  if (found == json.end() || !found->is_number()) return std::nullopt;
  if (std::is_integral_v<Number> && !found->is_number_integer()) return std::nullopt;
  return found->template get<Number>();
}

// Steps count from 1.
std::int64_t step_of_metrics(const std::string& line) {
  const nlohmann::json json = object_of(line);
  const std::int64_t step = number_in<std::int64_t>(json, "step").value_or(0);
  return step >= 1 ? step : -1;
}

std::int64_t step_of_losses(const std::string& line) {
  if (line.starts_with("step,")) return 0;
  const std::int64_t step = std::atoll(line.c_str());
  return step >= 1 ? step : -1;
}

// Adds the step of a line of metrics.jsonl to the tally, if it is of this rank. Returns false if it is corrupt.
bool add_told_step(std::string_view line, int rank, RankTally& tally) {
  const nlohmann::json json = object_of(line);
  const std::int64_t of = number_in<std::int64_t>(json, "rank").value_or(-1);
  if (of >= 0 && of != rank) return true;
  const StepReport report{.step = number_in<std::int64_t>(json, "step").value_or(-1),
                          .seconds = number_in<double>(json, "seconds").value_or(-1),
                          .exposed_seconds = number_in<double>(json, "exposed_seconds").value_or(-1),
                          .tokens = number_in<std::int64_t>(json, "tokens").value_or(-1)};
  const bool is_good =
      of == rank && report.step >= 1 && report.seconds > 0 && report.exposed_seconds >= 0 && report.tokens >= 0;
  if (is_good) tally.add(report);
  return is_good;
}

}  // namespace

std::string data_digest(const Samples& samples, std::int64_t sequence) {
  Digest digest;
  digest.add(samples.tokens());
  digest.add(samples.per_epoch());
  digest.add(static_cast<std::uint64_t>(sequence));
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(sequence) + 1);
  const std::uint64_t count = std::min(kDigestedSamples, samples.per_epoch());
  for (std::uint64_t i = 0; i < count; ++i) {
    samples.read(samples.per_epoch() / count * i, tokens);
    for (const std::int32_t token : tokens) digest.add(static_cast<std::uint64_t>(token));
  }
  return digest.hex();
}

Texts run_texts(const RunSummary& summary, const std::string& digest) {
  Json evaluations = Json::array();
  for (const Evaluation& each : summary.evaluations) evaluations.push_back({each.step, loss_json(each.loss)});
  const Json counters = {{"steps", summary.steps},
                         {"tokens", summary.tokens},
                         {"skipped_nan", summary.skipped_nan},
                         {"skipped_spike", summary.skipped_spike},
                         {"first_loss", loss_json(summary.first_loss)},
                         {"last_loss", loss_json(summary.last_loss)},
                         {"evaluations", evaluations},
                         {"resumed_from", summary.resumed_from}};
  const Json data = {{"digest", digest},
                     {"seed", summary.config.train.seed},
                     {"next_sample", summary.steps * summary.config.train.batch}};
  return {{"configuration", configuration_text(summary.config)}, {"data", data.dump()}, {"summary", counters.dump()}};
}

std::string configuration_text(const Config& config) { return Json(options_of(config)).dump(); }

Config configuration_of(const Texts& texts) {
  Config config;
  try {
    const auto values = parsed(texts, "configuration").get<Options>();
    for (const Option& option : options()) {
      const auto found = values.find(option.name);
      if (found == values.end()) continue;
      for (const std::string& value : found->second) set(config, option.name, value);
    }
  } catch (const nlohmann::json::exception& error) {
    throw_unreadable("the checkpoint", error);
  } catch (const InvalidArgument& error) {
    TESSERA_THROW(MismatchError, "checkpoint metadata 'configuration' is invalid: ", error.message());
  }
  return config;
}

std::string differing_options(const Config& before, const Config& now) {
  return differing(options_of(before), options_of(now));
}

std::string differing_requests(const Config& before, const Config& now) {
  return differing(options_of(before), options_of(now), is_free_when_finished);
}

void check_same_options(const Texts& texts, const Config& config, const std::string& where) {
  try {
    const std::string differing_ones = differing(parsed(texts, "configuration").get<Options>(), options_of(config));
    TESSERA_CHECK(differing_ones.empty(), "cannot resume from ", where, ": ", differing_ones, kWaysOut);
    const std::int64_t steps = parsed(texts, "summary").at("steps");
    TESSERA_CHECK(steps <= config.train.steps, "cannot resume from ", where, ": it is after step ", steps,
                  ", but train.steps is ", config.train.steps, "; raise it");
  } catch (const nlohmann::json::exception& error) {
    throw_unreadable(where, error);
  }
}

void check_same_data(const Texts& texts, const Config& config, const std::string& digest, const std::string& where) {
  try {
    const auto before = parsed(texts, "configuration").get<Options>();
    const auto files = before.find("data.files");
    const Json data = parsed(texts, "data");
    TESSERA_CHECK(data.at("digest") == digest, "cannot resume from ", where, ": the data differ: data.files is ",
                  joined(config.data.files), " here, and was ",
                  files == before.end() ? "unknown" : joined(files->second),
                  "; their content, weights, tokenizer or held-out share differ", kWaysOut);
    const std::int64_t steps = parsed(texts, "summary").at("steps");
    const std::int64_t next_sample = data.at("next_sample");
    TESSERA_CHECK_AS(MismatchError, next_sample == steps * config.train.batch, where,
                     ": next sample must be steps x train.batch (", steps, " x ", config.train.batch, "), got ",
                     next_sample);
  } catch (const nlohmann::json::exception& error) {
    throw_unreadable(where, error);
  }
}

void restore_summary(const Texts& texts, RunSummary& summary) {
  const Json counters = parsed(texts, "summary");
  try {
    summary.steps = counters.at("steps");
    summary.tokens = counters.at("tokens");
    summary.skipped_nan = counters.at("skipped_nan");
    summary.skipped_spike = counters.at("skipped_spike");
    summary.first_loss = loss_from(counters.at("first_loss"));
    summary.last_loss = loss_from(counters.at("last_loss"));
    summary.evaluations.clear();
    for (const Json& each : counters.at("evaluations"))
      summary.evaluations.push_back({.step = each.at(0), .loss = loss_from(each.at(1)).value_or(NAN)});
    summary.resumed_from = counters.at("resumed_from").get<std::vector<std::int64_t>>();
    summary.resumed_from.push_back(summary.steps);
  } catch (const nlohmann::json::exception& error) {
    TESSERA_THROW(MismatchError, "checkpoint metadata 'summary' cannot be read (", error.what(), ")");
  }
}

void cut_back(const std::filesystem::path& directory, std::int64_t step) {
  keep_lines(directory / "metrics.jsonl", step, step_of_metrics);
  keep_lines(directory / "loss.csv", step, step_of_losses);
}

void set_held_out(const std::filesystem::path& directory, std::int64_t step, double loss) {
  const std::filesystem::path path = directory / "loss.csv";
  if (!std::filesystem::exists(path)) return;
  AtomicFile out(path.string(), FileKind::kRun);
  each_line_of(path, [&](const FileLine& line) {
    const bool is_row = !line.is_long && step_of_losses(std::string(line.text)) == step;
    const std::size_t comma = line.text.rfind(',');
    if (!is_row || comma == std::string_view::npos) {
      out.stream() << line.text << '\n';
    } else {
      out.stream() << line.text.substr(0, comma + 1) << fmt::format("{}", loss) << '\n';
    }
  });
  out.commit();
}

void add_told_steps(const std::filesystem::path& directory, int rank, RankTally& tally) {
  const std::filesystem::path path = directory / "metrics.jsonl";
  std::int64_t corrupt = 0;
  each_line_of(path, [&](const FileLine& line) { corrupt += add_told_step(line.text, rank, tally) ? 0 : 1; });
  if (corrupt == 0) return;
  log::warn("'", path.string(), "': ", corrupt, " lines are corrupt; the speeds in summary.json omit these steps");
}

}  // namespace tessera::train::detail
