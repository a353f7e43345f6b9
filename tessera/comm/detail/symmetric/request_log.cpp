#include "tessera/comm/detail/symmetric/request_log.h"

#include <algorithm>
#include <map>
#include <vector>

#include "tessera/comm/detail/peer_memory/failures.h"

namespace tessera::comm::detail {
namespace {

std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 31)) * 0x9fb21c651e98df25;
  x = (x ^ (x >> 28)) * 0xd6e8feb86659fd93;
  return x ^ (x >> 32);
}

// Returns request `number` of a rank; empty if it has not made it.
std::string asked(const RequestLog& log, std::uint64_t number) {
  return number < log.count ? text_of(log.recent[number % RequestLog::kRecent]) : "";
}

}  // namespace

std::string text_of(const SymmetricRequest& request) {
  const std::string nbytes = std::to_string(request.nbytes);
  const std::string number = std::to_string(request.number);
  switch (request.kind) {
    case SymmetricRequest::Kind::kPool: return "a pool(" + nbytes + " bytes, " + number + " channels)";
    case SymmetricRequest::Kind::kAllocate: return "allocate(" + nbytes + ")";
    case SymmetricRequest::Kind::kFree: return "free(" + nbytes + " at " + number + ")";
    case SymmetricRequest::Kind::kRegister: return "register_memory(" + nbytes + "), new";
    case SymmetricRequest::Kind::kFind: return "register_memory(" + nbytes + "), known since registration " + number;
    case SymmetricRequest::Kind::kForget: return "deregister_memory(" + nbytes + "), of registration " + number;
  }
  return "unknown request";
}

void RequestLog::add(const SymmetricRequest& request) {
  recent[count % kRecent] = request;
  ++count;
  std::uint64_t next = mix(digest + 0x9e3779b97f4a7c15 * (static_cast<std::uint64_t>(request.kind) + 1));
  next = mix(next ^ request.nbytes);
  digest = std::max<std::uint64_t>(mix(next ^ request.number), 1);
}

std::string difference(std::span<const RequestLog> logs) {
  const auto differs = [&](const RequestLog& log) {
    return log.digest != logs[0].digest || log.count != logs[0].count;
  };
  if (std::ranges::none_of(logs, differs)) return "";
  std::uint64_t last = 0;
  for (const RequestLog& log : logs) last = std::max(last, log.count);
  // From this request on, each rank's log still has the requests.
  const std::uint64_t first = last > RequestLog::kRecent ? last - RequestLog::kRecent : 0;
  for (std::uint64_t number = first; number < last; ++number) {
    std::map<std::string, std::vector<int>> by_text;
    for (std::size_t rank = 0; rank < logs.size(); ++rank) {
      by_text[asked(logs[rank], number)].push_back(static_cast<int>(rank));
    }
    if (by_text.size() == 1) continue;
    const auto most = std::ranges::max_element(by_text, {}, [](const auto& entry) { return entry.second.size(); });
    const auto shown = [](const std::string& text) { return text.empty() ? "nothing more" : text; };
    std::string text = "request " + std::to_string(number + 1) + " differs: " + text_of_ranks(most->second) +
                       " requested " + shown(most->first);
    for (const auto& [what, ranks] : by_text) {
      if (what != most->first) text += ", " + text_of_ranks(ranks) + " requested " + shown(what);
    }
    return text;
  }
  return "requests before the last " + std::to_string(RequestLog::kRecent) + " differ";
}

}  // namespace tessera::comm::detail
