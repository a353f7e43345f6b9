// Regular calls during work on a long text, so that the work can be interrupted.
#pragma once

#include <cstddef>
#include <functional>

namespace tessera::train::detail {

/// Is called about once per 4 MiB of text. May throw to end the work.
using OnTick = std::function<void()>;

/// Calls an OnTick as a position in a text increases.
class Ticks {
 public:
  /// Keeps a reference to `on_tick`, which may be empty.
  explicit Ticks(const OnTick& on_tick) : on_tick_(on_tick) {}
  /// Reports the position of the work.
  void at(std::size_t position) {
    if (position < next_) return;
    next_ = position + kBytes;
    if (on_tick_) on_tick_();
  }

 private:
  static constexpr std::size_t kBytes = std::size_t{4} << 20;
  const OnTick& on_tick_;
  std::size_t next_ = kBytes;
};

}  // namespace tessera::train::detail
