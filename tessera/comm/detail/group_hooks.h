// Calls of the observer of ranks and groups (group_observer.h).
#pragma once

#include <cstdint>
#include <exception>
#include <string>

#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/comm/group_observer.h"
#include "tessera/comm/process_group.h"

namespace tessera::comm {
struct GroupState;
}

namespace tessera::comm::detail {

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
class GroupObservation {
 public:
  GroupObservation() = default;
  ~GroupObservation();
  GroupObservation(const GroupObservation&) = delete;
  GroupObservation& operator=(const GroupObservation&) = delete;
  void open(GroupState& group);

 private:
  GroupObserver* observer_ = nullptr;
  GroupState* group_ = nullptr;
};

}  // namespace tessera::comm::detail
