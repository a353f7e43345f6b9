#include "tessera/analysis/detail/launch_file.h"

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tessera/base/error.h"
#include "tessera/base/json_depth.h"
#include "tessera/base/regular_file.h"

namespace tessera::analysis::detail {
namespace {

using Json = nlohmann::json;
using tessera::detail::concat;

constexpr std::uintmax_t kMaxBytes = 64 << 20;
constexpr std::size_t kMaxDepth = 64;

const Json* find(const Json& in, const char* name) {
  if (!in.is_object()) return nullptr;
  const auto found = in.find(name);
  return found != in.end() ? &*found : nullptr;
}
std::int64_t integer_at(const Json& in, const char* name, std::int64_t fallback = 0) {
  const Json* found = find(in, name);
  return found != nullptr && found->is_number_integer() ? found->get<std::int64_t>() : fallback;
}
std::string text_at(const Json& in, const char* name) {
  const Json* found = find(in, name);
  return found != nullptr && found->is_string() ? found->get<std::string>() : std::string();
}
// Parses "2026-11-16T06:43:20Z" to nanoseconds since 1970; 0 if it is invalid.
std::int64_t time_at(const Json& in, const char* name) {
  const std::string text = text_at(in, name);
  std::tm parts = {};
  const char* end = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  if (end == nullptr || *end != 0 || parts.tm_year < 70 || parts.tm_year > 300) return 0;
  return static_cast<std::int64_t>(::timegm(&parts)) * 1'000'000'000;
}

// Returns the reason for which the launcher sent the signal that ended this rank. A rank that exits after a request to
// end was ended by that request.
std::string sent_for(const Json& rank, std::int64_t code, std::int64_t signal) {
  const Json* signals = find(rank, "signals");
  if (signals == nullptr || !signals->is_array()) return {};
  for (const Json& sent : *signals) {
    const std::int64_t number = integer_at(sent, "signal");
    const bool asks_to_end = number == SIGTERM || number == SIGINT || number == SIGHUP;
    if (signal != 0 ? number == signal : code != 0 && asks_to_end) return text_at(sent, "text");
  }
  return {};
}

std::optional<LaunchedEnd> end_of(const Json& rank) {
  if (find(rank, "end") == nullptr) return std::nullopt;
  const std::int64_t code = integer_at(rank, "exit_code");
  const std::int64_t signal = integer_at(rank, "signal");
  return LaunchedEnd{.exit_code = code >= 0 && code < 256 ? static_cast<int>(code) : 255,
                     .signal = signal > 0 && signal < 128 ? static_cast<int>(signal) : 0,
                     .words = text_at(rank, "end"),
                     .time_ns = time_at(rank, "time"),
                     .sent_for = sent_for(rank, code, signal)};
}

bool is_gone(std::int64_t pid) { return ::kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH; }

// A launcher that ends writes its exit code. One on another machine is not visible.
bool has_died(const Json& json) {
  const std::int64_t pid = integer_at(json, "launcher_pid");
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  return find(json, "exit_code") == nullptr && pid > 0 && text_at(json, "host") == host && is_gone(pid);
}

LaunchFile read_json(const Json& json) {
  LaunchFile launch;
  launch.host = text_at(json, "host");
  launch.ended_ns = find(json, "exit_code") != nullptr ? time_at(json, "ended") : 0;
  const std::int64_t ranks = integer_at(json, "ranks");
  launch.ranks = ranks > 0 && ranks <= kMaxRanks ? static_cast<int>(ranks) : 0;
  const Json* starts = find(json, "starts");
  if (starts == nullptr || !starts->is_array() || starts->empty()) return launch;
  const Json& last = starts->back();
  launch.started_ns = time_at(last, "time");
  const Json* list = find(last, "ranks");
  if (list == nullptr || !list->is_array()) return launch;
  const bool is_launcher_dead = has_died(json);
  for (const Json& rank : *list) {
    const std::int64_t number = integer_at(rank, "rank", -1);
    const std::int64_t pid = integer_at(rank, "pid", -1);
    if (number < 0 || number >= launch.ranks || pid < 0) continue;
    LaunchedRank& launched = launch.by_rank[static_cast<int>(number)];
    launched = {.pid = static_cast<std::uint64_t>(pid), .end = end_of(rank)};
    if (!launched.end && is_launcher_dead && is_gone(pid))
      launched.end = {.signal = SIGKILL, .words = "was killed", .sent_for = "the launcher died", .is_assumed = true};
  }
  return launch;
}

}  // namespace

std::optional<LaunchFile> read_launch_file(const std::string& path, std::vector<std::string>& problems) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return std::nullopt;
  std::string text;
  try {
    text = read_regular_file(path, kMaxBytes);
  } catch (const IoError& problem) {
    problems.push_back(concat(problem.message(), "; ignored"));
    return std::nullopt;
  }
  const Json json = tessera::detail::json_depth(text) > kMaxDepth ? Json() : Json::parse(text, nullptr, false);
  if (json.is_discarded()) {
    problems.push_back(concat(path, ": not JSON, or truncated; the ends of ranks that the launcher saw are unknown"));
    return std::nullopt;
  }
  LaunchFile launch = read_json(json);
  if (launch.ranks == 0) problems.push_back(concat(path, ": the number of ranks is missing"));
  return launch;
}

}  // namespace tessera::analysis::detail
