#include "tessera/analysis/evidence_json.h"

#include <string_view>

#include "tessera/analysis/detail/json_text.h"
#include "tessera/base/atomic_file.h"
#include "tessera/base/error.h"

namespace tessera::analysis {
namespace {

using detail::JsonText;

std::string_view word_of(RankState state) {
  switch (state) {
    case RankState::kRunning: return "running";
    case RankState::kStopped: return "stopped";
    case RankState::kEnded: return "ended";
    case RankState::kFailed: return "failed";
    case RankState::kDied: return "died";
    case RankState::kMissing: return "missing";
    case RankState::kUnknown: break;
  }
  return "unknown";
}

std::string_view word_of(Stage stage) {
  switch (stage) {
    case Stage::kAsked: return "asked";
    case Stage::kBegun: return "begun";
    case Stage::kMet: return "met";
    case Stage::kDone: return "done";
    case Stage::kFailed: return "failed";
  }
  return "unknown";
}

void put(JsonText& json, const CollectiveCall& launch) {
  json.line().open('{').field("task", launch.task).field("sequence", launch.sequence);
  json.field("collective_number", launch.collective_number)
      .field("stage", word_of(launch.stage))
      .field("asked_ns", launch.asked_ns);
  json.field("begun_ns", launch.begun_ns).field("met_ns", launch.met_ns).field("ended_ns", launch.ended_ns);
  json.field("failure", launch.failure).field("label", launch.label).field("device", launch.device);
  json.field("stream", launch.stream).field("thread", launch.thread).field("replay", launch.replay);
  json.field("node", launch.node).field("is_whole", launch.is_whole).key("operations").open('[');
  for (const RecordedOperation& each : launch.operations) {
    json.open('{').field("kind", each.kind).field("dtype", each.dtype).field("count", each.count);
    json.field("reduction", each.reduction).field("root", each.root).field("peer", each.peer);
    json.field("parts", each.parts);
    if (each.channel >= 0) json.field("channel", each.channel);
    json.close('}');
  }
  json.close(']').close('}');
}

void put(std::ostream& out, JsonText& json, const Group& group) {
  json.line().open('{').field("name", group.name).field("backend", group.backend).key("ranks").open('[');
  for (const int rank : group.ranks) json.value(rank);
  json.close(']').field("rank", group.rank).field("asked", group.asked).field("begun", group.begun);
  json.field("ended", group.ended).key("launches").open('[');
  for (const CollectiveCall& launch : group.launches) {
    put(json, launch);
    json.send(out);
  }
  json.close(']');
  if (!group.signals.empty()) {
    json.key("signals").open('[');
    for (const CollectiveCall& launch : group.signals) put(json, launch);
    json.close(']');
  }
  json.close('}');
}

void put_standing(JsonText& json, const Rank& rank) {
  json.line().key("makings").open('[');
  for (const GroupCreation& each : rank.creations) {
    json.open('{').field("what", each.what).field("from", each.from).field("number", each.number);
    json.key("ranks").open('[');
    for (const int number : each.ranks) json.value(number);
    json.close(']').field("since_ns", each.since_ns).field("stage", word_of(each.stage));
    json.field("failure", each.failure).close('}');
  }
  json.close(']').line().key("marks").open('[');
  for (const OpenAnnotation& annotation : rank.annotations) {
    json.open('{').field("name", annotation.name).field("value", annotation.value).field("thread", annotation.thread);
    json.field("since_ns", annotation.since_ns).field("tid", annotation.tid).close('}');
  }
  json.close(']').line().key("memory").open('[');
  for (const DeviceMemory& memory : rank.memory) {
    json.open('{').field("device", memory.device).field("live_nbytes", memory.live_nbytes);
    json.field("mapped_nbytes", memory.mapped_nbytes).field("refused_nbytes", memory.refused_nbytes);
    json.key("owners").open('[');
    for (const auto& [label, nbytes] : memory.owners) {
      json.open('{').field("label", label).field("nbytes", nbytes).close('}');
    }
    json.close(']');
    if (memory.refused_ns != 0) json.field("refused_ns", memory.refused_ns);
    json.close('}');
  }
  json.close(']').line().key("launches").open('[');
  for (const LastKernel& last : rank.launches) {
    json.open('{').field("name", last.name).field("device", last.device).field("stream", last.stream);
    json.field("when_ns", last.when_ns).close('}');
  }
  json.close(']');
}

void put(std::ostream& out, JsonText& json, const Rank& rank) {
  json.line().open('{').field("rank", rank.rank).field("state", word_of(rank.state)).field("reason", rank.reason);
  json.field("signal", rank.signal).field("ended_by", rank.ended_by);
  json.field("file", rank.file).field("is_unread", rank.is_unread).field("host", rank.host).field("pid", rank.pid);
  json.field("first_ns", rank.first_ns).field("last_ns", rank.last_ns).field("lost", rank.lost);
  put_standing(json, rank);
  json.line().key("groups").open('[');
  for (const Group& group : rank.groups) put(out, json, group);
  json.close(']').close('}');
  json.send(out);
}

}  // namespace

void write_evidence_json(std::ostream& out, const Evidence& evidence) {
  JsonText json;
  json.open('{').field("format", "tessera evidence").field("version", 1).field("source", evidence.source);
  json.field("world_size", evidence.world_size).field("taken_ns", evidence.taken_ns);
  json.field("before", evidence.before).field("stopped", evidence.stopped).key("problems").open('[');
  for (const std::string& problem : evidence.problems) json.value(problem);
  json.close(']').line().key("ranks").open('[');
  for (const Rank& rank : evidence.ranks) put(out, json, rank);
  json.line().close(']').close('}');
  json.send(out);
  out << '\n';
  TESSERA_CHECK_AS(IoError, out.good(), "evidence JSON of ", evidence.source, ": writing failed");
}

void write_evidence_json_file(const std::string& path, const Evidence& evidence, FileKind kind) {
  AtomicFile file(path, kind);
  write_evidence_json(file.stream(), evidence);
  file.commit();
}

}  // namespace tessera::analysis
