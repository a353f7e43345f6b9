#include "tessera/analysis/detail/own_kernels.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <string>
#include <unordered_map>
#include <utility>

namespace tessera::analysis::detail {
namespace {

// An enqueued launch, and the number of kernels that may still belong to it.
struct Asked {
  const CollectiveCall* launch = nullptr;
  std::size_t left = 0;
};
using StreamName = std::pair<std::string, std::uint32_t>;
using AskedByStream = std::map<StreamName, std::vector<Asked>>;

// On the host a launch is one function. Otherwise each operation is one or two kernels, and a barrier may come between.
std::size_t max_kernels(const CollectiveCall& launch) {
  return launch.device == "host" ? 1 : 2 * launch.operations.size() + 1;
}

// For an active run, the evidence was read before the kernels, with a clock that has been corrected since.
constexpr std::int64_t kCorrected = 20'000;  // ns

bool is_name_of(const CollectiveCall& launch, const std::string& label) {
  if (launch.operations.size() > 1 && label == "coalesced") return true;
  if (launch.device == "host" && launch.operations.size() > 1) return false;
  const bool is_kind = std::any_of(launch.operations.begin(), launch.operations.end(),
                                   [&](const RecordedOperation& operation) { return operation.kind == label; });
  return is_kind || (launch.device != "host" && label == "barrier");
}

AskedByStream asked_launches(const Rank& rank) {
  AskedByStream asked;
  for (const Group& group : rank.groups) {
    for (const CollectiveCall& launch : group.launches) {
      if (launch.asked_ns <= 0 || launch.replay != 0) continue;
      asked[{launch.device, launch.stream}].push_back({&launch, max_kernels(launch)});
    }
  }
  for (auto& [stream, launches] : asked) {
    std::stable_sort(launches.begin(), launches.end(),
                     [](const Asked& a, const Asked& b) { return a.launch->asked_ns < b.launch->asked_ns; });
  }
  return asked;
}

// Returns true if a kernel enqueued at this time belongs to a launch of the stream, and counts it: the last launch
// enqueued before it, or else one just after it.
bool take_kernel(std::vector<Asked>& launches, std::int64_t asked_ns, const std::string& label) {
  const auto take = [&](Asked& one) {
    const bool is_own = one.left > 0 && is_name_of(*one.launch, label);
    one.left -= is_own ? 1 : 0;
    return is_own;
  };
  const auto later =
      std::upper_bound(launches.begin(), launches.end(), asked_ns,
                       [](std::int64_t moment, const Asked& one) { return moment < one.launch->asked_ns; });
  if (later != launches.begin() && take(*std::prev(later))) return true;
  return later != launches.end() && later->launch->asked_ns - kCorrected <= asked_ns && take(*later);
}

}  // namespace

std::vector<bool> own_kernels(const Rank& rank, const probe::RecordFile& file,
                              const std::vector<TimedKernel>& kernels) {
  std::vector<bool> is_own(kernels.size());
  AskedByStream asked = asked_launches(rank);
  if (asked.empty()) return is_own;
  std::vector<std::size_t> order(kernels.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return kernels[a].asked_ns < kernels[b].asked_ns; });
  std::unordered_map<std::uint32_t, std::string> texts;
  const auto text_of = [&](probe::StringId id) -> const std::string& {
    const auto [text, is_new] = texts.try_emplace(id.value());
    if (is_new) text->second = file.string(id);
    return text->second;
  };
  for (const std::size_t each : order) {
    const TimedKernel& kernel = kernels[each];
    const auto stream = asked.find({text_of(kernel.device), kernel.stream});
    if (stream == asked.end()) continue;
    is_own[each] = take_kernel(stream->second, kernel.asked_ns, text_of(kernel.label));
  }
  return is_own;
}

}  // namespace tessera::analysis::detail
