#include "tessera/comm/detail/peer_memory/failures.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "tessera/base/error.h"
#include "tessera/base/mutant.h"

namespace tessera::comm::detail {

void write_verdict(const GroupMemory& group, const Waiting& waiting, const Failure& failure) {
  Verdict& verdict = group.verdict();
  std::uint32_t open = Verdict::kOpen;
  const bool is_first = verdict.state.compare_exchange_strong(open, Verdict::kBeingWritten);
  if (is_first || TESSERA_MUTANT("comm.last_verdict_counts")) {
    verdict.kind = static_cast<std::uint8_t>(failure.kind);
    verdict.operation = failure.operation;
    verdict.by = failure.by;
    verdict.task = failure.sequence;
    for (const int rank : failure.missing) {
      verdict.missing[rank / 64] |= std::uint64_t{1} << (rank % 64);
    }
    const std::size_t length = std::min(failure.text.size(), sizeof(verdict.text) - 1);
    std::memcpy(verdict.text, failure.text.data(), length);
    verdict.text[length] = 0;
    verdict.state.store(Verdict::kWritten, std::memory_order_seq_cst);
  }
  for (int rank = 0; rank < group.size(); ++rank) {
    waiting.wake(group.board(rank).arrived);
    waiting.wake(group.board(rank).finished);
    for (int peer = 0; peer < group.size(); ++peer) {
      waiting.wake(group.mail(rank, peer).posted);
      waiting.wake(group.mail(rank, peer).taken);
    }
  }
}

bool has_verdict(const GroupMemory& group) {
  // In one order with Board::reaching: a plain load on the machines at hand.
  return group.verdict().state.load(std::memory_order_seq_cst) == Verdict::kWritten;
}

void throw_verdict(const GroupMemory& group, std::string_view name) {
  const Verdict& verdict = group.verdict();
  throw_failure(static_cast<Failure::Kind>(verdict.kind), verdict.text, name);
}

void throw_failure(Failure::Kind kind, std::string_view what, std::string_view name) {
  const std::string text = "group " + std::string(name) + ": " + std::string(what);
  switch (kind) {
    case Failure::Kind::kDeadline: TESSERA_THROW(TimeoutError, text);
    case Failure::Kind::kMismatch: TESSERA_THROW(MismatchError, text);
    case Failure::Kind::kDeadRank:
    case Failure::Kind::kAborted:
    case Failure::Kind::kLost: break;
  }
  TESSERA_THROW(AbortedError, text);
}

std::string text_of_ranks(std::span<const int> ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (i > 0) text += i + 1 == ranks.size() ? " and " : ", ";
    text += std::to_string(ranks[i]);
  }
  return text;
}

std::uint64_t digest_of_counts(const Operation& operation) {
  const Operation parts{
      .in_counts = operation.in_counts, .out_counts = operation.out_counts, .targets = operation.targets};
  return fingerprint(parts).low;
}

std::string text_of_differences(std::span<const Said> said, std::uint64_t task, std::vector<int>& others) {
  std::map<std::string, std::vector<int>> by_text;
  for (std::size_t rank = 0; rank < said.size(); ++rank) {
    std::string text = comm::text_of(said[rank].operation);
    if (said[rank].task != task) text += " as operation " + std::to_string(said[rank].task);
    by_text[text + "#" + std::to_string(said[rank].counts_digest)].push_back(static_cast<int>(rank));
  }
  const auto most = std::ranges::max_element(by_text, {}, [](const auto& entry) { return entry.second.size(); });
  const auto shown = [](const std::string& text) { return text.substr(0, text.find('#')); };
  std::string whole = "ranks differ: " + text_of_ranks(most->second) + " run " + shown(most->first);
  for (const auto& [text, ranks] : by_text) {
    if (text == most->first) continue;
    others.insert(others.end(), ranks.begin(), ranks.end());
    whole += ", " + text_of_ranks(ranks) + " " + shown(text);
    if (shown(text) == shown(most->first)) whole += " with other parts";
  }
  return whole;
}

std::string text_of_missing(std::span<const int> missing, std::span<const std::uint64_t> tasks,
                            std::chrono::nanoseconds deadline) {
  std::string behind;
  for (const int rank : missing) {
    const std::uint64_t task = tasks[static_cast<std::size_t>(rank)];
    behind += (behind.empty() ? "" : ", ") + ("rank " + std::to_string(rank)) +
              (task == 0 ? " has begun none" : " is at operation " + std::to_string(task));
  }
  return text_of_ranks(missing) + " did not come within " +
         std::to_string(std::chrono::duration<double>(deadline).count()) + " s (" + behind + ")";
}

std::string text_of_offer(int from, int to, std::int64_t sent, std::int64_t taken, std::int64_t first,
                          std::int64_t room) {
  const std::string text = "rank " + std::to_string(from) + " sends " + std::to_string(sent) + " elements";
  if (taken != -1) return text + ", rank " + std::to_string(to) + " takes " + std::to_string(taken);
  return text + " to element " + std::to_string(first) + " of " + std::to_string(room);
}

}  // namespace tessera::comm::detail
