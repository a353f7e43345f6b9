// What went wrong, as findings: each a verdict, how strong it is against others, and how many ranks wait because of it.
// explain() takes the strongest that explains the rest.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "tessera/record/detail/compare.h"
#include "tessera/record/detail/overview.h"
#include "tessera/record/detail/stragglers.h"
#include "tessera/record/detail/waits.h"
#include "tessera/record/explain.h"

namespace tessera::record::detail {

/// How much a finding counts against others: one that was seen before one that was concluded.
enum class Strength : std::uint8_t {
  kWeak,       ///< explains something only where nothing else does
  kConcluded,  ///< by who did not come
  kSeen,       ///< an end or a difference that stands in the records
};

/// One of them.
struct Finding {
  Verdict verdict = {};                 ///< what to say
  Strength strength = Strength::kWeak;  ///< against others
  std::size_t waiting = 0;              ///< ranks that wait because of it
  std::int64_t when_ns = 0;             ///< on the clock that ranks share; 0: not known
  std::vector<int> involved = {};       ///< ranks that take part and are not blamed
};

/// Everything that findings are made from.
struct Material {
  Overview overview = {};                                       ///< the evidence by group
  WaitGraph waits = {};                                         ///< who waits for whom
  std::vector<std::vector<Disagreement>> disagreements = {};    ///< by group
  std::vector<std::vector<MessageDisagreement>> messages = {};  ///< by group
};

/// Ranks that died, failed by themselves, ran out of memory or were stopped.
void find_own_faults(const Material& material, std::vector<Finding>& findings);
/// Collectives and messages in which ranks differ.
void find_differences(const Material& material, std::vector<Finding>& findings);
/// Ranks that did not come, and what holds them.
void find_absences(const Material& material, std::vector<Finding>& findings);
/// Ranks that did not come to the making of a group.
void find_not_made(const Material& material, std::vector<Finding>& findings);
/// Ranks that wait for each other.
void find_circles(const Material& material, std::vector<Finding>& findings);
/// Operations to which all came and which do not end.
void find_slow_operations(const Material& material, std::vector<Finding>& findings);
/// Ranks that always come last, and cost the others much of their time.
void find_stragglers(const std::vector<Lateness>& late, std::vector<Finding>& findings);
/// What is left where nothing else was found: ranks that never joined, that were told to end, or failed for reasons
/// that are not known.
void find_leftovers(const Material& material, std::vector<Finding>& findings);

/// The meeting of a rank that most others wait in: one it did not come to, or one it is in.
struct Missed {
  const Meeting* meeting = nullptr;  ///< null: nobody waits
  std::size_t waiting = 0;           ///< others that wait there
  bool is_absent = false;            ///< whether it did not come
};
/// For every rank that others wait for.
std::unordered_map<int, Missed> missed_ranks(const Material& material);
/// "; 3 ranks wait for it"; empty: none does.
std::string text_of_waiting(std::size_t waiting, std::size_t culprits);
/// "collective 17 of group world, all_reduce(f32[1024], sum)".
std::string text_with_group(const Material& material, const Meeting& meeting);

}  // namespace tessera::record::detail
