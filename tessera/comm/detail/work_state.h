// What a Work holds: the task, and the point on its stream behind it.
#pragma once

#include <memory>

#include "tessera/comm/communicator.h"
#include "tessera/device/event.h"

namespace tessera::comm {

struct WorkState {
  std::shared_ptr<Task> task;
  device::Event event;  // none: it had ended when it was launched
};

}  // namespace tessera::comm
