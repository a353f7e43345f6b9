// Callbacks that users register on an allocator or a pool, under numbers by which they are removed again.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace tessera::memory::detail {

/// Callbacks of one kind, in the order of their registration. Thread-safe.
template <class Signature>
class Callbacks {
 public:
  using Callback = std::function<Signature>;

  /// Adds a callback and returns its number, from 1.
  std::uint64_t add(Callback callback) {
    const std::lock_guard lock(mutex_);
    callbacks_[++last_] = std::move(callback);
    return last_;
  }
  /// Removes a callback. Waits for calls of call_all() in progress.
  void remove(std::uint64_t number) {
    const std::lock_guard lock(mutex_);
    callbacks_.erase(number);
  }
  /// Returns a copy, for calls without the lock: these callbacks may add and remove callbacks.
  [[nodiscard]] std::vector<Callback> all() const {
    const std::lock_guard lock(mutex_);
    std::vector<Callback> all;
    for (const auto& [number, callback] : callbacks_) all.push_back(callback);
    return all;
  }
  /// Calls all with the lock held, so that none runs after its remove() has returned. They must not add or remove.
  template <class Argument>
  void call_all(const Argument& argument) const {
    const std::lock_guard lock(mutex_);
    for (const auto& [number, callback] : callbacks_) callback(argument);
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::uint64_t, Callback> callbacks_;
  std::uint64_t last_ = 0;
};

}  // namespace tessera::memory::detail
