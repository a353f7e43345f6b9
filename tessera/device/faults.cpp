#include "tessera/device/faults.h"

namespace tessera::device {

std::string_view to_string(DriverCall call) {
  static constexpr std::string_view kNames[] = {
      "reserve",         "create memory", "map",          "unmap",       "protect", "export",      "import",
      "allocate pinned", "create stream", "create event", "load module", "launch",  "copy",        "fill",
      "memory value",    "hold",          "record",       "wait",        "query",   "synchronize", "begin capture",
      "end capture",     "instantiate",   "update",       "graph launch"};
  static_assert(std::size(kNames) == static_cast<std::size_t>(DriverCall::kCount));
  return kNames[static_cast<std::size_t>(call)];
}

void FaultInjector::fail(DriverCall call, std::uint64_t nth, ErrorKind error) {
  TESSERA_CHECK(nth > 0, "fault for call ", to_string(call), ": calls are counted from 1, got ", nth);
  const std::lock_guard lock(mutex_);
  PlantedFault& fault = faults_[static_cast<std::size_t>(call)];
  fault.remaining = nth;
  fault.error = error;
  armed_ = true;
}

void FaultInjector::clear() {
  const std::lock_guard lock(mutex_);
  for (PlantedFault& fault : faults_) fault.remaining = 0;
  armed_ = counting_;
}

void FaultInjector::count_calls(bool on) {
  const std::lock_guard lock(mutex_);
  counting_ = on;
  bool any = on;
  for (PlantedFault& fault : faults_) {
    if (on) fault.calls = 0;
    any = any || fault.remaining > 0;
  }
  armed_ = any;
}

std::uint64_t FaultInjector::calls(DriverCall call) const {
  const std::lock_guard lock(mutex_);
  return faults_[static_cast<std::size_t>(call)].calls;
}

void FaultInjector::pass_armed(DriverCall call) {
  const std::lock_guard lock(mutex_);
  PlantedFault& fault = faults_[static_cast<std::size_t>(call)];
  ++fault.calls;
  if (fault.remaining == 0 || --fault.remaining > 0) return;
  const auto text = tessera::detail::concat("injected fault in driver call '", to_string(call), "'");
  switch (fault.error) {
    case ErrorKind::kOutOfMemory: TESSERA_THROW(OutOfMemory, text);
    case ErrorKind::kTimeout: TESSERA_THROW(TimeoutError, text);
    case ErrorKind::kNotSupported: TESSERA_THROW(NotSupported, text);
    default: TESSERA_THROW(DeviceError, text);
  }
}

}  // namespace tessera::device
