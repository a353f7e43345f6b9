// Faults on request. Every driver call of a device passes here first, so that a test can make the k-th call of a kind
// fail and see what the layers above make of it. With nothing asked for, a call costs one load and one branch.
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

/// The kinds of driver call that can be made to fail.
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
  kCount,  ///< how many kinds there are
};
/// "reserve", "create memory", ...
TESSERA_API std::string_view to_string(DriverCall call);

/// Counts the driver calls of one device and fails those it was told to. Thread-safe.
class TESSERA_API FaultInjector {
 public:
  /// Makes the `nth` call of this kind from now on (1: the next) fail with an error of kind `error` (kDevice,
  /// kOutOfMemory, kTimeout or kNotSupported). One fault per kind of call; asking again replaces it.
  void fail(DriverCall call, std::uint64_t nth, ErrorKind error = ErrorKind::kDevice);
  /// Forgets all faults.
  void clear();
  /// Starts or stops counting calls; counting starts at 0.
  void count_calls(bool on);
  /// Calls of this kind since counting started.
  [[nodiscard]] std::uint64_t calls(DriverCall call) const;
  /// Returns true if calls are counted or made to fail.
  [[nodiscard]] bool is_armed() const { return armed_.load(std::memory_order_relaxed); }
  /// Called before each driver call; throws when it is this call's turn to fail.
  void pass(DriverCall call) {
    if (is_armed()) [[unlikely]]
      pass_armed(call);
  }

 private:
  struct Fault {
    std::uint64_t remaining = 0;  // 0: none
    ErrorKind error = ErrorKind::kDevice;
    std::uint64_t calls = 0;
  };
  void pass_armed(DriverCall call);

  std::atomic<bool> armed_{false};
  mutable std::mutex mutex_;
  bool counting_ = false;
  std::array<Fault, static_cast<std::size_t>(DriverCall::kCount)> faults_;
};

}  // namespace tessera::device
