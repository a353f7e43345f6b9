// A handle to an enqueued operation of a group. The operation keeps its resources alive until it ends; dropping the
// Work earlier has no effect. Captured operations return an empty Work: wait for the replay instead.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>

#include "tessera/base/export.h"
#include "tessera/device/stream.h"

namespace tessera::comm {

struct WorkState;

/// Handle to an enqueued operation. Copies share the operation. Thread-safe.
class TESSERA_API Work {
 public:
  /// Constructs an empty handle. Captured operations return one; `wait()` on it throws InvalidArgument.
  Work() = default;
  /// Constructs a handle to `state`. Called by groups.
  explicit Work(std::shared_ptr<WorkState> state) : state_(std::move(state)) {}
  /// Returns true if the handle refers to an operation.
  explicit operator bool() const { return state_ != nullptr; }
  /// Blocks the host until the operation has ended. Throws its error, or TimeoutError after `timeout`.
  void wait(std::chrono::nanoseconds timeout = device::kForever) const;
  /// Makes later work on `stream` wait for the operation. Does not block the host.
  void wait_on(const device::Stream& stream) const;
  /// Returns true if the operation has ended, with or without an error. Never waits.
  [[nodiscard]] bool is_done() const;
  /// Returns the error of a failed operation, otherwise null.
  [[nodiscard]] std::exception_ptr error() const;
  /// Returns the time from the start of the operation on the device to its end. Throws if it has not ended.
  [[nodiscard]] std::chrono::nanoseconds duration() const;
  /// Returns the number of the operation in its communicator, from 1; 0 if it has not started.
  [[nodiscard]] std::uint64_t sequence() const;

 private:
  std::shared_ptr<WorkState> state_;
};

}  // namespace tessera::comm
