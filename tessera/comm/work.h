// An operation of a group under way. It keeps what must live until it has ended, and nothing after that; letting go of
// a Work early changes nothing. Operations of captures have no Work of their own: what waits for the replay waits for
// them.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>

#include "tessera/base/export.h"
#include "tessera/device/stream.h"

namespace tessera::comm {

struct WorkState;

/// See the head of this file. A shared handle; thread-safe.
class TESSERA_API Work {
 public:
  /// None: what an operation in a capture gives. Waiting for it is an error that says so.
  Work() = default;
  /// Made by a group.
  explicit Work(std::shared_ptr<WorkState> state) : state_(std::move(state)) {}
  /// Whether there is one.
  explicit operator bool() const { return state_ != nullptr; }
  /// Waits on the host until it has ended; throws its error, or TimeoutError when `timeout` comes first.
  void wait(std::chrono::nanoseconds timeout = device::kForever) const;
  /// Makes what is enqueued on `stream` from now on wait for it; does not wait here.
  void wait_on(const device::Stream& stream) const;
  /// Whether it has ended, well or not. Never waits.
  [[nodiscard]] bool is_done() const;
  /// Why it failed; null: it has not.
  [[nodiscard]] std::exception_ptr error() const;
  /// How long it ran, from its start on the device to its end; an error before that.
  [[nodiscard]] std::chrono::nanoseconds duration() const;
  /// Its number in the group, counted from 1; 0: it has not begun.
  [[nodiscard]] std::uint64_t sequence() const;

 private:
  std::shared_ptr<WorkState> state_;
};

}  // namespace tessera::comm
