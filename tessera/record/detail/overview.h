// The evidence by group: what each member launched there, collectives by their ordinal, messages by their channel, and
// how far each came. It points into the evidence and keeps nothing alive. Nothing in the evidence is trusted: members
// that are named twice, places that are not in a group and ordinals that repeat are left out.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "tessera/record/detail/standing.h"
#include "tessera/record/evidence.h"

namespace tessera::record::detail {

/// A collective of one member under its number.
struct Numbered {
  std::uint64_t ordinal = 0;       ///< among the collectives of the group
  const Launch* launch = nullptr;  ///< never null
};

/// A message of one member under its number.
struct Message {
  std::size_t peer = 0;                  ///< index of the member
  bool is_send = false;                  ///< to it, else from it
  std::uint64_t number = 0;              ///< among those of its direction with this peer
  const Launch* launch = nullptr;        ///< never null
  const Operation* operation = nullptr;  ///< of the launch
  bool is_sure = false;                  ///< whether its number was read, or counted with nothing lost
};

/// A rank of a group.
struct Member {
  int rank = 0;                            ///< in the world
  const Rank* known = nullptr;             ///< null: nothing is known of it
  Standing standing = Standing::kMissing;  ///< how it stands
  const Group* group = nullptr;            ///< as this rank knows it; null: it does not
  std::vector<Numbered> collectives = {};  ///< that it came to, by ordinal
  std::vector<Numbered> pending = {};      ///< that it asked for and did not come to, with the ordinals they will get
  std::vector<Message> messages = {};      ///< that it came to, in order
  std::vector<Message> pending_messages = {};  ///< that it asked for and did not come to
  std::uint64_t come = 0;                      ///< ordinal of the last collective that it came to; 0: none is known
  bool has_unnumbered = false;                 ///< it came to collectives whose ordinals are not known
  bool is_counted = false;                     ///< its ordinals were counted from the tables, not read
  /// Whether something is known of what it did here: it has a record, and the group stands in it.
  [[nodiscard]] bool is_seen() const { return group != nullptr; }
};

/// A group over its members.
struct GroupView {
  std::string name = {};             ///< of the group
  std::vector<Member> members = {};  ///< in group order
};

/// All of it.
struct Overview {
  const Evidence* evidence = nullptr;                         ///< never null
  std::vector<GroupView> groups = {};                         ///< in the order they are met
  std::unordered_map<int, const Rank*> ranks = {};            ///< by number in the world
  std::unordered_map<int, Standing> standings = {};           ///< likewise
  std::unordered_map<int, std::int64_t> clock_ahead_ns = {};  ///< of ranks whose clock differs by more than a second
  /// What is known of a rank; null: nothing.
  [[nodiscard]] const Rank* find(int rank) const;
  /// A moment of this rank on the clock that most ranks share; 0 stays 0.
  [[nodiscard]] std::int64_t shared_time(int rank, std::int64_t time_ns) const;
};

/// Sorts it.
Overview overview_of(const Evidence& evidence);

/// The launch that a member came to under this ordinal; null: not known.
const Launch* collective_at(const Member& member, std::uint64_t ordinal);

}  // namespace tessera::record::detail
