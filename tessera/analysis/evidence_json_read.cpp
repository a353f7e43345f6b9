// Parses evidence from JSON. The input is not trusted: its size and depth are bounded first, a key of the wrong type is
// an error that names it, and a missing key has its default.
#include <limits>
#include <nlohmann/json.hpp>

#include "tessera/analysis/detail/launch_file.h"
#include "tessera/analysis/evidence_json.h"
#include "tessera/base/error.h"

namespace tessera::analysis {
namespace {

using Json = nlohmann::json;

constexpr int kMaxDepth = 16;

// Returns the value of a key; null if it is missing.
const Json* find(const Json& in, const char* name) {
  TESSERA_CHECK_AS(IoError, in.is_object(), "evidence JSON: must be an object with '", name, "', got ", in.type_name());
  const auto found = in.find(name);
  return found != in.end() ? &*found : nullptr;
}

void read(const Json& in, const char* name, std::string& to) {
  const Json* found = find(in, name);
  if (found == nullptr) return;
  TESSERA_CHECK_AS(IoError, found->is_string(), "evidence JSON: '", name, "' must be a string, got ",
                   found->type_name());
  to = found->get<std::string>();
}
void read(const Json& in, const char* name, bool& to) {
  const Json* found = find(in, name);
  if (found == nullptr) return;
  TESSERA_CHECK_AS(IoError, found->is_boolean(), "evidence JSON: '", name, "' must be true or false, got ",
                   found->type_name());
  to = found->get<bool>();
}
template <std::integral Number>
Number number_of(const Json& value, const char* name) {
  TESSERA_CHECK_AS(IoError, value.is_number_integer(), "evidence JSON: '", name, "' must be an integer, got ",
                   value.type_name());
  const bool fits = value.is_number_unsigned() ? std::in_range<Number>(value.get<std::uint64_t>())
                                               : std::in_range<Number>(value.get<std::int64_t>());
  TESSERA_CHECK_AS(IoError, fits, "evidence JSON: '", name, "' is out of range, got ", value.dump());
  return value.get<Number>();
}
template <std::integral Number>
requires(!std::same_as<Number, bool>) void read(const Json& in, const char* name, Number& to) {
  if (const Json* found = find(in, name)) to = number_of<Number>(*found, name);
}

// Reads a list; `each` reads one entry.
template <class Each>
void read_list(const Json& in, const char* name, const Each& each) {
  const Json* found = find(in, name);
  if (found == nullptr) return;
  TESSERA_CHECK_AS(IoError, found->is_array(), "evidence JSON: '", name, "' must be a list, got ", found->type_name());
  for (const Json& one : *found) each(one);
}

// Returns the index of a word in a list.
template <class Word>
Word word_at(const Json& in, const char* name, std::initializer_list<std::pair<const char*, Word>> words) {
  std::string text;
  read(in, name, text);
  for (const auto& [known, word] : words) {
    if (text == known) return word;
  }
  TESSERA_THROW(IoError, "evidence JSON: '", name, "' has the unknown value '", text.substr(0, 64), "'");
}
RankState state_at(const Json& in) {
  return word_at<RankState>(in, "state",
                            {{"running", RankState::kRunning},
                             {"stopped", RankState::kStopped},
                             {"ended", RankState::kEnded},
                             {"failed", RankState::kFailed},
                             {"died", RankState::kDied},
                             {"missing", RankState::kMissing},
                             {"unknown", RankState::kUnknown}});
}
Stage stage_at(const Json& in) {
  return word_at<Stage>(in, "stage",
                        {{"asked", Stage::kAsked},
                         {"begun", Stage::kBegun},
                         {"met", Stage::kMet},
                         {"done", Stage::kDone},
                         {"failed", Stage::kFailed}});
}

RecordedOperation operation_of(const Json& in) {
  RecordedOperation one;
  read(in, "kind", one.kind);
  read(in, "dtype", one.dtype);
  read(in, "count", one.count);
  read(in, "reduction", one.reduction);
  read(in, "root", one.root);
  read(in, "peer", one.peer);
  read(in, "parts", one.parts);
  read(in, "channel", one.channel);
  return one;
}

CollectiveCall launch_of(const Json& in) {
  CollectiveCall one;
  read(in, "task", one.task);
  read(in, "sequence", one.sequence);
  read(in, "collective_number", one.collective_number);
  one.stage = stage_at(in);
  read(in, "asked_ns", one.asked_ns);
  read(in, "begun_ns", one.begun_ns);
  read(in, "met_ns", one.met_ns);
  read(in, "ended_ns", one.ended_ns);
  read(in, "failure", one.failure);
  read(in, "label", one.label);
  read(in, "device", one.device);
  read(in, "stream", one.stream);
  read(in, "thread", one.thread);
  read(in, "replay", one.replay);
  read(in, "node", one.node);
  read(in, "is_whole", one.is_whole);
  read_list(in, "operations", [&](const Json& each) { one.operations.push_back(operation_of(each)); });
  TESSERA_CHECK_AS(IoError, !one.operations.empty(), "evidence JSON: a launch must have operations");
  return one;
}

// Reads ranks of the world, of a group or of a group creation.
void read_ranks(const Json& in, std::vector<int>& ranks) {
  read_list(in, "ranks", [&](const Json& each) { ranks.push_back(number_of<int>(each, "ranks")); });
  TESSERA_CHECK_AS(IoError, ranks.size() <= detail::kMaxRanks, "evidence JSON: a group must have at most ",
                   detail::kMaxRanks, " ranks, got ", ranks.size());
}

Group group_of(const Json& in) {
  Group one;
  read(in, "name", one.name);
  read(in, "backend", one.backend);
  read_ranks(in, one.ranks);
  read(in, "rank", one.rank);
  read(in, "asked", one.asked);
  read(in, "begun", one.begun);
  read(in, "ended", one.ended);
  read_list(in, "launches", [&](const Json& each) { one.launches.push_back(launch_of(each)); });
  read_list(in, "signals", [&](const Json& each) { one.signals.push_back(launch_of(each)); });
  return one;
}

void read_standing(const Json& in, Rank& rank) {
  read_list(in, "makings", [&](const Json& each) {
    GroupCreation& one = rank.creations.emplace_back();
    read(each, "what", one.what);
    read(each, "from", one.from);
    read(each, "number", one.number);
    read_ranks(each, one.ranks);
    read(each, "since_ns", one.since_ns);
    one.stage = stage_at(each);
    read(each, "failure", one.failure);
  });
  read_list(in, "marks", [&](const Json& each) {
    OpenAnnotation& one = rank.annotations.emplace_back();
    read(each, "name", one.name);
    read(each, "value", one.value);
    read(each, "thread", one.thread);
    read(each, "since_ns", one.since_ns);
    read(each, "tid", one.tid);
  });
  read_list(in, "memory", [&](const Json& each) {
    DeviceMemory& one = rank.memory.emplace_back();
    read(each, "device", one.device);
    read(each, "live_nbytes", one.live_nbytes);
    read(each, "mapped_nbytes", one.mapped_nbytes);
    read(each, "refused_nbytes", one.refused_nbytes);
    read_list(each, "owners", [&](const Json& owner) {
      auto& [label, nbytes] = one.owners.emplace_back();
      read(owner, "label", label);
      read(owner, "nbytes", nbytes);
    });
    read(each, "refused_ns", one.refused_ns);
  });
  read_list(in, "launches", [&](const Json& each) {
    LastKernel& one = rank.launches.emplace_back();
    read(each, "name", one.name);
    read(each, "device", one.device);
    read(each, "stream", one.stream);
    read(each, "when_ns", one.when_ns);
  });
}

Rank rank_of(const Json& in) {
  Rank one;
  read(in, "rank", one.rank);
  TESSERA_CHECK_AS(IoError, one.rank >= 0 && one.rank < detail::kMaxRanks, "evidence JSON: rank must be in [0, ",
                   detail::kMaxRanks, "), got ", one.rank);
  one.state = state_at(in);
  read(in, "reason", one.reason);
  read(in, "signal", one.signal);
  read(in, "ended_by", one.ended_by);
  read(in, "file", one.file);
  read(in, "is_unread", one.is_unread);
  read(in, "host", one.host);
  read(in, "pid", one.pid);
  read(in, "first_ns", one.first_ns);
  read(in, "last_ns", one.last_ns);
  read(in, "lost", one.lost);
  read_standing(in, one);
  read_list(in, "groups", [&](const Json& each) { one.groups.push_back(group_of(each)); });
  return one;
}

Json parsed(std::string_view text) {
  TESSERA_CHECK_AS(IoError, text.size() <= kMaxEvidenceBytes, "evidence JSON: must have at most ", kMaxEvidenceBytes,
                   " bytes, got ", text.size());
  const Json::parser_callback_t is_shallow = [](int depth, Json::parse_event_t /*event*/, Json& /*value*/) {
    TESSERA_CHECK_AS(IoError, depth <= kMaxDepth, "evidence JSON: must be nested at most ", kMaxDepth,
                     " levels deep, got ", depth);
    return true;
  };
  Json json = Json::parse(text, is_shallow, /*allow_exceptions=*/false);
  TESSERA_CHECK_AS(IoError, json.is_object(),
                   "evidence JSON: must be a JSON object; the file is not JSON, or is truncated");
  return json;
}

}  // namespace

Evidence read_evidence_json(std::string_view text) {
  const Json json = parsed(text);
  std::string format;
  int version = 0;
  read(json, "format", format);
  read(json, "version", version);
  TESSERA_CHECK_AS(IoError, format == "tessera evidence", "evidence JSON: format must be 'tessera evidence', got '",
                   format.substr(0, 64), "'");
  TESSERA_CHECK_AS(IoError, version == 1, "evidence JSON: version must be 1, got ", version);
  Evidence evidence;
  read(json, "source", evidence.source);
  read(json, "before", evidence.before);
  read(json, "stopped", evidence.stopped);
  read(json, "world_size", evidence.world_size);
  TESSERA_CHECK_AS(IoError, evidence.world_size >= 0 && evidence.world_size <= detail::kMaxRanks,
                   "evidence JSON: world_size must be in [0, ", detail::kMaxRanks, "], got ", evidence.world_size);
  read(json, "taken_ns", evidence.taken_ns);
  read_list(json, "problems", [&](const Json& each) {
    TESSERA_CHECK_AS(IoError, each.is_string(), "evidence JSON: a problem must be a string, got ", each.type_name());
    evidence.problems.push_back(each.get<std::string>());
  });
  read_list(json, "ranks", [&](const Json& each) { evidence.ranks.push_back(rank_of(each)); });
  return evidence;
}

}  // namespace tessera::analysis
