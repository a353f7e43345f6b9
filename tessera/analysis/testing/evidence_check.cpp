#include "tessera/analysis/testing/evidence_check.h"

#include <algorithm>

namespace tessera::analysis::testing {
namespace {

std::string wrong_launch(const CollectiveCall& launch, int size) {
  if (launch.operations.empty()) return "a launch of nothing";
  for (const RecordedOperation& operation : launch.operations) {
    if (operation.kind.empty()) return "an operation without a kind";
    if (operation.count < 0) return "an operation of fewer than no elements";
    if (operation.peer < -1 || operation.peer >= size) return "a peer that is not in the group";
    if (operation.root < -1 || operation.root >= size) return "a root that is not in the group";
  }
  if (launch.stage > Stage::kFailed) return "a stage that is none";
  if (!launch.failure.empty() && launch.stage != Stage::kFailed) return "the failure of a launch that did not fail";
  return {};
}

std::string wrong_group(const Group& group) {
  const auto size = static_cast<int>(group.ranks.size());
  if (group.name.empty()) return "a group without a name";
  if (group.rank < 0 || group.rank >= size) return "a group in which the rank has no place";
  if (std::any_of(group.ranks.begin(), group.ranks.end(), [](int member) { return member < 0; }))
    return "a member below zero";
  for (const CollectiveCall& launch : group.launches) {
    if (std::string problem = wrong_launch(launch, size); !problem.empty()) return problem;
  }
  return {};
}

}  // namespace

std::string inconsistency(const Evidence& evidence) {
  if (evidence.ranks.size() != static_cast<std::size_t>(evidence.world_size)) return "ranks and the size of the world";
  for (std::size_t i = 0; i < evidence.ranks.size(); ++i) {
    const Rank& rank = evidence.ranks[i];
    const std::string where = "rank " + std::to_string(rank.rank) + ": ";
    if (rank.rank != static_cast<int>(i)) return where + "out of order";
    if (rank.state > RankState::kUnknown) return where + "a state that is none";
    for (const Group& group : rank.groups) {
      if (std::string problem = wrong_group(group); !problem.empty())
        return where + "group " + group.name + ": " + problem;
    }
  }
  if (std::any_of(evidence.problems.begin(), evidence.problems.end(),
                  [](const std::string& problem) { return problem.empty(); }))
    return "a problem without words";
  return {};
}

}  // namespace tessera::analysis::testing
