// Compares operations that must match: collectives of a group under one collective number, and both ends of a
// point-to-point operation. A property that is unknown on one rank is not compared on any: a gap in a record must not
// make an innocent rank differ.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/analysis/detail/overview.h"

namespace tessera::analysis::detail {

/// Members with the same operation under one collective number.
struct SideView {
  std::vector<std::size_t> members = {};   ///< Indices in the group.
  const CollectiveCall* launch = nullptr;  ///< Launch of the first member.
};

/// Change in the order of a rank that differs from the others.
enum class Shift : std::uint8_t {
  kNone,            ///< It called another operation and continues as the others do, or more is unknown.
  kSkipped,         ///< It skipped one operation and is one ahead from there on.
  kAdded,           ///< It called an additional operation and is one late from there on.
  kSwapped,         ///< It called this one and the next in the opposite order.
  kPerhapsSkipped,  ///< It called the operation that followed this one earlier.
  kPerhapsAdded,    ///< It repeated its previous operation.
};

/// A collective in which members differ.
struct Disagreement {
  std::uint64_t collective_number = 0;
  std::vector<SideView> sides = {};        ///< Sides, the largest first.
  std::vector<std::size_t> culprits = {};  ///< Members of all sides but the largest; empty if two are equally large.
  bool has_majority = false;               ///< True if the largest side is more than half of the group.
  Shift shift = Shift::kNone;              ///< Change in the order of the first culprit.
};
/// A collective that a member reached.
struct Came {
  std::uint64_t collective_number = 0;
  std::size_t member = 0;                  ///< Index in the group.
  const CollectiveCall* launch = nullptr;  ///< Never null.
};
/// Returns all comparable collectives, by number and member.
std::vector<Came> by_collective_number(const GroupView& group);
/// Returns the disagreements of a group by collective number, at most `most`.
std::vector<Disagreement> disagreements_of(const GroupView& group, const std::vector<Came>& all, std::size_t most);

/// A point-to-point operation whose ends differ.
struct MessageDisagreement {
  std::size_t sender = 0;         ///< Index in the group.
  std::size_t receiver = 0;       ///< Index in the group.
  const Message* send = nullptr;  ///< The end of the sender.
  const Message* recv = nullptr;  ///< The end of the receiver.
  std::size_t like_send = 0;      ///< Earlier operations between them that match the sender.
  std::size_t like_recv = 0;      ///< Earlier operations between them that match the receiver.
};
/// Returns the first disagreement of each pair of ranks, at most `most`.
std::vector<MessageDisagreement> message_disagreements_of(const GroupView& group, std::size_t most);

/// Returns true if two launches match, as far as required and known for both.
bool is_alike(const CollectiveCall& a, const CollectiveCall& b);

}  // namespace tessera::analysis::detail
