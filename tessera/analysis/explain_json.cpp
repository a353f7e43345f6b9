// The explanation as JSON. Its keys are stable: see docs/explain.md.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "tessera/analysis/explain.h"

namespace tessera::analysis {
namespace {

using Json = nlohmann::ordered_json;

std::string text_of(Stage stage) {
  switch (stage) {
    case Stage::kAsked: return "asked";
    case Stage::kBegun: return "begun";
    case Stage::kMet: return "met";
    case Stage::kDone: return "done";
    case Stage::kFailed: break;
  }
  return "failed";
}

// Selection of ranks and groups.
class Choice {
 public:
  explicit Choice(const ShowOptions& options) : options_(options) {}
  [[nodiscard]] bool has(int rank) const {
    return options_.ranks.empty() ||
           std::find(options_.ranks.begin(), options_.ranks.end(), rank) != options_.ranks.end();
  }
  [[nodiscard]] bool has(const std::string& group) const { return options_.group.empty() || options_.group == group; }
  [[nodiscard]] std::size_t last() const { return options_.last; }

 private:
  const ShowOptions& options_;
};

Json json_of(const Verdict& verdict) {
  return {{"fault", to_string(verdict.fault)},
          {"culprits", verdict.culprits},
          {"group", verdict.group},
          {"collective_number", verdict.collective_number},
          {"sentence", verdict.sentence},
          {"advice", verdict.advice},
          {"confidence", to_string(verdict.confidence)}};
}

Json json_of(const Wait& wait) {
  return {{"rank", wait.rank},
          {"peer", wait.peer},
          {"group", wait.group},
          {"what", wait.what},
          {"since_ns", wait.since_ns}};
}

Json json_of(const CollectiveCall& launch) {
  Json operations = Json::array();
  for (const RecordedOperation& operation : launch.operations) {
    operations.push_back({{"kind", operation.kind},
                          {"dtype", operation.dtype},
                          {"count", operation.count},
                          {"reduction", operation.reduction},
                          {"root", operation.root},
                          {"peer", operation.peer},
                          {"parts", operation.parts}});
  }
  return {{"task", launch.task},
          {"sequence", launch.sequence},
          {"collective_number", launch.collective_number},
          {"stage", text_of(launch.stage)},
          {"operations", operations},
          {"asked_ns", launch.asked_ns},
          {"begun_ns", launch.begun_ns},
          {"met_ns", launch.met_ns},
          {"ended_ns", launch.ended_ns},
          {"failure", launch.failure},
          {"label", launch.label},
          {"device", launch.device},
          {"stream", launch.stream},
          {"thread", launch.thread},
          {"replay", launch.replay},
          {"node", launch.node},
          {"is_whole", launch.is_whole}};
}

Json json_of(const Group& group, std::size_t last) {
  Json launches = Json::array();
  const std::size_t from = group.launches.size() - std::min(last, group.launches.size());
  for (std::size_t i = from; i < group.launches.size(); ++i) launches.push_back(json_of(group.launches[i]));
  return {{"name", group.name},   {"backend", group.backend}, {"ranks", group.ranks}, {"rank", group.rank},
          {"asked", group.asked}, {"begun", group.begun},     {"ended", group.ended}, {"launches", launches}};
}

Json json_of(const Rank& rank, const Choice& choice) {
  Json annotations = Json::array();
  for (const OpenAnnotation& annotation : rank.annotations) {
    annotations.push_back({{"name", annotation.name},
                           {"value", annotation.value},
                           {"thread", annotation.thread},
                           {"since_ns", annotation.since_ns}});
  }
  Json memory = Json::array();
  for (const DeviceMemory& one : rank.memory) {
    Json owners = Json::array();
    for (const auto& [label, nbytes] : one.owners) owners.push_back({{"label", label}, {"nbytes", nbytes}});
    memory.push_back({{"device", one.device},
                      {"live_nbytes", one.live_nbytes},
                      {"mapped_nbytes", one.mapped_nbytes},
                      {"refused_nbytes", one.refused_nbytes},
                      {"owners", owners}});
  }
  Json launches = Json::array();
  for (const LastKernel& one : rank.launches) {
    launches.push_back({{"name", one.name}, {"device", one.device}, {"stream", one.stream}, {"when_ns", one.when_ns}});
  }
  Json groups = Json::array();
  for (const Group& group : rank.groups) {
    if (choice.has(group.name)) groups.push_back(json_of(group, choice.last()));
  }
  return {{"rank", rank.rank},         {"state", to_string(rank.state)},
          {"reason", rank.reason},     {"signal", rank.signal},
          {"ended_by", rank.ended_by}, {"file", rank.file},
          {"host", rank.host},         {"pid", rank.pid},
          {"last_ns", rank.last_ns},   {"lost", rank.lost},
          {"marks", annotations},      {"memory", memory},
          {"launches", launches},      {"groups", groups}};
}

Json json_of(const Difference& difference) {
  Json sides = Json::array();
  for (const Side& side : difference.sides) sides.push_back({{"ranks", side.ranks}, {"what", side.what}});
  return {{"group", difference.group}, {"collective_number", difference.collective_number}, {"sides", sides}};
}

}  // namespace

std::string to_json(const Evidence& evidence, const Explanation& found, const ShowOptions& options) {
  const Choice choice(options);
  Json json = {{"source", evidence.source}, {"world_size", evidence.world_size}, {"taken_ns", evidence.taken_ns}};
  json["before"] = evidence.before.empty() ? Json() : Json(evidence.before);
  json["verdict"] = json_of(found.verdict);
  for (const char* key : {"others", "differences", "waits", "circles", "stragglers", "ranks"})
    json[key] = Json::array();
  for (const Verdict& other : found.others) json["others"].push_back(json_of(other));
  for (const Difference& one : found.differences) {
    if (choice.has(one.group)) json["differences"].push_back(json_of(one));
  }
  for (const Wait& wait : found.waits) {
    if (choice.has(wait.group) && (choice.has(wait.rank) || choice.has(wait.peer)))
      json["waits"].push_back(json_of(wait));
  }
  for (const std::vector<Wait>& cycle : found.cycles) {
    Json waits = Json::array();
    for (const Wait& wait : cycle) waits.push_back(json_of(wait));
    json["circles"].push_back(std::move(waits));
  }
  for (const Straggler& one : found.stragglers) {
    if (!choice.has(one.group) || !choice.has(one.rank)) continue;
    json["stragglers"].push_back({{"rank", one.rank},
                                  {"group", one.group},
                                  {"collectives", one.collectives},
                                  {"last_to_come", one.last_to_come},
                                  {"late_ms", one.late_ms}});
  }
  for (const Rank& rank : evidence.ranks) {
    if (choice.has(rank.rank)) json["ranks"].push_back(json_of(rank, choice));
  }
  json["problems"] = evidence.problems;
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace tessera::analysis
