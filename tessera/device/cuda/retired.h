// Objects whose last use was in a driver callback. A destructor may call the driver (a closure can own an event), but
// callbacks must not. So callbacks push the objects on a stack, and the next thread that drains it destroys them.
#pragma once

#include <atomic>

namespace tessera::device::cuda {

/// An object that can be pushed on the stack.
class Retired {
 public:
  virtual ~Retired() = default;

 private:
  friend class RetiredStack;
  Retired* next_ = nullptr;
};

/// The stack. Thread-safe and lock-free; push allocates nothing.
class RetiredStack {
 public:
  /// Pushes `thing` for destruction.
  void push(Retired* thing) noexcept {
    thing->next_ = head_.load(std::memory_order_relaxed);
    while (!head_.compare_exchange_weak(thing->next_, thing, std::memory_order_release, std::memory_order_relaxed)) {
    }
  }
  /// Destroys all objects on the stack.
  void drain() noexcept {
    if (head_.load(std::memory_order_relaxed) == nullptr) return;
    Retired* thing = head_.exchange(nullptr, std::memory_order_acquire);
    while (thing != nullptr) {
      Retired* next = thing->next_;
      delete thing;
      thing = next;
    }
  }

 private:
  std::atomic<Retired*> head_{nullptr};
};

}  // namespace tessera::device::cuda
