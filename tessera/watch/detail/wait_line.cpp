#include "tessera/watch/detail/wait_line.h"

#include <algorithm>

#include "tessera/analysis/explain.h"
#include "tessera/base/error.h"

namespace tessera::watch::detail {
namespace {

using tessera::detail::concat;

bool has(const std::vector<int>& ranks, int rank) { return std::ranges::find(ranks, rank) != ranks.end(); }

std::string names_of(const std::vector<int>& ranks) {
  constexpr std::size_t kMaxNames = 8;
  std::string names;
  for (std::size_t i = 0; i < std::min(ranks.size(), kMaxNames); ++i)
    names += concat(i == 0 ? (ranks.size() == 1 ? "rank " : "ranks ") : ", ", ranks[i]);
  return ranks.size() > kMaxNames ? concat(names, " and ", ranks.size() - kMaxNames, " more") : names;
}

}  // namespace

std::string wait_line(const LongWait& wait, const analysis::Evidence& evidence) {
  const bool has_all = !evidence.ranks.empty() && std::ranges::none_of(evidence.ranks, [](const analysis::Rank& each) {
    return each.file.empty();
  });
  analysis::Verdict verdict;
  if (has_all) verdict = analysis::explain(evidence).verdict;
  if (verdict.culprits.empty()) {
    const auto place = std::ranges::find(wait.ranks, wait.rank) - wait.ranks.begin();
    if (place > 1) return {};
    return concat("waiting ", wait.waited.count(), " s for other ranks in ", wait.operation, " of group ", wait.group);
  }
  const auto first = std::ranges::find_if(wait.ranks, [&](int rank) { return !has(verdict.culprits, rank); });
  if (first == wait.ranks.end() || *first != wait.rank) return {};
  const std::string where =
      verdict.group == wait.group && verdict.collective_number > 0
          ? concat("collective ", verdict.collective_number, " of group ", wait.group, " (", wait.operation, ")")
          : concat(wait.operation, " of group ", wait.group);
  return concat("waiting ", wait.waited.count(), " s for ", names_of(verdict.culprits), " in ", where);
}

}  // namespace tessera::watch::detail
