// Ownership by process. A forked child inherits copies of all objects of its parent, but not its threads, and some of
// the memory of the objects is shared with other processes. An object that must not be used in a child has an
// OwnerProcess: its calls throw in the child, and its destructor leaves everything to the parent.
//
//   struct StreamState { OwnerProcess owner; ... };
//   stream.owner.check("stream");                          // throws NotSupported in a forked child
//
// Children forked before Tessera is used, and children that call exec, are not restricted.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "tessera/base/export.h"

namespace tessera {

namespace detail {
/// Number of forks between the process that loaded Tessera and this process.
extern TESSERA_API constinit std::atomic<std::uint32_t> fork_depth;
/// Throws NotSupported: `what` belongs to the parent of this process.
[[noreturn]] TESSERA_API void throw_forked(std::string_view what);
/// Keeps a pointer to an object that is never destroyed, so that leak checkers find it. Thread-safe.
TESSERA_API void keep_reachable(const void* object);
}  // namespace detail

/// The process that constructed an object. A check costs one relaxed load.
class OwnerProcess {
 public:
  /// Refers to this process.
  OwnerProcess() noexcept : depth_(detail::fork_depth.load(std::memory_order_relaxed)) {}
  /// Returns true in the owning process, and false in a child that it forked later.
  [[nodiscard]] bool is_this() const noexcept { return depth_ == detail::fork_depth.load(std::memory_order_relaxed); }
  /// Throws NotSupported in a forked child; `what` names the object in the error: "stream".
  void check(std::string_view what) const {
    if (!is_this()) [[unlikely]]
      detail::throw_forked(what);
  }

 private:
  std::uint32_t depth_;
};

/// Moves an object to the heap and never destroys it. For objects that a forked child inherited and must not destroy.
template <class T>
void abandon(T& object) noexcept {
  detail::keep_reachable(new T(std::move(object)));
}

/// A T that each process constructs on first use and never destroys. Thread-safe.
template <class T>
class PerProcess {
 public:
  /// Returns the T of this process.
  T& get() {
    Made* made = made_.load(std::memory_order_acquire);
    while (made == nullptr || !made->owner.is_this()) {
      auto fresh = std::make_unique<Made>();
      if (!made_.compare_exchange_strong(made, fresh.get(), std::memory_order_acq_rel)) continue;
      if (made != nullptr) detail::keep_reachable(made);  // belongs to the parent
      return fresh.release()->value;
    }
    return made->value;
  }
  /// Returns the T of this process, or null if this process has not constructed one.
  T* find() noexcept {
    Made* made = made_.load(std::memory_order_acquire);
    return made != nullptr && made->owner.is_this() ? &made->value : nullptr;
  }

 private:
  struct Made {
    OwnerProcess owner;
    T value;
  };
  std::atomic<Made*> made_{nullptr};
};

}  // namespace tessera
