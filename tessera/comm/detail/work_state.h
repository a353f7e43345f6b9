// What a Work holds: the task, and the point on its stream behind it.
#pragma once

#include "tessera/base/fork.h"
#include "tessera/comm/communicator.h"
#include "tessera/device/event.h"

namespace tessera::comm {

struct WorkState {
  Task task;
  device::Event event;  // none: it had ended when it was launched
  OwnerProcess owner = {};
};

}  // namespace tessera::comm
