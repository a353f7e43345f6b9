#include "tessera/analysis/detail/live_report.h"

#include <nlohmann/json.hpp>

#include "tessera/analysis/evidence.h"
#include "tessera/base/error.h"
#include "tessera/base/json_depth.h"
#include "tessera/base/regular_file.h"

namespace tessera::analysis::detail {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kMaxBytes = 64 << 20;
constexpr std::size_t kMaxDepth = 64;

const Json* find(const Json& in, const char* name) {
  if (!in.is_object()) return nullptr;
  const auto found = in.find(name);
  return found != in.end() ? &*found : nullptr;
}

}  // namespace

std::set<std::pair<int, std::uint64_t>> ranks_seen_stopped(const std::string& directory) {
  std::string text;
  try {
    text = read_regular_file(directory + "/explain.json", kMaxBytes);
  } catch (const IoError&) {
    return {};
  }
  if (tessera::detail::json_depth(text) > kMaxDepth) return {};
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  const Json* ranks = find(json, "ranks");
  std::set<std::pair<int, std::uint64_t>> stopped;
  if (ranks == nullptr || !ranks->is_array()) return stopped;
  for (const Json& each : *ranks) {
    const Json* rank = find(each, "rank");
    const Json* state = find(each, "state");
    const Json* pid = find(each, "pid");
    if (rank == nullptr || state == nullptr || pid == nullptr) continue;
    const bool is_stopped = state->is_string() && state->get<std::string>() == to_string(RankState::kStopped);
    if (is_stopped && rank->is_number_integer() && pid->is_number_unsigned())
      stopped.emplace(rank->get<int>(), pid->get<std::uint64_t>());
  }
  return stopped;
}

}  // namespace tessera::analysis::detail
