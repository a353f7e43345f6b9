#include "tessera/comm/detail/group_hooks.h"

#include <algorithm>

#include "tessera/base/env.h"

namespace tessera::comm::detail {
void tell_failed(int rank, const std::string& group, OnHang on_hang, const std::exception_ptr& error) noexcept {
  GroupObserver* observer = group_observer();
  if (observer == nullptr || error == nullptr) return;
  try {
    std::rethrow_exception(error);
  } catch (const Error& known) {
    // Errors of arguments are reported only by their exception.
    if (known.kind() == ErrorKind::kInvalidArgument || known.kind() == ErrorKind::kNotSupported) return;
    observer->failed({.rank = rank,
                      .group = group,
                      .kind = known.kind(),
                      .words = known.message(),
                      .on_hang = on_hang,
                      .at = std::chrono::steady_clock::now()});
  } catch (...) {
    // Not an Error; the function that threw it reports it.
  }
}

OnHang on_hang_of_environment() {
  const std::vector<env::VariableState> variables = env::table();
  const auto found = std::ranges::find(variables, "TESSERA_ON_HANG", &env::VariableState::name);
  TESSERA_CHECK(found != variables.end() && found->error.empty(), found->error);
  if (found->value == "abort") return OnHang::kAbort;
  if (found->value == "exit") return OnHang::kExit;
  if (found->value == "wait") return OnHang::kWait;
  return OnHang::kRaise;
}

void GroupObservation::open(GroupState& group) {
  observer_ = group_observer();
  if (observer_ == nullptr) return;
  observer_->group_opens(ObservedGroup(group));
  group_ = &group;
}

GroupObservation::~GroupObservation() {
  if (group_ != nullptr) observer_->group_closes(ObservedGroup(*group_));
}

}  // namespace tessera::comm::detail
