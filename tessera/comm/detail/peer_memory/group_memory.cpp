#include "tessera/comm/detail/peer_memory/group_memory.h"

#include <new>

namespace tessera::comm::detail {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t up(std::size_t n) { return (n + kPage - 1) / kPage * kPage; }

// Byte offsets of the parts, each on separate pages.
struct Parts {
  explicit Parts(int ranks) {
    const auto n = static_cast<std::size_t>(ranks);
    verdict = 64;
    static_assert(sizeof(Rules) <= 64);
    boards = up(verdict + sizeof(GroupFailure));
    notices = up(boards + n * sizeof(Board));
    offers = up(notices + n * 2 * sizeof(Notice));
    mails = up(offers + n * n * 2 * sizeof(Offer));
    stages = up(mails + n * n * sizeof(Mail));
    end = stages + n * 3 * kStageBytes;
  }
  std::size_t verdict;
  std::size_t boards;
  std::size_t notices;
  std::size_t offers;
  std::size_t mails;
  std::size_t stages;
  std::size_t end;
};

}  // namespace

GroupMemory::GroupMemory(std::byte* memory, int size) : size_(size) {
  const Parts parts(size);
  rules_ = reinterpret_cast<Rules*>(memory);
  verdict_ = reinterpret_cast<GroupFailure*>(memory + parts.verdict);
  boards_ = reinterpret_cast<Board*>(memory + parts.boards);
  notices_ = reinterpret_cast<Notice*>(memory + parts.notices);
  offers_ = reinterpret_cast<Offer*>(memory + parts.offers);
  mails_ = reinterpret_cast<Mail*>(memory + parts.mails);
  stages_ = memory + parts.stages;
}

std::size_t GroupMemory::nbytes(int size) { return Parts(size).end; }

void GroupMemory::initialise(const Rules& rules) const {
  ::new (rules_) Rules(rules);
  ::new (verdict_) GroupFailure;
  for (int rank = 0; rank < size_; ++rank) {
    ::new (&board(rank)) Board;
    for (const std::uint64_t step : {0, 1}) {
      ::new (&notice(rank, step)) Notice;
      for (int peer = 0; peer < size_; ++peer) ::new (&offer(rank, peer, step)) Offer;
    }
    for (int peer = 0; peer < size_; ++peer) ::new (&mail(rank, peer)) Mail;
  }
}

}  // namespace tessera::comm::detail
