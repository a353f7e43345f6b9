#include "tessera/watch/detail/summary.h"

#include <unistd.h>

#include <chrono>
#include <sstream>

#include "tessera/analysis/evidence_json.h"
#include "tessera/analysis/read_run.h"
#include "tessera/base/error.h"
#include "tessera/base/log.h"

namespace tessera::watch::detail {
namespace {

using analysis::Evidence;
using analysis::RankState;
using tessera::detail::concat;

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// Returns this rank without a readable record.
analysis::Rank bare_rank(const Teller& teller) {
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  return {.rank = teller.rank,
          .state = RankState::kRunning,
          .host = host,
          .pid = static_cast<std::uint64_t>(::getpid()),
          .last_ns = now_ns()};
}

void add_self(const Teller& teller, std::size_t last_launches, Evidence& evidence) {
  if (!teller.record.empty()) {
    try {
      Evidence own = analysis::read_record(teller.record, {.last_launches = last_launches});
      if (own.ranks.front().rank == teller.rank) {
        evidence.ranks.push_back(std::move(own.ranks.front()));
        return;
      }
    } catch (const Error& error) {
      log::debug("no summary of ", teller.record, ": ", error.what());
    }
  }
  evidence.ranks.push_back(bare_rank(teller));
}

// Adds ranks that this rank sees and that cannot report.
void add_silent(const Teller& teller, std::size_t last_launches, Evidence& evidence) {
  if (teller.run_dir.empty()) return;
  try {
    for (analysis::Rank& rank : analysis::read_run(teller.run_dir, {.last_launches = last_launches}).ranks) {
      const bool is_silent =
          rank.state != RankState::kMissing && rank.state != RankState::kUnknown && rank.state != RankState::kRunning;
      if (is_silent && rank.rank != teller.rank && rank.rank < teller.world_size) {
        evidence.ranks.push_back(std::move(rank));
      }
    }
  } catch (const Error& error) {
    log::debug("no summary of ", teller.run_dir, ": ", error.what());
  }
}

std::string text_of(const Evidence& evidence) {
  std::ostringstream text;
  analysis::write_evidence_json(text, evidence);
  return text.str();
}

}  // namespace

std::string summary_of(const Teller& teller, bool has_ended, std::size_t most) {
  std::string text;
  for (const std::size_t last_launches : {64, 16, 4, 1}) {
    Evidence evidence{.source = teller.record, .world_size = teller.world_size, .taken_ns = now_ns()};
    add_self(teller, last_launches, evidence);
    if (has_ended && evidence.ranks.front().state == RankState::kRunning) {
      evidence.ranks.front().state = RankState::kEnded;
    }
    if (!has_ended) add_silent(teller, last_launches, evidence);
    text = text_of(evidence);
    if (text.size() <= most) return text;
  }
  return text_of({.world_size = teller.world_size, .taken_ns = now_ns(), .ranks = {bare_rank(teller)}});
}

Evidence joined(int world_size, const std::map<int, std::string>& summaries) {
  std::map<int, analysis::Rank> told;   // by themselves
  std::map<int, analysis::Rank> heard;  // by others, the latest
  Evidence all{.source = concat("the summaries of ", summaries.size(), " ranks"), .world_size = world_size};
  all.taken_ns = now_ns();
  for (const auto& [sender, text] : summaries) {
    try {
      TESSERA_CHECK_AS(IoError, text.size() <= kMaxSummaryBytes, "must have at most ", kMaxSummaryBytes, " bytes, got ",
                       text.size());
      for (analysis::Rank& rank : analysis::read_evidence_json(text).ranks) {
        TESSERA_CHECK_AS(IoError, rank.rank < world_size, "rank must be in [0, ", world_size, "), got ", rank.rank);
        const int number = rank.rank;
        if (number == sender) {
          told.emplace(number, std::move(rank));
        } else if (const auto at = heard.find(number); at == heard.end() || at->second.last_ns < rank.last_ns) {
          heard[number] = std::move(rank);
        }
      }
    } catch (const Error& error) {
      all.problems.push_back(concat("summary of rank ", sender, ": ", error.message()));
    }
  }
  for (int number = 0; number < world_size; ++number) {
    const auto own = told.find(number);
    const auto other = heard.find(number);
    if (own != told.end()) {
      all.ranks.push_back(std::move(own->second));
    } else if (other != heard.end()) {
      all.ranks.push_back(std::move(other->second));
    } else {
      all.ranks.push_back({.rank = number, .state = RankState::kMissing});
    }
  }
  return all;
}

}  // namespace tessera::watch::detail
