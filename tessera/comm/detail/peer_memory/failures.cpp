#include "tessera/comm/detail/peer_memory/failures.h"

#include <algorithm>
#include <cstring>

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

}  // namespace tessera::comm::detail
