// Helpers for the ranks of watchdog tests, and for their files.
#pragma once

#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>

#include "tessera/comm/process_group.h"
#include "tessera/comm/work.h"
#include "tessera/device/device.h"

namespace tessera::watch {

/// Returns a file as text; empty if it does not exist.
inline std::string content(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

/// Returns when all ranks of the group have called it.
inline void barrier(const comm::ProcessGroup& group) {
  group.launch({.kind = comm::OpKind::kBarrier}, device::Device::get("host").default_stream()).wait();
}

/// Blocks forever in host code. An unhandled signal ends the process.
[[noreturn]] inline void be_stuck() {
  for (;;) ::pause();
}

}  // namespace tessera::watch
