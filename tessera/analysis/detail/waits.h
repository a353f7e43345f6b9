// The waits between ranks. A meeting is a collective or point-to-point operation that some rank reached and that has
// not finished (or failed because a rank was absent). A meeting waits for absent ranks, and a rank waits in its
// meetings. The graph of ranks and meetings has one edge per waiting launch and per absent rank, for any number of
// waiting pairs. A cycle is a deadlock; the ends of chains are the ranks that explain the waits.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "tessera/analysis/detail/overview.h"
#include "tessera/analysis/explain.h"

namespace tessera::analysis::detail {

/// A rank that waits in a meeting.
struct Waiter {
  std::size_t member = 0;                      ///< Index in the group.
  const CollectiveCall* launch = nullptr;      ///< Launch in which it waits.
  const RecordedOperation* message = nullptr;  ///< The point-to-point operation of the launch; null for a collective.
  std::int64_t waited_ns = 0;                  ///< Time waited so far, or until it failed.
};

/// An operation that ranks reached and that has not finished without an error.
struct UnfinishedCollective {
  std::size_t group = 0;                   ///< Index in the overview.
  std::uint64_t collective_number = 0;     ///< Collective number, or number of the point-to-point operation.
  bool is_message = false;                 ///< Between two ranks.
  bool is_signal = false;                  ///< A wait for a signal of symmetric memory; is_message is also set.
  std::vector<Waiter> waiters = {};        ///< Members that arrived, the longest wait first.
  std::vector<std::size_t> absent = {};    ///< Members that did not arrive.
  std::vector<std::size_t> too_late = {};  ///< Absent members that arrived after it had failed.
  std::vector<std::size_t> unsure = {};    ///< Members whose arrival is unknown.
  std::vector<std::size_t> ended = {};     ///< Members that finished it without an error.
  bool is_old = false;                     ///< A deadline passed, or a member has waited for longer than a second.
  bool has_timed_out = false;              ///< A deadline passed.
  bool has_failed = false;                 ///< It failed, by a deadline or an abort.
};

/// All meetings of a run.
struct WaitGraph {
  std::vector<UnfinishedCollective> meetings = {};                     ///< Meetings by group.
  std::unordered_map<int, std::vector<std::size_t>> meetings_of = {};  ///< Meetings in which a rank waits.
  /// Deadlock cycles: for each, the meetings in which ranks wait only for each other.
  std::vector<std::vector<std::size_t>> cycles = {};
};

/// Computes the waits.
WaitGraph waits_of(const Overview& overview);

/// Returns "collective 17, all_reduce(f32[1024], sum)" or "message 3, recv(f32[10], from 2)".
std::string text_of(const Overview& overview, const UnfinishedCollective& meeting);
/// Returns pairs of ranks, at most `most`.
std::vector<Wait> pairs_of(const Overview& overview, const WaitGraph& graph, std::size_t most);
/// Returns one path around each cycle.
std::vector<std::vector<Wait>> ways_around(const Overview& overview, const WaitGraph& graph);

}  // namespace tessera::analysis::detail
