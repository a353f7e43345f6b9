#include "tessera/analysis/detail/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>
#include <unordered_map>

namespace tessera::analysis::detail {
namespace {

constexpr std::size_t kLookAhead = 8;   // collectives after a difference that determine the shift
constexpr std::size_t kLookBack = 256;  // collectives before it, for loops that repeat

// Properties of an operation to compare, and those that are unknown.
struct Mask {
  bool has_dtype = true;
  bool has_count = true;
  bool has_reduction = true;
  bool has_root = true;
  bool has_parts = true;
};

bool may_be_uneven(const RecordedOperation& operation) {
  return operation.kind == "all_gather" || operation.kind == "gather" || operation.kind == "scatter" ||
         operation.kind == "all_to_all" || operation.kind == "ragged_all_to_all" || operation.kind == "reduce_scatter";
}
bool has_root_and_parts(const RecordedOperation& operation) {
  return operation.kind == "gather" || operation.kind == "scatter";
}

Mask mask_of(std::span<const CollectiveCall* const> launches, std::size_t place) {
  Mask mask;
  for (const CollectiveCall* launch : launches) {
    mask.has_parts = mask.has_parts && launch->is_whole;
    if (place >= launch->operations.size()) continue;
    const RecordedOperation& operation = launch->operations[place];
    mask.has_dtype = mask.has_dtype && !operation.dtype.empty();
    mask.has_reduction = mask.has_reduction && !operation.reduction.empty();
    mask.has_root = mask.has_root && operation.root >= 0;
    const bool is_uneven = may_be_uneven(operation) && operation.parts != 0;
    const bool is_rooted = has_root_and_parts(operation) && operation.root < 0;
    mask.has_count = mask.has_count && !is_uneven && !is_rooted;
  }
  return mask;
}

std::string print_of(const RecordedOperation& operation, const Mask& mask) {
  // Uneven sizes of an all_to_all differ between ranks: only their existence is equal on all.
  const std::uint32_t parts = operation.kind == "all_to_all" ? (operation.parts != 0 ? 1 : 0) : operation.parts;
  return fmt::format("{}|{}|{}|{}|{}|{};", operation.kind, mask.has_dtype ? operation.dtype : "",
                     mask.has_count ? operation.count : 0, mask.has_reduction ? operation.reduction : "",
                     mask.has_root ? operation.root : 0, mask.has_parts ? parts : 0);
}

// Returns texts that are equal for launches that match.
std::vector<std::string> prints_of(std::span<const CollectiveCall* const> launches) {
  const bool is_any_partial =
      std::any_of(launches.begin(), launches.end(), [](const CollectiveCall* launch) { return !launch->is_whole; });
  std::size_t operations = 0;
  for (const CollectiveCall* launch : launches) operations = std::max(operations, launch->operations.size());
  if (is_any_partial) operations = std::min<std::size_t>(operations, 1);
  std::vector<std::string> prints(launches.size());
  for (std::size_t place = 0; place < operations; ++place) {
    const Mask mask = mask_of(launches, place);
    for (std::size_t i = 0; i < launches.size(); ++i) {
      if (place < launches[i]->operations.size()) prints[i] += print_of(launches[i]->operations[place], mask);
    }
  }
  return prints;
}

std::vector<SideView> sides_of(std::span<const Came> came) {
  if (std::all_of(came.begin(), came.end(),
                  [&](const Came& one) { return one.launch->operations == came[0].launch->operations; })) {
    return {};
  }
  std::vector<const CollectiveCall*> launches;
  for (const Came& one : came) launches.push_back(one.launch);
  const std::vector<std::string> prints = prints_of(launches);
  std::map<std::string, SideView> sides;
  for (std::size_t i = 0; i < came.size(); ++i) {
    SideView& side = sides[prints[i]];
    if (side.launch == nullptr) side.launch = came[i].launch;
    side.members.push_back(came[i].member);
  }
  std::vector<SideView> sorted;
  if (sides.size() < 2) return sorted;
  for (auto& [print, side] : sides) sorted.push_back(std::move(side));
  std::sort(sorted.begin(), sorted.end(), [](const SideView& a, const SideView& b) {
    return a.members.size() != b.members.size() ? a.members.size() > b.members.size() : a.members[0] < b.members[0];
  });
  return sorted;
}

// Returns the launches of a member from this collective number on, up to the first gap.
std::vector<const CollectiveCall*> sequence_from(const GroupMember& member, std::uint64_t collective_number) {
  std::vector<const CollectiveCall*> sequence;
  const auto take = [&](const std::vector<Numbered>& from) {
    auto at =
        std::lower_bound(from.begin(), from.end(), collective_number + sequence.size(),
                         [](const Numbered& one, std::uint64_t wanted) { return one.collective_number < wanted; });
    for (; at != from.end() && sequence.size() < kLookAhead; ++at) {
      if (at->collective_number != collective_number + sequence.size()) return;
      sequence.push_back(at->launch);
    }
  };
  take(member.collectives);
  take(member.pending);
  return sequence;
}

bool matches(std::span<const CollectiveCall* const> a, std::span<const CollectiveCall* const> b) {
  const std::size_t overlap = std::min(a.size(), b.size());
  for (std::size_t i = 0; i < overlap; ++i) {
    if (!is_alike(*a[i], *b[i])) return false;
  }
  return overlap > 0;
}

// Guesses the shift if no later launches are known, from the operation that followed such a collective before.
Shift guessed_shift(const GroupMember& member, std::uint64_t collective_number, const CollectiveCall& theirs,
                    const CollectiveCall& own) {
  const auto& all = member.collectives;
  auto at = std::lower_bound(all.begin(), all.end(), collective_number,
                             [](const Numbered& one, std::uint64_t wanted) { return one.collective_number < wanted; });
  if (at != all.begin() && is_alike(*std::prev(at)->launch, own)) return Shift::kPerhapsAdded;
  for (std::size_t looked = 0; at != all.begin() && looked < kLookBack; ++looked) {
    const CollectiveCall& next = *at->launch;
    --at;
    if (!is_alike(*at->launch, theirs)) continue;
    return looked > 0 && is_alike(next, own) ? Shift::kPerhapsSkipped : Shift::kNone;
  }
  return Shift::kNone;
}

Shift shift_of(const GroupView& group, const Disagreement& found) {
  const GroupMember& odd = group.members[found.culprits.front()];
  const std::vector<const CollectiveCall*> own = sequence_from(odd, found.collective_number);
  // Of the members that agree, the one with the most known launches.
  const GroupMember* other = nullptr;
  std::vector<const CollectiveCall*> theirs;
  for (const std::size_t at : found.sides.front().members) {
    std::vector<const CollectiveCall*> sequence = sequence_from(group.members[at], found.collective_number);
    if (other != nullptr && sequence.size() <= theirs.size()) continue;
    other = &group.members[at];
    theirs = std::move(sequence);
    if (theirs.size() == kLookAhead) break;
  }
  if (own.empty() || theirs.empty()) return Shift::kNone;
  const std::span<const CollectiveCall* const> mine(own);
  const std::span<const CollectiveCall* const> others(theirs);
  if (matches(mine.subspan(1), others.subspan(1))) return Shift::kNone;
  if (mine.size() > 1 && others.size() > 1 && is_alike(*mine[0], *others[1]) && is_alike(*mine[1], *others[0])) {
    const bool goes_on = mine.size() == 2 || others.size() == 2 || matches(mine.subspan(2), others.subspan(2));
    if (goes_on) return Shift::kSwapped;
  }
  if (matches(mine, others.subspan(1))) return Shift::kSkipped;
  if (matches(mine.subspan(1), others)) return Shift::kAdded;
  return others.size() == 1 || mine.size() == 1 ? guessed_shift(*other, found.collective_number, *others[0], *mine[0])
                                                : Shift::kNone;
}

}  // namespace

std::vector<Came> by_collective_number(const GroupView& group) {
  std::vector<Came> all;
  for (std::size_t i = 0; i < group.members.size(); ++i) {
    if (group.members[i].is_counted) continue;  // counted numbers may include lost point-to-point operations
    for (const Numbered& one : group.members[i].collectives) all.push_back({one.collective_number, i, one.launch});
  }
  std::sort(all.begin(), all.end(), [](const Came& a, const Came& b) {
    return a.collective_number != b.collective_number ? a.collective_number < b.collective_number : a.member < b.member;
  });
  return all;
}

bool is_alike(const CollectiveCall& a, const CollectiveCall& b) {
  if (a.operations == b.operations) return true;
  const CollectiveCall* both[] = {&a, &b};
  const std::vector<std::string> prints = prints_of(both);
  return prints[0] == prints[1];
}

std::vector<Disagreement> disagreements_of(const GroupView& group, const std::vector<Came>& all, std::size_t most) {
  std::vector<Disagreement> found;
  for (std::size_t from = 0, to = 0; from < all.size() && found.size() < most; from = to) {
    while (to < all.size() && all[to].collective_number == all[from].collective_number) ++to;
    if (to - from < 2) continue;
    Disagreement one{.collective_number = all[from].collective_number};
    one.sides = sides_of(std::span(all).subspan(from, to - from));
    if (one.sides.empty()) continue;
    one.has_majority = 2 * one.sides[0].members.size() > group.members.size();
    if (one.sides[0].members.size() > one.sides[1].members.size()) {
      for (std::size_t i = 1; i < one.sides.size(); ++i) {
        one.culprits.insert(one.culprits.end(), one.sides[i].members.begin(), one.sides[i].members.end());
      }
      std::sort(one.culprits.begin(), one.culprits.end());
      if (found.empty()) one.shift = shift_of(group, one);
    }
    found.push_back(std::move(one));
  }
  return found;
}

std::vector<MessageDisagreement> message_disagreements_of(const GroupView& group, std::size_t most) {
  using Key = std::pair<std::size_t, std::size_t>;  // sender and receiver
  std::map<Key, std::unordered_map<std::uint64_t, const Message*>> sent;
  for (std::size_t i = 0; i < group.members.size(); ++i) {
    for (const Message& one : group.members[i].messages) {
      if (one.is_send && one.is_sure) sent[{i, one.peer}].emplace(one.number, &one);
    }
  }
  std::vector<MessageDisagreement> found;
  for (std::size_t i = 0; i < group.members.size() && found.size() < most; ++i) {
    std::map<std::size_t, std::vector<const Message*>> received;
    for (const Message& one : group.members[i].messages) {
      if (!one.is_send && one.is_sure) received[one.peer].push_back(&one);
    }
    for (const auto& [peer, messages] : received) {
      const auto channel = sent.find({peer, i});
      if (channel == sent.end()) continue;
      std::map<std::pair<std::string, std::int64_t>, std::size_t> usual;
      for (const Message* recv : messages) {
        const auto at = channel->second.find(recv->number);
        if (at == channel->second.end()) continue;
        const RecordedOperation& a = *at->second->operation;
        const RecordedOperation& b = *recv->operation;
        const bool has_dtypes = !a.dtype.empty() && !b.dtype.empty();
        if (a.count != b.count || (has_dtypes && a.dtype != b.dtype)) {
          found.push_back({peer, i, at->second, recv, usual[{a.dtype, a.count}], usual[{b.dtype, b.count}]});
          break;
        }
        ++usual[{a.dtype, a.count}];
      }
    }
  }
  if (found.size() > most) found.resize(most);
  return found;
}

}  // namespace tessera::analysis::detail
