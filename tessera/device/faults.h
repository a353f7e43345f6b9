// Fault injection for tests. Every driver call of a device first passes through its FaultInjector, which can make the
// k-th call of a kind fail. If it is not armed, a call costs one load and one branch.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string_view>

#include "tessera/base/error.h"
#include "tessera/base/export.h"

namespace tessera::device {

/// Kinds of driver calls that can be made to fail.
enum class DriverCall : std::uint8_t {
  kReserve,
  kCreateMemory,
  kMap,
  kUnmap,
  kProtect,
  kExport,
  kImport,
  kAllocatePinned,
  kCreateStream,
  kCreateEvent,
  kLoadModule,
  kLaunch,
  kCopy,
  kFill,
  kMemoryValue,
  kHold,
  kRecord,
  kWait,
  kQuery,
  kSynchronize,
  kBeginCapture,
  kEndCapture,
  kInstantiate,
  kUpdate,
  kGraphLaunch,
  kCount,  ///< number of kinds
};
/// Returns the name: "reserve", "create memory", ...
TESSERA_API std::string_view to_string(DriverCall call);

/// Counts the driver calls of one device and makes selected calls fail. Thread-safe.
class TESSERA_API FaultInjector {
 public:
  /// Makes the `nth` next call of this kind (1: the next) fail with an error of kind `error` (kDevice, kOutOfMemory,
  /// kTimeout or kNotSupported). Each kind of call has at most one fault; a new one replaces it.
  void fail(DriverCall call, std::uint64_t nth, ErrorKind error = ErrorKind::kDevice);
  /// Removes all faults.
  void clear();
  /// Starts counting calls from 0, or stops.
  void count_calls(bool on);
  /// Returns the number of calls of this kind since counting started.
  [[nodiscard]] std::uint64_t calls(DriverCall call) const;
  /// Returns true if calls are counted or made to fail.
  [[nodiscard]] bool is_armed() const { return armed_.load(std::memory_order_relaxed); }
  /// Called before each driver call. Throws if this call must fail.
  void pass(DriverCall call) {
    if (is_armed()) [[unlikely]]
      pass_armed(call);
  }

 private:
  struct PlantedFault {
    std::uint64_t remaining = 0;  // 0: no fault
    ErrorKind error = ErrorKind::kDevice;
    std::uint64_t calls = 0;
  };
  void pass_armed(DriverCall call);

  std::atomic<bool> armed_{false};
  mutable std::mutex mutex_;
  bool counting_ = false;
  std::array<PlantedFault, static_cast<std::size_t>(DriverCall::kCount)> faults_;
};

}  // namespace tessera::device
