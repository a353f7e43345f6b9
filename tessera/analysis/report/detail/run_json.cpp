#include "tessera/analysis/report/detail/run_json.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <span>

namespace tessera::analysis::detail {
namespace {

constexpr std::size_t kPoints = 2000;            // of a curve: more than most screens have
constexpr std::size_t kMemoryNumbers = 200'000;  // of all ranks and owners
constexpr std::size_t kMemoryPoints = 400;
constexpr std::size_t kMinMemoryPoints = 16;
constexpr std::size_t kMaxOwnersOfRank = 24;

std::size_t stride_for(std::size_t count, std::size_t most) {
  return std::max<std::size_t>((count + most - 1) / most, 1);
}

// Mean of finite values; null if there are none.
class Mean {
 public:
  void add(double value) {
    if (!std::isfinite(value)) return;
    sum_ += value;
    ++count_;
  }
  [[nodiscard]] PageJson json() const {
    return count_ == 0 ? PageJson() : PageJson(sum_ / static_cast<double>(count_));
  }

 private:
  double sum_ = 0;
  std::size_t count_ = 0;
};

PageJson loss_json(const std::vector<LossLine>& lines) {
  const std::size_t stride = stride_for(lines.size(), kPoints);
  PageJson step = PageJson::array();
  PageJson loss = PageJson::array();
  PageJson norm = PageJson::array();
  PageJson rate = PageJson::array();
  for (std::size_t from = 0; from < lines.size(); from += stride) {
    const auto part = std::span(lines).subspan(from, std::min(stride, lines.size() - from));
    Mean losses;
    Mean norms;
    Mean rates;
    for (const LossLine& line : part) {
      losses.add(line.loss);
      norms.add(line.grad_norm);
      rates.add(line.learning_rate);
    }
    step.push_back(part.back().step);
    loss.push_back(losses.json());
    norm.push_back(norms.json());
    rate.push_back(rates.json());
  }
  return {{"stride", stride}, {"step", step}, {"loss", loss}, {"grad_norm", norm}, {"learning_rate", rate}};
}

// Without loss.csv, the lines of the first rank have the same values.
std::vector<LossLine> losses_of(const RunTables& tables) {
  if (!tables.losses.empty() || tables.ranks.empty()) return tables.losses;
  std::vector<LossLine> lines;
  for (const StepLine& line : tables.ranks.begin()->second) {
    lines.push_back(
        {.step = line.step, .loss = line.loss, .grad_norm = line.grad_norm, .learning_rate = line.learning_rate});
  }
  return lines;
}

// One step over all ranks: as slow as the slowest rank.
struct StepSpeed {
  double tokens = 0;
  double seconds = 0;
  double rank_seconds = 0;
  double exposed_seconds = 0;
};

PageJson speed_json(const RunTables& tables) {
  std::map<std::int64_t, StepSpeed> steps;
  for (const auto& [rank, lines] : tables.ranks) {
    for (const StepLine& line : lines) {
      StepSpeed& step = steps[line.step];
      step.tokens = std::max(step.tokens, line.tokens);
      step.seconds = std::max(step.seconds, line.seconds);
      step.rank_seconds += line.seconds;
      step.exposed_seconds += line.exposed_seconds;
    }
  }
  const std::size_t stride = stride_for(steps.size(), kPoints);
  PageJson step = PageJson::array();
  PageJson rate = PageJson::array();
  PageJson exposed = PageJson::array();
  for (auto at = steps.begin(); at != steps.end();) {
    StepSpeed sum;
    std::int64_t last = 0;
    for (std::size_t i = 0; i < stride && at != steps.end(); ++i, ++at) {
      last = at->first;
      sum.tokens += at->second.tokens;
      sum.seconds += at->second.seconds;
      sum.rank_seconds += at->second.rank_seconds;
      sum.exposed_seconds += at->second.exposed_seconds;
    }
    step.push_back(last);
    rate.push_back(sum.seconds > 0 ? PageJson(sum.tokens / sum.seconds) : PageJson());
    exposed.push_back(sum.rank_seconds > 0 ? PageJson(std::min(sum.exposed_seconds / sum.rank_seconds, 1.0))
                                           : PageJson());
  }
  return {{"stride", stride}, {"step", step}, {"tokens_per_second", rate}, {"exposed_share", exposed}};
}

// Returns the numbers of an object by owner, and nothing else of it.
PageJson owners_json(const PageJson& object) {
  PageJson owners = PageJson::object();
  if (!object.is_object()) return owners;
  for (const auto& [owner, nbytes] : object.items()) {
    if (owners.size() == kMaxOwnersOfRank) break;
    if (nbytes.is_number_unsigned()) owners[owner] = nbytes;
  }
  return owners;
}

// Returns the entry of the rank in the summary; null if none exists.
const PageJson& summary_of_rank(const RunTables& tables, int rank) {
  static const PageJson none;
  const PageJson& ranks = part_at(tables.summary, "ranks");
  if (!ranks.is_array()) return none;
  for (const PageJson& each : ranks) {
    if (number_at(each, "rank") == rank) return each;
  }
  return none;
}

PageJson state_of(const Evidence* evidence, int rank) {
  if (evidence == nullptr) return nullptr;
  for (const Rank& each : evidence->ranks) {
    if (each.rank == rank) {
      PageJson json = {
          {"state", to_string(each.state)}, {"reason", each.reason}, {"host", each.host}, {"pid", each.pid}};
      return json;
    }
  }
  return nullptr;
}

// Returns the final memory of the rank from its record.
PageJson devices_of(const Evidence* evidence, int rank) {
  PageJson devices = PageJson::array();
  if (evidence == nullptr) return devices;
  for (const Rank& each : evidence->ranks) {
    if (each.rank != rank) continue;
    for (const DeviceMemory& memory : each.memory) {
      devices.push_back({{"device", memory.device}, {"live", memory.live_nbytes}, {"mapped", memory.mapped_nbytes}});
    }
  }
  return devices;
}

// Returns the memory of a rank: its peak in the summary, otherwise after its last step.
PageJson owned_json(const RunTables& tables, int rank) {
  PageJson owners = owners_json(part_at(summary_of_rank(tables, rank), "peak_memory"));
  if (!owners.empty()) return owners;
  const auto found = tables.ranks.find(rank);
  if (found == tables.ranks.end() || found->second.empty()) return owners;
  const StepLine& last = found->second.back();
  for (std::size_t i = 0; i < last.owners.size(); ++i) owners[tables.owners[i]] = last.owners[i];
  return owners;
}

std::set<int> all_ranks(const RunTables& tables, const Evidence* evidence) {
  std::set<int> ranks;
  for (const auto& [rank, lines] : tables.ranks) ranks.insert(rank);
  if (evidence != nullptr) {
    for (const Rank& rank : evidence->ranks) ranks.insert(rank.rank);
  }
  if (const PageJson& told = part_at(tables.summary, "ranks"); told.is_array()) {
    for (const PageJson& each : told) {
      const auto rank = number_at(each, "rank");
      if (rank && *rank >= 0 && *rank < 1 << 20) ranks.insert(static_cast<int>(*rank));
    }
  }
  return ranks;
}

}  // namespace

std::string state_of_run(const RunTables& tables, const Evidence* evidence) {
  if (const PageJson& end = part_at(tables.summary, "end"); end.is_string()) return end.get<std::string>();
  if (evidence == nullptr) return "unknown";
  const auto any = [&](auto... states) {
    return std::any_of(evidence->ranks.begin(), evidence->ranks.end(),
                       [&](const Rank& rank) { return ((rank.state == states) || ...); });
  };
  if (any(RankState::kDied, RankState::kFailed)) return "failed";
  if (any(RankState::kRunning, RankState::kStopped)) return "running";
  return any(RankState::kUnknown, RankState::kMissing) ? "unknown" : "ended";
}

PageJson curves_json(const RunTables& tables) {
  PageJson held_out = PageJson::array();
  for (const LossLine& line : tables.losses) {
    if (line.held_out) held_out.push_back({{"step", line.step}, {"loss", *line.held_out}});
  }
  const auto bigram = number_at(part_at(tables.summary, "held_out"), "bigram_entropy");
  return {{"loss", loss_json(losses_of(tables))},
          {"speed", speed_json(tables)},
          {"held_out", held_out},
          {"bigram_entropy", bigram ? PageJson(*bigram) : PageJson()}};
}

PageJson memory_json(const RunTables& tables) {
  const std::size_t wide =
      std::max<std::size_t>(tables.ranks.size() * std::max<std::size_t>(tables.owners.size(), 1), 1);
  const std::size_t points = std::clamp(kMemoryNumbers / wide, kMinMemoryPoints, kMemoryPoints);
  PageJson ranks = PageJson::array();
  for (const auto& [rank, lines] : tables.ranks) {
    const std::size_t stride = stride_for(lines.size(), points);
    PageJson step = PageJson::array();
    std::vector<PageJson> nbytes(tables.owners.size(), PageJson::array());
    for (std::size_t from = 0; from < lines.size(); from += stride) {
      // Of the steps of a point, the one with the most memory.
      const auto part = std::span(lines).subspan(from, std::min(stride, lines.size() - from));
      const StepLine& most = *std::max_element(part.begin(), part.end(),
                                               [](const StepLine& a, const StepLine& b) { return a.total < b.total; });
      step.push_back(most.step);
      for (std::size_t i = 0; i < nbytes.size(); ++i) nbytes[i].push_back(i < most.owners.size() ? most.owners[i] : 0);
    }
    ranks.push_back({{"rank", rank}, {"stride", stride}, {"step", step}, {"nbytes", nbytes}});
  }
  PageJson peaks = PageJson::array();
  for (const int rank : all_ranks(tables, nullptr)) {
    const PageJson& told = summary_of_rank(tables, rank);
    PageJson measured = owners_json(part_at(told, "peak_memory"));
    if (measured.empty()) continue;
    peaks.push_back({{"rank", rank},
                     {"measured", std::move(measured)},
                     {"predicted", owners_json(part_at(told, "predicted_memory"))}});
  }
  return {{"owners", tables.owners}, {"ranks", ranks}, {"peaks", peaks}};
}

PageJson mesh_json(const RunTables& tables, const Evidence* evidence) {
  const auto& [dp, fsdp, tp] = tables.mesh;
  const std::set<int> ranks = all_ranks(tables, evidence);
  const bool is_known = tables.mesh.size() > 0 && (ranks.empty() || *ranks.rbegin() < tables.mesh.size());
  PageJson list = PageJson::array();
  for (const int rank : ranks) {
    PageJson each = {{"rank", rank}, {"place", nullptr}};
    if (is_known) each["place"] = {{"dp", rank / tp / fsdp}, {"fsdp", rank / tp % fsdp}, {"tp", rank % tp}};
    each["process"] = state_of(evidence, rank);
    each["owners"] = owned_json(tables, rank);
    each["devices"] = devices_of(evidence, rank);
    const PageJson& told = summary_of_rank(tables, rank);
    for (const char* key : {"step_seconds", "exposed_seconds"}) {
      const auto value = number_at(told, key);
      each[key] = value ? PageJson(*value) : PageJson();
    }
    list.push_back(std::move(each));
  }
  PageJson axes = nullptr;
  if (is_known) axes = {{"dp", dp}, {"fsdp", fsdp}, {"tp", tp}};
  return {{"axes", axes}, {"ranks", list}};
}

PageJson head_json(const std::string& directory, const RunTables& tables, const Evidence* evidence) {
  const PageJson& summary = tables.summary;
  const auto number = [](const PageJson& object, std::string_view key) {
    const auto value = number_at(object, key);
    return value ? part_at(object, key) : PageJson();
  };
  std::error_code error;
  const std::filesystem::path full = std::filesystem::absolute(directory, error).lexically_normal();
  const std::filesystem::path name = full.has_filename() ? full.filename() : full.parent_path().filename();
  PageJson head = {{"name", name.string()}, {"directory", full.string()}, {"state", state_of_run(tables, evidence)}};
  const PageJson& reason = part_at(summary, "reason");
  head["reason"] = reason.is_string() ? reason : PageJson();
  for (const char* key : {"world_size", "parameters", "steps", "tokens", "tokens_per_second"})
    head[key] = number(summary, key);
  head["held_out_loss"] = number(part_at(summary, "held_out"), "loss");
  head["last_loss"] = number(part_at(summary, "loss"), "last");
  head["exposed_share"] = number(part_at(summary, "exposed_communication"), "share");
  head["skipped_nan"] = number(part_at(summary, "skipped"), "nan");
  head["skipped_spike"] = number(part_at(summary, "skipped"), "spike");
  for (const auto& [key, time] : {std::pair("began", tables.began), std::pair("ended", tables.ended)})
    head[key] = time > 0 ? PageJson(time) : PageJson();
  const PageJson& resumed = part_at(summary, "resumed_from");
  const bool is_resumed = resumed.is_array() && !resumed.empty() && resumed.back().is_number();
  head["resumed_from"] = is_resumed ? resumed.back() : PageJson();
  head["before"] = evidence != nullptr && !evidence->before.empty() ? PageJson(evidence->before) : PageJson();
  if (head["world_size"].is_null() && tables.world_size > 0) head["world_size"] = tables.world_size;
  if (head["world_size"].is_null() && evidence != nullptr) head["world_size"] = evidence->world_size;
  if (head["steps"].is_null() && !tables.losses.empty()) head["steps"] = tables.losses.back().step;
  if (head["last_loss"].is_null() && !tables.losses.empty()) head["last_loss"] = tables.losses.back().loss;
  return head;
}

}  // namespace tessera::analysis::detail
