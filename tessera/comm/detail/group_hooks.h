// Hooks for an observer of the ranks and groups of this process. The watchdog (tessera/watch), a higher layer,
// registers itself before main. Without an observer, the hooks do nothing.
//
//   rank_opens    a rank starts to look for the others, before a store or a group exists
//   group_opens   a group exists; group_closes: it is about to be destroyed
//   failed        an operation failed; the observer may block the thread briefly, to report the failure while the state
//                 is unchanged
#pragma once

#include <cstdint>
#include <exception>
#include <string>

#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/comm/process_group.h"

namespace tessera::comm {
struct GroupState;
}

namespace tessera::comm::detail {

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
  virtual void group_opens(GroupState& group) = 0;
  virtual void group_closes(GroupState& group) noexcept = 0;
  /// Called without locks that other threads could wait for.
  virtual void failed(const RankFailure& failure) noexcept = 0;
};

/// Registers an observer for the lifetime of the process. Call it once, before main.
void set_group_observer(GroupObserver* observer);
/// Returns the registered observer, or null.
GroupObserver* group_observer() noexcept;

/// Reports an error to the observer, except errors of arguments.
void tell_failed(int rank, const std::string& group, OnHang on_hang, const std::exception_ptr& error) noexcept;

/// Runs `body`, which waits for other ranks on behalf of the current one, and reports its failure.
template <class Body>
decltype(auto) observed(const std::string& group, OnHang on_hang, Body&& body) {
  try {
    return body();
  } catch (...) {
    tell_failed(current_place().rank.value(), group, on_hang, std::current_exception());
    throw;
  }
}

/// Returns TESSERA_ON_HANG: the action at a deadline, unless the group sets one.
OnHang on_hang_of_environment();

/// Reports a group to the observer, from open() until its destruction.
class ObservedGroup {
 public:
  ObservedGroup() = default;
  ~ObservedGroup();
  ObservedGroup(const ObservedGroup&) = delete;
  ObservedGroup& operator=(const ObservedGroup&) = delete;
  void open(GroupState& group);

 private:
  GroupState* group_ = nullptr;
};

}  // namespace tessera::comm::detail
