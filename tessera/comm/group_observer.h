// An observer of the ranks and groups of this process. Internal to the library: the watchdog (tessera/watch), a higher
// layer, registers itself before main. Without an observer, nothing is called.
//
//   rank_opens    a rank starts to look for the others, before a store or a group exists
//   group_opens   a group exists; group_closes: it is about to be destroyed
//   failed        an operation failed; the observer may block the thread briefly, to report the failure while the state
//                 is unchanged
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/comm/communicator.h"
#include "tessera/comm/process_group.h"

namespace tessera::comm::detail {

/// Progress of a group on one rank.
struct GroupProgress {
  std::uint32_t asked = 0;    ///< number of the last launch enqueued outside of captures
  std::uint32_t begun = 0;    ///< greatest number of a started launch
  std::uint32_t noticed = 0;  ///< greatest number of a launch that a host thread has waited for
  std::uint64_t running = 0;  ///< sequence number of the last started launch
  std::uint64_t ended = 0;    ///< sequence number of the last ended launch; equal to `running` if nothing runs
  std::uint64_t what = 0;     ///< operation of the last started launch, packed into a word
  std::uint64_t count = 0;    ///< its count
  std::uint32_t last = 0;     ///< its number in the group
  bool has_met = false;       ///< all ranks had arrived, as far as the backend knows
  friend bool operator==(const GroupProgress&, const GroupProgress&) = default;
};

/// A group as its observer sees it. Copies refer to the same group. Valid from group_opens() until group_closes() has
/// returned; callable from any thread.
class ObservedGroup {
 public:
  /// Refers to `state`.
  explicit ObservedGroup(GroupState& state) : state_(&state) {}
  /// Returns the name of the group.
  [[nodiscard]] const std::string& name() const;
  /// Returns the world rank of each member.
  [[nodiscard]] const std::vector<Rank>& ranks() const;
  /// Returns the world rank of this member.
  [[nodiscard]] Rank rank() const;
  /// Returns the number of failures before this group.
  [[nodiscard]] std::uint64_t generation() const;
  /// Returns the current deadline of operations.
  [[nodiscard]] std::chrono::nanoseconds deadline() const;
  /// Returns the sum of all extensions of deadlines.
  [[nodiscard]] std::chrono::nanoseconds extended() const;
  /// Returns the action at a missed deadline.
  [[nodiscard]] OnHang on_hang() const;
  /// Returns the progress of this member.
  [[nodiscard]] GroupProgress progress() const;
  /// Returns the communicator, which may outlive the group.
  [[nodiscard]] const std::shared_ptr<Communicator>& communicator() const;
  /// Returns true if both refer to the same group on the same rank.
  friend bool operator==(const ObservedGroup&, const ObservedGroup&) = default;

 private:
  GroupState* state_;
};

/// A failure of a rank.
struct RankFailure {
  int rank = 0;                              ///< world rank
  std::string group = {};                    ///< name of the group; empty before a group exists
  ErrorKind kind = ErrorKind::kAborted;      ///< kind of the error: deadline, lost peer, abort or mismatch
  std::string words = {};                    ///< message of the error
  OnHang on_hang = OnHang::kRaise;           ///< action at a deadline
  std::chrono::steady_clock::time_point at;  ///< time of the failure
};

/// Observer of ranks and groups. Thread-safe.
class GroupObserver {
 public:
  virtual ~GroupObserver() = default;
  /// Called when the rank at this place starts to look for the others. `is_process` is true if the rank is this
  /// process, which owns nothing yet. Called again for a place in a shrunk world; then earlier reports no longer apply.
  virtual void rank_opens(const RankPlace& place, bool is_process) = 0;
  /// Called when the rank of this process has its place and may own objects.
  virtual void rank_is_placed() = 0;
  /// Called when a group of the current rank exists. The observer may access it until group_closes() has returned.
  virtual void group_opens(ObservedGroup group) = 0;
  virtual void group_closes(ObservedGroup group) noexcept = 0;
  /// Called without locks that other threads could wait for.
  virtual void failed(const RankFailure& failure) noexcept = 0;
};

/// Registers an observer for the lifetime of the process. Call it once, before main.
void set_group_observer(GroupObserver* observer);
/// Returns the registered observer, or null.
GroupObserver* group_observer() noexcept;

}  // namespace tessera::comm::detail
