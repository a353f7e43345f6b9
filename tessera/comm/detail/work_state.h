// The state of a Work: the task, and the point on its stream after it.
#pragma once

#include <span>
#include <vector>

#include "tessera/base/fork.h"
#include "tessera/comm/communicator.h"
#include "tessera/device/event.h"

namespace tessera::comm {

struct WorkState {
  explicit WorkState(std::span<const Operation> operations) : first(operations[0]) {
    if (operations.size() > 1) all.assign(operations.begin(), operations.end());
    task.operations = all.empty() ? std::span<const Operation>(&first, 1) : all;
  }
  WorkState(const WorkState&) = delete;
  WorkState& operator=(const WorkState&) = delete;

  const Operation first;
  std::vector<Operation> all;  // operations of a task with several
  Task task;
  device::Event event;  // empty if the task had ended when it was launched
  OwnerProcess owner = {};
};

}  // namespace tessera::comm
