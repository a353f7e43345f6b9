// The evidence by group: the launches of each member, collectives by their number, point-to-point operations by peer,
// and their stages. It refers to the evidence and owns nothing. The evidence is not trusted: duplicate members, invalid
// indices and duplicate collective numbers are ignored.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "tessera/analysis/detail/rank_position.h"
#include "tessera/analysis/evidence.h"

namespace tessera::analysis::detail {

/// A collective of one member with its number.
struct Numbered {
  std::uint64_t collective_number = 0;
  const CollectiveCall* launch = nullptr;  ///< Never null.
};

/// A point-to-point operation of one member with its number.
struct Message {
  std::size_t peer = 0;                          ///< Index of the peer.
  bool is_send = false;                          ///< True for a send, false for a receive.
  std::uint64_t number = 0;                      ///< Number among those of its direction with this peer.
  const CollectiveCall* launch = nullptr;        ///< Never null.
  const RecordedOperation* operation = nullptr;  ///< Operation of the launch.
  bool is_sure = false;                          ///< True if its number was read, or counted without lost records.
};

/// A rank of a group.
struct GroupMember {
  int rank = 0;                                    ///< World rank.
  const Rank* known = nullptr;                     ///< Null if nothing is known about it.
  RankPosition standing = RankPosition::kMissing;  ///< State of the rank.
  const Group* group = nullptr;                    ///< The group as this rank knows it; null if it does not.
  std::vector<Numbered> collectives = {};          ///< Collectives that it reached, by number.
  std::vector<Numbered> pending = {};  ///< Collectives that it enqueued and did not reach, with their future numbers.
  std::vector<Message> messages = {};  ///< Point-to-point operations that it reached, in order.
  std::vector<Message> pending_messages = {};  ///< Point-to-point operations that it enqueued and did not reach.
  std::uint64_t come = 0;                      ///< Number of the last collective that it reached; 0 if unknown.
  bool has_unnumbered = false;                 ///< It reached collectives whose numbers are unknown.
  bool is_counted = false;                     ///< Its numbers were counted from the tables, not read.
  /// Returns true if it has a record that contains the group.
  [[nodiscard]] bool is_seen() const { return group != nullptr; }
};

/// A group over its members.
struct GroupView {
  std::string name = {};                  ///< Name of the group.
  std::vector<GroupMember> members = {};  ///< Members in group order.
};

/// The evidence of a run by group.
struct Overview {
  const Evidence* evidence = nullptr;                    ///< Never null.
  std::vector<GroupView> groups = {};                    ///< Groups in the order of occurrence.
  std::unordered_map<int, const Rank*> ranks = {};       ///< Ranks by world rank.
  std::unordered_map<int, RankPosition> standings = {};  ///< States by world rank.
  /// Offset of ranks whose clock differs by more than a second.
  std::unordered_map<int, std::int64_t> clock_ahead_ns = {};
  /// Returns the evidence of a rank; null if it has none.
  [[nodiscard]] const Rank* find(int rank) const;
  /// Converts a time of this rank to the clock that most ranks share; 0 stays 0.
  [[nodiscard]] std::int64_t shared_time(int rank, std::int64_t time_ns) const;
};

/// Computes the overview.
Overview overview_of(const Evidence& evidence);

/// Returns the launch that a member reached under this collective number; null if unknown.
const CollectiveCall* collective_at(const GroupMember& member, std::uint64_t collective_number);

}  // namespace tessera::analysis::detail
