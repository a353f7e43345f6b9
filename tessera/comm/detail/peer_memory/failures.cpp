#include "tessera/comm/detail/peer_memory/failures.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "tessera/base/error.h"
#include "tessera/comm/collectives/collective.h"
#include "tessera/comm/deadline_text.h"

namespace tessera::comm::detail {
namespace {

// Returns which counts of an operation are equal on all ranks.
SharedList shared_list_of(OpKind kind) {
  const CollectiveDef* const def = find_definition(kind);
  return def == nullptr ? SharedList::kNone : def->shared_list;
}

std::string text_of(const Notice& notice) {
  Operation operation{.kind = notice.kind, .dtype = notice.dtype, .root = notice.root, .count = notice.count};
  operation.reduction = {notice.reduction, notice.factor};
  const SharedList list = shared_list_of(notice.kind);
  const std::size_t known = std::min<std::size_t>(notice.parts, std::size(notice.first_parts));
  for (const std::int64_t part : std::span(notice.first_parts, known)) {
    if (list == SharedList::kInCounts) operation.in_counts.push_back(part);
    if (list == SharedList::kOutCounts) operation.out_counts.push_back(part);
    if (list == SharedList::kTargets) operation.targets.push_back(static_cast<int>(part));
  }
  std::string text = comm::text_of(operation);
  if (notice.parts > known) text.insert(text.size() - 2, ", ...");  // before the last brackets
  return text;
}

// "shape [4, 4], dimension 1"; empty if the rank stated no tensor.
std::string text_of_tensor(const Notice& notice) {
  Geometry geometry{.is_stated = notice.dims >= 0, .split = notice.split, .concat = notice.concat};
  if (!geometry.is_stated) return "";
  const std::size_t known = std::min<std::size_t>(static_cast<std::size_t>(notice.dims), std::size(notice.first_sizes));
  geometry.sizes.append(std::span(notice.first_sizes, known));
  std::string text = comm::text_of(geometry);
  if (static_cast<std::size_t>(notice.dims) > known) text.insert(text.find(']'), ", ...");
  return text;
}

void put_geometry(Notice& notice, const Geometry& geometry) {
  if (!geometry.is_stated) return;
  notice.layouts = geometry.layouts;
  notice.dims = static_cast<std::int16_t>(geometry.sizes.size());
  notice.split = geometry.split;
  notice.concat = geometry.concat;
  const std::size_t known = std::min(geometry.sizes.size(), std::size(notice.first_sizes));
  std::copy_n(geometry.sizes.begin(), known, notice.first_sizes);
}

// Returns a text per notice. It contains the shape if the texts of the ranks differ in nothing else.
std::vector<std::string> texts_of(std::span<const Notice> notices) {
  std::map<std::string, std::string> shapes;
  std::vector<std::string> texts;
  bool needs_shapes = false;
  for (const Notice& notice : notices) {
    texts.push_back(text_of(notice));
    const std::string shape = text_of_tensor(notice);
    needs_shapes |= shapes.emplace(texts.back(), shape).first->second != shape;
  }
  for (std::size_t i = 0; needs_shapes && i < texts.size(); ++i) {
    const std::string shape = text_of_tensor(notices[i]);
    texts[i] += shape.empty() ? " on a buffer" : " on a tensor of " + shape;
  }
  return texts;
}

template <class Numbers>
void put_parts(Notice& notice, const Numbers& parts) {
  notice.parts = static_cast<std::uint16_t>(parts.size());
  for (std::size_t i = 0; i < std::min(parts.size(), std::size(notice.first_parts)); ++i) {
    notice.first_parts[i] = parts[i];
  }
}

}  // namespace

void write_verdict(const GroupMemory& group, const Waiting& waiting, const Failure& failure) {
  GroupFailure& verdict = group.verdict();
  std::uint32_t open = GroupFailure::kOpen;
  const bool is_first = verdict.state.compare_exchange_strong(open, GroupFailure::kBeingWritten);
  if (is_first) {
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
    verdict.state.store(GroupFailure::kWritten, std::memory_order_seq_cst);
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
  // Sequentially consistent with Board::reaching; a plain load on x86-64.
  return group.verdict().state.load(std::memory_order_seq_cst) == GroupFailure::kWritten;
}

void throw_verdict(const GroupMemory& group, std::string_view name) {
  const GroupFailure& verdict = group.verdict();
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

std::string text_of_members(std::span<const int> places, std::span<const Rank> world) {
  std::vector<int> ranks;
  for (const int place : places) ranks.push_back(world[static_cast<std::size_t>(place)].value());
  std::string text = text_of_ranks(ranks);
  if (!std::ranges::equal(ranks, places)) text += " (group " + text_of_ranks(places) + ")";
  return text;
}

std::string text_of_members(const PeerMemory& memory, int place) {
  return text_of_members(std::span(&place, 1), world_of(memory));
}

std::vector<Rank> world_of(const PeerMemory& memory) {
  std::vector<Rank> world;
  for (int place = 0; place < memory.group().size(); ++place) world.emplace_back(memory.world_rank(place));
  return world;
}

Notice notice_of(const Operation& operation, std::uint64_t sequence, std::uint64_t group) {
  Notice notice;
  notice.fingerprint = fingerprint(operation, group);
  notice.group = group;
  notice.task = sequence;
  notice.kind = operation.kind;
  notice.dtype = operation.dtype;
  notice.reduction = operation.reduction.kind;
  notice.factor = operation.reduction.factor;
  notice.root = operation.root;
  notice.count = operation.count;
  notice.counts_digest = digest_of_parts(operation);
  switch (shared_list_of(operation.kind)) {
    case SharedList::kNone: break;
    case SharedList::kInCounts: put_parts(notice, operation.in_counts); break;
    case SharedList::kOutCounts: put_parts(notice, operation.out_counts); break;
    case SharedList::kTargets: put_parts(notice, operation.targets); break;
  }
  put_geometry(notice, operation.geometry);
  return notice;
}

Failure difference_of(std::span<const Notice> notices, std::span<const Rank> world,
                      std::span<const std::string> groups) {
  const bool is_one_group =
      std::ranges::all_of(notices, [&](const Notice& notice) { return notice.group == notices[0].group; });
  const auto max_tasks = [&] {
    std::map<std::uint64_t, int> votes;
    for (const Notice& notice : notices) ++votes[notice.task];
    return std::ranges::max_element(votes, {}, [](const auto& entry) { return entry.second; })->first;
  };
  const std::uint64_t sequence = max_tasks();
  // A rank that does not know its registrations, as in a capture, agrees with all others.
  const auto knows = std::ranges::find_if(notices, [](const Notice& notice) { return notice.registrations != 0; });
  const std::uint64_t known = knows == notices.end() ? 0 : knows->registrations;
  struct Seen {
    std::string text;
    std::uint64_t parts;
    std::uint64_t layouts;
    std::uint64_t group;
    std::uint64_t registrations;
    auto operator<=>(const Seen&) const = default;
  };
  const std::vector<std::string> texts = texts_of(notices);
  std::map<Seen, std::vector<int>> by_seen;
  for (std::size_t peer = 0; peer < notices.size(); ++peer) {
    const Notice& notice = notices[peer];
    std::string text = texts[peer];
    if (!is_one_group && peer < groups.size()) text += " for group " + groups[peer];
    if (notice.task != sequence) text += " as operation " + std::to_string(notice.task);
    const std::uint64_t registrations = notice.registrations != 0 ? notice.registrations : known;
    by_seen[{text, notice.counts_digest, notice.layouts, notice.group, registrations}].push_back(
        static_cast<int>(peer));
  }
  const auto votes = [](const auto& entry) { return entry.second.size(); };
  const auto most = std::ranges::max_element(by_seen, {}, votes);
  Failure failure{.kind = Failure::Kind::kMismatch};
  failure.text = "ranks differ: " + text_of_members(most->second, world) + " run " + most->first.text;
  for (const auto& [seen, ranks] : by_seen) {
    if (seen == most->first) continue;
    failure.missing.insert(failure.missing.end(), ranks.begin(), ranks.end());
    failure.text += ", " + text_of_members(ranks, world) + " " + seen.text;
    if (seen.text != most->first.text) continue;
    failure.text += seen.parts != most->first.parts       ? " with different counts"
                    : seen.layouts != most->first.layouts ? " between different layouts"
                                                          : " after different register_memory calls";
  }
  return failure;
}

std::string text_of_late(const Late& late) {
  std::string text =
      text_of_members(late.ranks, late.world) + " did not arrive within " + text_of_deadline(late.deadline, late.extra);
  std::string behind;
  for (std::size_t i = 0; i < late.tasks.size(); ++i) {
    behind += (behind.empty() ? "" : ", ") + text_of_members(late.ranks.subspan(i, 1), late.world);
    behind += late.tasks[i] == 0 ? " has started no operation" : late.is_at + std::to_string(late.tasks[i]);
  }
  return behind.empty() ? text : text + " (" + behind + ")";
}

std::string text_of_passed(std::string_view rank, std::string_view peer) {
  return tessera::detail::concat("ranks differ: ", rank, " waits in this registration, ", peer,
                                 " skipped it; its memory was already registered, or it deregistered some");
}

Failure seen_in(const Operation& operation, std::uint64_t sequence, int by, Failure failure) {
  failure.by = by;
  failure.sequence = sequence;
  failure.operation = operation.kind;
  failure.text = "operation " + std::to_string(sequence) + ", " + comm::text_of(operation) + ": " + failure.text;
  return failure;
}

bool is_gone(const PeerMemory& memory, int peer) {
  const bool has_left = memory.group().board(peer).has_left.load(std::memory_order_seq_cst) != 0;
  return has_left || memory.is_dead(peer);
}

std::string text_of_gone(const PeerMemory& memory, int peer) {
  // A rank that left regularly may have ended since.
  const bool has_left = memory.group().board(peer).has_left.load(std::memory_order_acquire) != 0;
  return text_of_members(memory, peer) + (has_left ? " has left the group" : " died");
}

Reaching::Reaching(const PeerMemory& memory, int rank, std::string_view name) : memory_(memory), rank_(rank) {
  memory_.group().board(rank_).reaching.fetch_add(1, std::memory_order_seq_cst);
  if (!has_verdict(memory_.group())) return;
  end();
  throw_verdict(memory_.group(), name);
}
Reaching::~Reaching() { end(); }
void Reaching::end() const {
  Board& board = memory_.group().board(rank_);
  board.reaching.fetch_sub(1, std::memory_order_seq_cst);
  if (board.sleepers.load(std::memory_order_seq_cst) != 0) memory_.waiting().wake(board.reaching);
}

void wait_until_none_reaches(const PeerMemory& memory) {
  // Peers wait for nothing meanwhile, so only a stopped peer takes longer than a copy.
  constexpr std::chrono::nanoseconds kBound = std::chrono::milliseconds(1500);
  const std::chrono::nanoseconds until = memory.waiting().now() + kBound;
  for (int peer = 0; peer < memory.group().size(); ++peer) {
    Board& board = memory.group().board(peer);
    const std::function<bool()> is_there = [&] { return board.reaching.load(std::memory_order_seq_cst) == 0; };
    const std::function<bool()> is_over = [&] { return is_gone(memory, peer); };
    (void)memory.waiting().wait({.is_there = is_there,
                                 .word = board.reaching,
                                 .sleepers = board.sleepers,
                                 .is_over = is_over,
                                 .timeout = std::max(until - memory.waiting().now(), std::chrono::nanoseconds(0)),
                                 .what = "a peer to release buffers"});
  }
}

}  // namespace tessera::comm::detail
