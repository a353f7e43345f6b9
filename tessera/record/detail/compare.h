// Compares what ranks did where they must do the same: collectives of a group under one ordinal, and the two ends of a
// message. What is not known of one rank is compared on none: an innocent rank must never differ by a gap in its
// record.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/record/detail/overview.h"

namespace tessera::record::detail {

/// Members that did the same under one ordinal.
struct SideView {
  std::vector<std::size_t> members = {};  ///< indices in the group
  const Launch* launch = nullptr;         ///< of the first of them
};

/// What became of the order of a rank that differs from the others.
enum class Shift : std::uint8_t {
  kNone,            ///< it did another operation there, and goes on as the others do; or more is not known
  kSkipped,         ///< from there on it is one ahead
  kAdded,           ///< from there on it is one behind
  kSwapped,         ///< it did this one and the next in the other order
  kPerhapsSkipped,  ///< it did what followed on this one before
  kPerhapsAdded,    ///< it did what it had just done once more
};

/// A collective in which members differ.
struct Disagreement {
  std::uint64_t ordinal = 0;               ///< of it
  std::vector<SideView> sides = {};        ///< the largest first
  std::vector<std::size_t> culprits = {};  ///< members of all sides but the largest; empty: two are as large
  bool has_majority = false;               ///< whether the largest side is more than half of the group
  Shift shift = Shift::kNone;              ///< of the first culprit
};
/// A collective that a member came to.
struct Came {
  std::uint64_t ordinal = 0;       ///< of it
  std::size_t member = 0;          ///< index in the group
  const Launch* launch = nullptr;  ///< never null
};
/// All that can be compared, by ordinal and member.
std::vector<Came> by_ordinal(const GroupView& group);
/// Those of a group by ordinal, at most `most`.
std::vector<Disagreement> disagreements_of(const GroupView& group, const std::vector<Came>& all, std::size_t most);

/// A message whose ends differ.
struct MessageDisagreement {
  std::size_t sender = 0;         ///< index in the group
  std::size_t receiver = 0;       ///< likewise
  const Message* send = nullptr;  ///< what the sender said of it
  const Message* recv = nullptr;  ///< what the receiver said of it
  std::size_t like_send = 0;      ///< messages between them before that were as this one's sender says
  std::size_t like_recv = 0;      ///< likewise its receiver
};
/// The first of each pair of ranks, at most `most`.
std::vector<MessageDisagreement> message_disagreements_of(const GroupView& group, std::size_t most);

/// Whether two launches do the same, as far as that must be and is known of both.
bool is_alike(const Launch& a, const Launch& b);

}  // namespace tessera::record::detail
