// Findings: each has a verdict, a strength and the number of ranks that wait because of it. explain() selects the
// strongest one that explains the others.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "tessera/analysis/detail/compare.h"
#include "tessera/analysis/detail/overview.h"
#include "tessera/analysis/detail/stragglers.h"
#include "tessera/analysis/detail/waits.h"
#include "tessera/analysis/explain.h"

namespace tessera::analysis::detail {

/// Strength of a finding: observed faults take precedence over inferred ones.
enum class Strength : std::uint8_t {
  kWeak,       ///< Used only if nothing else explains the failure.
  kConcluded,  ///< Inferred from an absence.
  kSeen,       ///< An end or a difference that is in the records.
};

/// One finding.
struct Finding {
  Verdict verdict = {};  ///< Verdict to report.
  Strength strength = Strength::kWeak;
  std::size_t waiting = 0;         ///< Ranks that wait because of it.
  std::int64_t when_ns = 0;        ///< On the shared clock of the ranks; 0 if unknown.
  std::vector<int> involved = {};  ///< Ranks that take part and are not blamed.
};

/// Inputs of all findings.
struct Material {
  Overview overview = {};                                       ///< The evidence by group.
  WaitGraph waits = {};                                         ///< Waits between ranks.
  std::vector<std::vector<Disagreement>> disagreements = {};    ///< Disagreements by group.
  std::vector<std::vector<MessageDisagreement>> messages = {};  ///< Point-to-point disagreements by group.
};

/// Finds ranks that died, failed by themselves, ran out of memory or were stopped.
void find_own_faults(const Material& material, std::vector<Finding>& findings);
/// Finds collectives and point-to-point operations in which ranks differ.
void find_differences(const Material& material, std::vector<Finding>& findings);
/// Finds absent ranks and the reason for their absence.
void find_absences(const Material& material, std::vector<Finding>& findings);
/// Finds ranks that are absent from a group creation.
void find_not_made(const Material& material, std::vector<Finding>& findings);
/// Finds deadlock cycles.
void find_cycles(const Material& material, std::vector<Finding>& findings);
/// Finds operations that all ranks reached and that do not finish.
void find_slow_operations(const Material& material, std::vector<Finding>& findings);
/// Finds ranks that repeatedly arrive last, and cost the others much time.
void find_stragglers(const std::vector<Lateness>& late, std::vector<Finding>& findings);
/// Finds remaining faults: ranks that never joined, that were requested to end, or that failed for unknown reasons.
void find_leftovers(const Material& material, std::vector<Finding>& findings);

/// The meeting of a rank in which most others wait: one that it did not reach, or one that it is in.
struct Missed {
  const UnfinishedCollective* meeting = nullptr;  ///< Null if no rank waits.
  std::size_t waiting = 0;                        ///< Other ranks that wait there.
  bool is_absent = false;                         ///< True if the rank did not reach it.
};
/// Returns an entry for every rank that others wait for.
std::unordered_map<int, Missed> missed_ranks(const Material& material);
/// Returns "; 3 ranks wait for it"; empty if none does.
std::string text_of_waiting(std::size_t waiting, std::size_t culprits);
/// Returns "collective 17 of group world, all_reduce(f32[1024], sum)".
std::string text_with_group(const Material& material, const UnfinishedCollective& meeting);

}  // namespace tessera::analysis::detail
