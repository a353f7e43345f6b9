#include "tessera/analysis/detail/whereabouts.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "tessera/analysis/detail/wording.h"

namespace tessera::analysis::detail {
namespace {

const CollectiveCall* last_launch(const Rank& rank, const Group** where) {
  const CollectiveCall* last = nullptr;
  for (const Group& group : rank.groups) {
    for (const CollectiveCall& launch : group.launches) {
      if (launch.operations.empty() || launch.stage == Stage::kAsked) continue;
      if (last != nullptr && std::max(launch.begun_ns, launch.asked_ns) < std::max(last->begun_ns, last->asked_ns)) {
        continue;
      }
      last = &launch;
      *where = &group;
    }
  }
  return last;
}

const LastKernel* last_kernel(const Rank& rank) {
  const auto last = std::max_element(rank.launches.begin(), rank.launches.end(),
                                     [](const LastKernel& a, const LastKernel& b) { return a.when_ns < b.when_ns; });
  return last == rank.launches.end() ? nullptr : &*last;
}

std::string ago(const Overview& overview, const Rank& rank, std::int64_t time_ns, std::string_view before,
                std::string_view after = "") {
  const std::int64_t passed = elapsed(overview.shared_time(rank.rank, time_ns), overview.evidence->taken_ns);
  return passed == 0 ? "" : fmt::format("{}{}{}", before, text_of_duration(passed), after);
}

}  // namespace

std::string text_of_annotations(const Rank& rank) {
  std::string text;
  for (const OpenAnnotation& annotation : rank.annotations) {
    if (annotation.thread != rank.annotations.front().thread) continue;
    text += (text.empty() ? "" : ", ") + visible(annotation.name);
    if (annotation.value != 0 || annotation.name == "step") text += fmt::format("={}", annotation.value);
  }
  return text;
}

std::string whereabouts(const Overview& overview, const Rank& rank) {
  std::string text;
  if (!rank.annotations.empty()) {
    const auto inner = std::find_if(
        rank.annotations.rbegin(), rank.annotations.rend(),
        [&](const OpenAnnotation& annotation) { return annotation.thread == rank.annotations.front().thread; });
    text = fmt::format("its host is in annotation {}{}", text_of_annotations(rank),
                       ago(overview, rank, inner->since_ns, ", for "));
  }
  const Group* group = nullptr;
  const CollectiveCall* launch = text.empty() ? last_launch(rank, &group) : nullptr;
  if (launch != nullptr) {
    text = fmt::format("it last reached {} {} of group {}, {}",
                       launch->is_message() ? "point-to-point operation" : "collective", launch->collective_number,
                       visible(group->name), text_of(*launch));
    if (!launch->label.empty()) text += fmt::format(" with label '{}'", visible(launch->label));
    text += ago(overview, rank, std::max(launch->ended_ns, launch->begun_ns), ", ", " ago");
  }
  if (const LastKernel* kernel = last_kernel(rank)) {
    text += fmt::format("{}the last launch is {} on {} stream {}{}", text.empty() ? "" : "; ", visible(kernel->name),
                        visible(kernel->device), kernel->stream, ago(overview, rank, kernel->when_ns, ", ", " ago"));
  }
  return text.empty() ? "its position is unknown" : text;
}

std::int64_t last_activity_ns(const Rank& rank) {
  std::int64_t last = 0;
  for (const OpenAnnotation& annotation : rank.annotations) last = std::max(last, annotation.since_ns);
  for (const GroupCreation& creation : rank.creations) last = std::max(last, creation.since_ns);
  for (const LastKernel& launch : rank.launches) last = std::max(last, launch.when_ns);
  for (const Group& group : rank.groups) {
    for (const CollectiveCall& launch : group.launches) {
      last = std::max({last, launch.asked_ns, launch.begun_ns, launch.ended_ns});
    }
  }
  return last;
}

std::string last_label(const Rank& rank) {
  const CollectiveCall* last = nullptr;
  for (const Group& group : rank.groups) {
    for (const CollectiveCall& launch : group.launches) {
      if (!launch.label.empty() && (last == nullptr || launch.asked_ns >= last->asked_ns)) last = &launch;
    }
  }
  return last == nullptr ? std::string() : visible(last->label);
}

}  // namespace tessera::analysis::detail
