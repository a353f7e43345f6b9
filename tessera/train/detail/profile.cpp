#include "tessera/train/detail/profile.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <sstream>
#include <utility>
#include <vector>
#include <nlohmann/json.hpp>

#include "tessera/base/atomic_file.h"
#include "tessera/base/error.h"
#include "tessera/base/probe/reader.h"
#include "tessera/base/probe/recorder.h"
#include "tessera/base/rank.h"
#include "tessera/memory/history_reader.h"
#include "tessera/memory/torch_snapshot.h"
#include "tessera/record/chrome_trace.h"
#include "tessera/record/read_run.h"

namespace tessera::train::detail {
namespace {

using Json = nlohmann::ordered_json;

// Something that ran on a stream.
struct Ran {
  std::string label;
  std::int64_t begin_ns = 0;  // not before it was launched, nor before the one before it had ended
  std::int64_t end_ns = 0;
};
using Streams = std::map<std::pair<std::string, std::uint32_t>, std::vector<Ran>>;

struct Window {
  std::int64_t begin_ns = 0;
  Streams streams;
};

Window read_window(const probe::RecordFile& file, std::uint64_t begin_ticks) {
  Window window;
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::pair<device::LaunchRecord, std::int64_t>> open;
  for (const probe::RecordRef& ref : file.records()) {
    if (ref.ticks < begin_ticks) continue;
    if (window.begin_ns == 0) window.begin_ns = file.read(ref).wall_ns;
    if (const auto begun = file.as<device::LaunchRecord>(ref)) {
      open[{begun->stream, begun->number}] = {*begun, file.read(ref).wall_ns};
    } else if (const auto ended = file.as<device::LaunchEndRecord>(ref)) {
      const auto found = open.find({ended->stream, ended->number});
      if (found == open.end()) continue;
      std::vector<Ran>& ran = window.streams[{file.string(ended->device), ended->stream}];
      const std::int64_t when = file.info().clock.wall_ns(ended->when.value());
      const std::int64_t before = ran.empty() ? 0 : ran.back().end_ns;
      const bool is_begin_known = ended->begun_ns != ended->ended_ns;
      ran.push_back({file.string(found->second.first.label),
                     is_begin_known ? when + ended->begun_ns : std::max(found->second.second, before),
                     when + ended->ended_ns});
      open.erase(found);
    }
  }
  return window;
}

// What the rank asked of its groups before the window has no place in it.
void leave_out_before(record::Evidence& evidence, std::int64_t begin_ns) {
  for (record::Rank& rank : evidence.ranks) {
    for (record::Group& group : rank.groups) {
      std::erase_if(group.launches, [&](const record::Launch& each) { return each.asked_ns < begin_ns; });
    }
  }
}

void add_streams(Json& trace, const Window& window, int rank) {
  constexpr int kProcess = 1'000'000;  // beside those of the collectives
  const std::int64_t base = trace.at("baseTimeNanoseconds");
  const auto microseconds = [](std::int64_t ns) { return static_cast<double>(ns) / 1000; };
  Json& events = trace.at("traceEvents");
  const auto name = [&](const char* what, std::uint32_t thread, const std::string& text) {
    events.push_back({{"ph", "M"},
                      {"name", what},
                      {"pid", kProcess + rank},
                      {"tid", thread},
                      {"ts", 0},
                      {"args", {{"name", text}}}});
  };
  name("process_name", 0, "rank " + std::to_string(rank) + ", kernels");
  for (const auto& [stream, all] : window.streams) {
    name("thread_name", stream.second, stream.first + " stream " + std::to_string(stream.second));
    for (const Ran& each : all) {
      events.push_back({{"ph", "X"},
                        {"cat", "kernel"},
                        {"name", each.label},
                        {"pid", kProcess + rank},
                        {"tid", stream.second},
                        {"ts", microseconds(each.begin_ns - base)},
                        {"dur", microseconds(std::max<std::int64_t>(each.end_ns - each.begin_ns, 0))}});
    }
  }
}

}  // namespace

void write_profile_trace(const std::string& record, std::uint64_t begin_ticks, const std::string& path) {
  const probe::RecordFile file = probe::RecordFile::open(record);
  const Window window = read_window(file, begin_ticks);
  record::Evidence evidence = record::read_record(record);
  leave_out_before(evidence, window.begin_ns);
  evidence.ranks.front().state = record::RankState::kRunning;  // it is this one
  std::stringstream text;
  (void)record::write_chrome_trace(text, evidence, 0);
  Json trace = Json::parse(text.str());
  if (window.begin_ns != 0) add_streams(trace, window, file.info().rank);
  AtomicFile out(path);
  out.stream() << trace.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n';
  out.commit();
}

Profile::Profile(const RunConfig& config, std::string directory) : directory_(std::move(directory)) {
  std::tie(first_, last_) = profiled_steps(config);
}

void Profile::ask(std::int64_t step) {
  if (step <= last_) return;
  first_ = step;
  last_ = step + kProfiledSteps - 1;
}

void Profile::before(std::int64_t step) {
  if (window_ || step < first_ || step > last_) return;
  begun_ = step;
  begin_ticks_ = probe::recorder().now().value();
  window_.emplace();
}

std::string Profile::after(std::int64_t step, bool is_last) {
  if (!window_ || (step < last_ && !is_last)) return {};
  window_.reset();
  const std::string steps = "steps " + std::to_string(begun_) + " to " + std::to_string(step);
  try {
    return "profile of " + steps + ": " + write();
  } catch (const Error& error) {
    return "the profile of " + steps + " could not be written: " + error.message();
  }
}

std::string Profile::write() const {
  const std::string record = probe::recorder().path();
  TESSERA_CHECK_AS(IoError, !record.empty(), "there is no record to make it from; ", probe::recorder().status());
  std::string folder = directory_ + "/profile-" + std::to_string(begun_);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  TESSERA_CHECK_AS(IoError, !error, "cannot make ", folder, ": ", error.message());
  const std::string rank = folder + "/rank-" + std::to_string(current_place().rank.value());
  write_profile_trace(record, begin_ticks_, rank + ".trace.json");
  const auto snapshots = memory::read_history(probe::RecordFile::open(record), nullptr);
  memory::write_torch_snapshot_file(rank + ".memory.pickle", snapshots, memory::TorchFormat::kPickle);
  return folder;
}

}  // namespace tessera::train::detail
