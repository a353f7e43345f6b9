#include "tessera/train/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "tessera/base/bytes.h"
#include "tessera/base/error.h"
#include "tessera/train/predict.h"

namespace tessera::train {
namespace {

using Json = nlohmann::ordered_json;

Json owners_json(const std::vector<OwnedBytes>& owners) {
  Json json = Json::object();
  for (const OwnedBytes& each : owners) json[each.owner] = each.nbytes;
  return json;
}

std::vector<OwnedBytes> owners_from(const Json& json) {
  std::vector<OwnedBytes> owners;
  for (const auto& [owner, nbytes] : json.items()) owners.push_back({owner, nbytes.get<std::int64_t>()});
  return owners;
}

Json rank_json(const RankNumbers& numbers) {
  return {{"rank", numbers.rank},
          {"tokens_per_second", {{"p50", numbers.rate_p50}, {"p99", numbers.rate_p99}}},
          {"step_seconds", numbers.seconds},
          {"exposed_seconds", numbers.exposed_seconds},
          {"peak_memory", owners_json(numbers.peak)},
          {"predicted_memory", owners_json(numbers.predicted)},
          {"missing", numbers.missing}};
}

// Returns the largest rate that this fraction of the steps reached.
double reached_by(const std::vector<double>& rates, double share) {
  if (rates.empty()) return 0;
  std::vector<double> falling = rates;
  std::sort(falling.begin(), falling.end(), std::greater<>());
  const auto count = static_cast<std::size_t>(std::ceil(share * static_cast<double>(falling.size())));
  return falling[std::max<std::size_t>(count, 1) - 1];
}

// Sums over the ranks that reported.
struct Totals {
  double rate = 0;
  double seconds = 0;
  double exposed_seconds = 0;
};
Totals totals_of(const RunSummary& summary) {
  Totals totals;
  for (const RankNumbers& each : summary.ranks) {
    totals.rate += each.rate_p50;
    totals.seconds += each.seconds;
    totals.exposed_seconds += each.exposed_seconds;
  }
  return totals;
}

double exposed_share(const Totals& totals) { return totals.seconds > 0 ? totals.exposed_seconds / totals.seconds : 0; }

// Returns the FLOP/s of one rank, the mean over those that reported.
Flops speed_of(const RunSummary& summary) {
  if (summary.ranks.empty() || is_own(summary.config.model)) return {};
  const Flops token = flops_per_token(summary.config.model);
  const double rate = totals_of(summary).rate / static_cast<double>(summary.ranks.size());
  return {.causal = token.causal * rate, .full = token.full * rate};
}

bool is_peak_measured(const RunSummary& summary) { return summary.config.run.peak_flops == 0; }

Json flops_json(const Flops& flops) { return {{"causal", flops.causal}, {"full", flops.full}}; }

Json mfu_json(const RunSummary& summary) {
  const double peak = is_own(summary.config.model) ? 0 : peak_flops_of(summary);
  if (peak == 0) return {{"causal", "unknown"}, {"full", "unknown"}, {"peak_flops", "unknown"}};
  const Flops speed = speed_of(summary);
  return {{"causal", speed.causal / peak},
          {"full", speed.full / peak},
          {"peak_flops", peak},
          {"peak", is_peak_measured(summary) ? "measured products" : "run.peak_flops"}};
}

Json held_out_json(const RunSummary& summary) {
  if (summary.evaluations.empty()) return nullptr;
  Json curve = Json::array();
  for (const Evaluation& each : summary.evaluations) curve.push_back({{"step", each.step}, {"loss", each.loss}});
  Json json = {{"loss", summary.evaluations.back().loss},
               {"bigram_entropy", nullptr},
               {"samples", summary.config.eval.samples},
               {"evaluations", curve}};
  if (summary.bigram_entropy) json["bigram_entropy"] = *summary.bigram_entropy;
  return json;
}

// Returns the rank with the largest peak.
const RankNumbers* largest(const RunSummary& summary) {
  const auto total = [](const RankNumbers& numbers) {
    std::int64_t most = 0;
    for (const OwnedBytes& each : numbers.peak) most = std::max(most, each.nbytes);
    return most;
  };
  const auto found = std::max_element(summary.ranks.begin(), summary.ranks.end(),
                                      [&](const auto& a, const auto& b) { return total(a) < total(b); });
  return found == summary.ranks.end() ? nullptr : &*found;
}

std::string memory_text(const RunSummary& summary) {
  const RankNumbers* rank = largest(summary);
  if (rank == nullptr || rank->peak.empty()) return "";
  std::string list;
  for (const OwnedBytes& each : rank->peak)
    list += (list.empty() ? "" : ", ") + each.owner + " " + format_bytes(static_cast<std::uint64_t>(each.nbytes));
  return fmt::format("peak memory of rank {}: {}\n", rank->rank, list);
}

std::string speed_text(const RunSummary& summary) {
  if (summary.ranks.empty() || summary.steps == 0) return "";
  const Totals totals = totals_of(summary);
  const Flops speed = speed_of(summary);
  const std::string rate = fmt::format("{:.0f} {}/s in total, exposed communication {:.1f} %\n", totals.rate,
                                       unit_of(summary.config.model), 100 * exposed_share(totals));
  if (is_own(summary.config.model)) return rate;
  const double peak = peak_flops_of(summary);
  std::string mfu = "unknown (run.peak_flops is not set)";
  if (peak > 0)
    mfu = fmt::format("{:.2f} (causal {:.2f}) of {} GFLOP/s{}", speed.full / peak, speed.causal / peak,
                      std::llround(peak / 1e9), is_peak_measured(summary) ? ", the measured rate of products" : "");
  return rate +
         fmt::format("{:.2f} GFLOP/s per rank (causal {:.2f}), MFU {}\n", speed.full / 1e9, speed.causal / 1e9, mfu);
}

std::string held_out_text(const RunSummary& summary) {
  if (summary.evaluations.empty()) return "";
  const double loss = summary.evaluations.back().loss;
  if (is_own(summary.config.model)) return fmt::format("held-out loss {:.4f}\n", loss);
  std::string text = fmt::format("held-out loss {:.4f} nats per token", loss);
  if (summary.bigram_entropy)
    text += fmt::format(", {} the bigram entropy of that text, {:.4f}",
                        loss < *summary.bigram_entropy ? "below" : "not below", *summary.bigram_entropy);
  return text + "\n";
}

}  // namespace

std::string to_text(const RankNumbers& numbers) {
  return rank_json(numbers).dump(-1, ' ', false, Json::error_handler_t::replace);
}

RankNumbers rank_numbers(const std::string& text) {
  try {
    const Json json = Json::parse(text);
    return {.rank = json.at("rank"),
            .rate_p50 = json.at("tokens_per_second").at("p50"),
            .rate_p99 = json.at("tokens_per_second").at("p99"),
            .seconds = json.at("step_seconds"),
            .exposed_seconds = json.at("exposed_seconds"),
            .peak = owners_from(json.at("peak_memory")),
            .predicted = owners_from(json.at("predicted_memory")),
            .missing = json.at("missing").get<std::vector<std::string>>()};
  } catch (const nlohmann::json::exception& error) {
    TESSERA_THROW(MismatchError, "cannot read the values of a rank (", error.what(),
                  "); all ranks must run the same build");
  }
}

void RankTally::add(const StepReport& report) {
  rates_.push_back(static_cast<double>(report.tokens) / world_size_ / report.seconds);
  seconds_ += report.seconds;
  exposed_seconds_ += report.exposed_seconds;
}

RankNumbers RankTally::numbers(int rank) const {
  return {.rank = rank,
          .rate_p50 = reached_by(rates_, 0.5),
          .rate_p99 = reached_by(rates_, 0.99),
          .seconds = seconds_,
          .exposed_seconds = exposed_seconds_};
}

std::string_view to_string(RunEnd end) {
  switch (end) {
    case RunEnd::kDone: return "done";
    case RunEnd::kStopped: return "stopped";
    case RunEnd::kFailed: return "failed";
    case RunEnd::kInterrupted: return "interrupted";
  }
  return "unknown";
}

double peak_flops_of(const RunSummary& summary) {
  return is_peak_measured(summary) ? summary.measured_flops : summary.config.run.peak_flops;
}

double mfu_per_rate(const RunSummary& summary) {
  const double peak = peak_flops_of(summary);
  return peak > 0 && !is_own(summary.config.model)
             ? flops_per_token(summary.config.model).full / summary.world_size / peak
             : 0;
}

std::string to_json(const RunSummary& summary) {
  const Totals totals = totals_of(summary);
  const MeshConfig& mesh = summary.config.mesh;
  Json ranks = Json::array();
  for (const RankNumbers& each : summary.ranks) ranks.push_back(rank_json(each));
  Json json = {{"end", to_string(summary.end)}};
  if (summary.end != RunEnd::kDone) json["reason"] = summary.reason;
  json["configuration"] = {{"hash", hash_of(summary.config)}, {"file", "config.toml"}};
  json["world_size"] = summary.world_size;
  json["mesh"] = {{"dp", mesh.dp}, {"fsdp", mesh.fsdp}, {"tp", mesh.tp}};
  json["parameters"] = summary.parameters;
  json["steps"] = summary.steps;
  json["skipped"] = {{"nan", summary.skipped_nan}, {"spike", summary.skipped_spike}};
  json["tokens"] = summary.tokens;
  json["loss"] = {{"first", nullptr}, {"last", nullptr}};
  if (summary.first_loss) json["loss"]["first"] = *summary.first_loss;
  if (summary.last_loss) json["loss"]["last"] = *summary.last_loss;
  json["loss_curve"] = "loss.csv";
  json["held_out"] = held_out_json(summary);
  json["tokens_per_second"] = totals.rate;
  const Flops per_token = is_own(summary.config.model) ? Flops() : flops_per_token(summary.config.model);
  json["flops"] = {{"per_token", flops_json(per_token)},
                   {"per_second_and_rank", flops_json(speed_of(summary))},
                   {"conventions",
                    {{"common", "products of matrices, backward twice forward, recomputation not counted"},
                     {"causal", "attention counted half"},
                     {"full", "attention counted whole"}}}};
  json["mfu"] = mfu_json(summary);
  json["exposed_communication"] = {{"seconds", totals.exposed_seconds}, {"share", exposed_share(totals)}};
  json["resumed_from"] = summary.resumed_from;
  json["checkpoints"] = {{"last", nullptr}, {"errors", summary.checkpoint_errors}};
  if (summary.last_checkpoint) json["checkpoints"]["last"] = *summary.last_checkpoint;
  json["ranks"] = ranks;
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string short_text(const RunSummary& summary) {
  const MeshConfig& mesh = summary.config.mesh;
  std::string text;
  if (summary.end != RunEnd::kDone)
    text += fmt::format("{} after {} of {} steps: {}\n", to_string(summary.end), summary.steps,
                        summary.config.train.steps, summary.reason);
  text += fmt::format("{} step{}, {} {}, {} parameters on dp {} x fsdp {} x tp {}\n", summary.steps,
                      summary.steps == 1 ? "" : "s", summary.tokens, unit_of(summary.config.model), summary.parameters,
                      mesh.dp, mesh.fsdp, mesh.tp);
  text += held_out_text(summary) + speed_text(summary) + memory_text(summary);
  if (!summary.checkpoint_errors.empty())
    text += fmt::format("{} checkpoints could not be written; the last: {}\n", summary.checkpoint_errors.size(),
                        summary.checkpoint_errors.back());
  for (const RankNumbers& rank : summary.ranks) {
    for (const std::string& each : rank.missing) text += fmt::format("missing from rank {}: {}\n", rank.rank, each);
  }
  return text + "run directory: " + summary.directory + "\n";
}

}  // namespace tessera::train
