#include "tessera/train/detail/resume.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <limits>
#include <vector>
#include <nlohmann/json.hpp>

#include "tessera/base/atomic_file.h"
#include "tessera/base/error.h"
#include "tessera/train/detail/digest.h"
#include "tessera/train/detail/option_values.h"

namespace tessera::train::detail {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kDigestedSamples = 64;

// Of these the numbers are the same whatever they are, or they say what happens from now on.
constexpr std::array kFreeSections = {"run.", "checkpoint.", "eval.", "mesh.", "data."};
constexpr std::array kFreeOptions = {"model.preset", "train.steps",    "train.on_nan",
                                     "train.spike",  "train.on_spike", "train.graph"};

bool is_free(const std::string& name) {
  return std::ranges::any_of(kFreeSections, [&](const char* section) { return name.starts_with(section); }) ||
         std::ranges::any_of(kFreeOptions, [&](const char* option) { return name == option; });
}

// Of these a finished run may have had others: nothing would be done differently. In [run] some ask for more.
bool is_free_when_finished(const std::string& name) {
  constexpr std::array kAsked = {"run.sample", "run.dump_step", "run.profile_steps"};
  if (std::ranges::any_of(kAsked, [&](const char* option) { return name == option; })) return false;
  return name.starts_with("run.") || name.starts_with("checkpoint.") || name.starts_with("mesh.") ||
         name == "model.preset";
}

std::string joined(const std::vector<std::string>& values) {
  std::string text;
  for (const std::string& value : values) text += (text.empty() ? "" : ", ") + value;
  return text.empty() ? "not given" : text;
}

using Options = std::map<std::string, std::vector<std::string>>;

// As they are written: names of files may be no UTF-8.
Options options_of(const Config& config) {
  Options all;
  for (const Option& option : options()) {
    for (const std::string& value : value_texts(option, config)) all[option.name].push_back(as_utf8(value));
    (void)all[option.name];  // also where it has none
  }
  return all;
}

// An option that one of them does not have is one that another version added.
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
  TESSERA_CHECK_AS(MismatchError, found != texts.end(), "the checkpoint has no text '", name,
                   "': it is none of a training run");
  try {
    return Json::parse(found->second);
  } catch (const nlohmann::json::exception& error) {
    TESSERA_THROW(MismatchError, "the checkpoint's text '", name, "' cannot be read (", error.what(), ")");
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

constexpr const char* kWaysOut = "; give what was given before, or begin another run with another --run.directory";

[[noreturn]] void throw_unreadable(const std::string& where, const nlohmann::json::exception& error) {
  TESSERA_THROW(MismatchError, where, " has texts that cannot be read (", error.what(),
                "); was it written by another version?");
}

// Hands over the lines of a file, and whether they are whole: the last may have no line end.
template <class Take>
void each_line(const std::filesystem::path& path, Take take) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) take(line, !in.eof());
}

// Replaces the file by those of its lines that are whole and that `stays` wants. One that has no others is left alone:
// that needs no room on a full disk.
template <class Stays>
void keep_lines(const std::filesystem::path& path, Stays stays) {
  bool has_others = false;
  each_line(path, [&](const std::string& line, bool is_whole) { has_others |= !is_whole || !stays(line); });
  if (!has_others) return;
  AtomicFile out(path.string());
  each_line(path, [&](const std::string& line, bool is_whole) {
    if (is_whole && stays(line)) out.stream() << line << '\n';
  });
  out.commit();
}

// The step of a line of metrics.jsonl; 0: it has none.
std::int64_t step_of(const std::string& line) {
  const nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
  return json.is_object() && json.contains("step") && json["step"].is_number_integer()
             ? json["step"].get<std::int64_t>()
             : 0;
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

Texts run_texts(const Summary& summary, const std::string& digest) {
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
  return {
      {"configuration", Json(options_of(summary.config)).dump()}, {"data", data.dump()}, {"summary", counters.dump()}};
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
    TESSERA_CHECK(differing_ones.empty(), "cannot go on from ", where, ": ", differing_ones, kWaysOut);
    const std::int64_t steps = parsed(texts, "summary").at("steps");
    TESSERA_CHECK(steps <= config.train.steps, "cannot go on from ", where, ": it is after step ", steps,
                  ", and train.steps is ", config.train.steps, "; raise it");
  } catch (const nlohmann::json::exception& error) {
    throw_unreadable(where, error);
  }
}

void check_same_data(const Texts& texts, const Config& config, const std::string& digest, const std::string& where) {
  try {
    const auto before = parsed(texts, "configuration").get<Options>();
    const auto files = before.find("data.files");
    const Json data = parsed(texts, "data");
    TESSERA_CHECK(data.at("digest") == digest, "cannot go on from ", where,
                  ": the data are not the same: data.files is ", joined(config.data.files), " here, and was ",
                  files == before.end() ? "not told" : joined(files->second),
                  "; their content, weights, tokenizer or held-out share differ", kWaysOut);
    const std::int64_t steps = parsed(texts, "summary").at("steps");
    const std::int64_t next_sample = data.at("next_sample");
    TESSERA_CHECK_AS(MismatchError, next_sample == steps * config.train.batch, where, " says that ", next_sample,
                     " samples were read in ", steps, " steps of ", config.train.batch);
  } catch (const nlohmann::json::exception& error) {
    throw_unreadable(where, error);
  }
}

void restore_summary(const Texts& texts, Summary& summary) {
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
    TESSERA_THROW(MismatchError, "the checkpoint's text 'summary' cannot be read (", error.what(), ")");
  }
}

void cut_back(const std::filesystem::path& directory, std::int64_t step) {
  keep_lines(directory / "metrics.jsonl", [step](const std::string& line) {
    const std::int64_t of = step_of(line);
    return of >= 1 && of <= step;
  });
  keep_lines(directory / "loss.csv", [step](const std::string& line) {
    if (line.starts_with("step,")) return true;
    const std::int64_t of = std::atoll(line.c_str());
    return of >= 1 && of <= step;
  });
}

void add_told_steps(const std::filesystem::path& directory, int rank, RankTally& tally) {
  std::ifstream in(directory / "metrics.jsonl");
  for (std::string line; std::getline(in, line);) {
    const nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object() || json.value("rank", -1) != rank) continue;
    tally.add({.step = json.value("step", std::int64_t{0}),
               .seconds = json.value("seconds", 1.0),
               .exposed_seconds = json.value("exposed_seconds", 0.0),
               .tokens = json.value("tokens", std::int64_t{0})});
  }
}

}  // namespace tessera::train::detail
