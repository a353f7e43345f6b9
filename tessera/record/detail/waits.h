// Who waits for whom. A meeting is a collective or a message that somebody came to and that has not ended (or ended
// because somebody did not come). It waits for those who did not come; a rank waits in its meetings. Ranks and meetings
// make a graph with as many edges as there are launches that wait and ranks that are missed, however many ranks wait
// for however many: a circle in it is ranks that wait for each other, and where it ends stand those that explain it.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "tessera/record/detail/overview.h"
#include "tessera/record/explain.h"

namespace tessera::record::detail {

/// A rank that waits in a meeting.
struct Waiter {
  std::size_t member = 0;              ///< index in the group
  const Launch* launch = nullptr;      ///< in which it waits
  const Operation* message = nullptr;  ///< the message of the launch that is meant; null: a collective
  std::int64_t waited_ns = 0;          ///< so far, or until it failed
};

/// Something that ranks came to and that has not ended well.
struct Meeting {
  std::size_t group = 0;                   ///< index in the overview
  std::uint64_t ordinal = 0;               ///< of the collective, or number of the message
  bool is_message = false;                 ///< between two ranks
  bool is_signal = false;                  ///< a wait for a signal of symmetric memory, which is a message too
  std::vector<Waiter> waiters = {};        ///< that came, those that wait longest first
  std::vector<std::size_t> absent = {};    ///< members that did not come
  std::vector<std::size_t> too_late = {};  ///< of those the ones that came when it had failed
  std::vector<std::size_t> unsure = {};    ///< members of which it is not known
  std::vector<std::size_t> ended = {};     ///< members that ended it well
  bool is_old = false;                     ///< a deadline passed, or somebody waits for longer than a second
  bool has_timed_out = false;              ///< a deadline passed
  bool has_failed = false;                 ///< it failed, by a deadline or an abort
};

/// All of them.
struct WaitGraph {
  std::vector<Meeting> meetings = {};                                  ///< by group
  std::unordered_map<int, std::vector<std::size_t>> meetings_of = {};  ///< in which a rank waits
  /// Meetings in which ranks wait for each other, with no way out of it: a list for each circle.
  std::vector<std::vector<std::size_t>> circles = {};
};

/// Finds them.
WaitGraph waits_of(const Overview& overview);

/// "collective 17, all_reduce(f32[1024], sum)", "message 3, recv(f32[10], from 2)".
std::string text_of(const Overview& overview, const Meeting& meeting);
/// Pairs of ranks, at most `most`.
std::vector<Wait> pairs_of(const Overview& overview, const WaitGraph& graph, std::size_t most);
/// One way around each circle.
std::vector<std::vector<Wait>> ways_around(const Overview& overview, const WaitGraph& graph);

}  // namespace tessera::record::detail
