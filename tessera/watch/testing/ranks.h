// What ranks of the watchdog's tests do, and how to look at what they left.
#pragma once

#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>

#include "tessera/comm/process_group.h"
#include "tessera/comm/work.h"
#include "tessera/device/device.h"

namespace tessera::watch {

/// All of a file; empty: there is none.
inline std::string content(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

/// Returns when all ranks of the group have called it.
inline void barrier(const comm::ProcessGroup& group) {
  group.launch({.kind = comm::OpKind::kBarrier}, device::Device::get("host").default_stream()).wait();
}

/// Stands still for ever, in host code. With a signal that is not handled the process ends.
[[noreturn]] inline void be_stuck() {
  for (;;) ::pause();
}

}  // namespace tessera::watch
