// Who is told what becomes of the ranks and groups of this process: the watchdog (tessera/watch), which stands above
// this layer and registers before main. Where nobody registered nothing is told.
//
//   rank_opens    a rank begins to look for the others: before there is a store or a group
//   group_opens   a group is there; group_closes: it goes
//   failed        something ended in vain; the observer may hold the thread for a moment, to tell of it while all is
//                 as it was
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

/// What ended in vain.
struct Trouble {
  int rank = 0;                              ///< in the world, that it happened to
  std::string group = {};                    ///< name; empty: before there was one
  ErrorKind kind = ErrorKind::kAborted;      ///< of its error: a deadline, a peer that is gone, an abort, a mismatch
  std::string words = {};                    ///< of its error
  OnHang on_hang = OnHang::kRaise;           ///< what is to happen at a deadline
  std::chrono::steady_clock::time_point at;  ///< when
};

/// See the head of this file. Thread-safe.
class GroupObserver {
 public:
  virtual ~GroupObserver() = default;
  /// The rank at this place begins to look for the others. `is_process`: it is this process, and owns nothing yet;
  /// again when it has a place in a smaller world, where what was told of the one before is over.
  virtual void rank_opens(const RankPlace& place, bool is_process) = 0;
  /// The rank of this process has its place, and may own things from now on.
  virtual void rank_is_placed() = 0;
  /// A group of the current rank is there. It may be looked at until group_closes() has returned.
  virtual void group_opens(GroupState& group) = 0;
  virtual void group_closes(GroupState& group) noexcept = 0;
  /// Called with nothing held that others could wait for.
  virtual void failed(const Trouble& trouble) noexcept = 0;
};

/// Registers for the life of the process; before main, and once.
void set_group_observer(GroupObserver* observer);
/// Who registered, or null.
GroupObserver* group_observer() noexcept;

/// Tells of an error, unless it is one of arguments.
void tell_failed(int rank, const std::string& group, OnHang on_hang, const std::exception_ptr& error) noexcept;

/// Runs `body`, which waits for other ranks on behalf of the current one, and tells when that was in vain.
template <class Body>
decltype(auto) observed(const std::string& group, OnHang on_hang, Body&& body) {
  try {
    return body();
  } catch (...) {
    tell_failed(current_place().rank.value(), group, on_hang, std::current_exception());
    throw;
  }
}

/// TESSERA_ON_HANG: what happens at a deadline where no group says otherwise.
OnHang on_hang_of_environment();

/// Tells that a group is there from open() on until this goes.
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
