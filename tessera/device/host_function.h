// A move-only closure that stores small captures in place, so that enqueueing it does not allocate.
#pragma once

#include <concepts>
#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace tessera::device {

/// Host work that runs once, or once per replay inside a graph. Captures up to kInline bytes are stored in place.
class HostFunction {
 public:
  /// Maximum capture size in bytes without an allocation.
  static constexpr std::size_t kInline = 80;

  /// Constructs an empty function.
  HostFunction() = default;
  /// Stores a callable without parameters.
  template <class F>
  requires(std::invocable<std::remove_cvref_t<F>&> && !std::same_as<std::remove_cvref_t<F>, HostFunction>)
      HostFunction(F&& body) {  // NOLINT(google-explicit-constructor): a lambda is what callers write
    using Body = std::remove_cvref_t<F>;
    if constexpr (sizeof(Body) <= kInline && alignof(Body) <= alignof(std::max_align_t) &&
                  std::is_nothrow_move_constructible_v<Body>) {
      ::new (static_cast<void*>(storage_)) Body(std::forward<F>(body));
      actions_ = &kInPlace<Body>;
    } else {
      ::new (static_cast<void*>(storage_)) std::unique_ptr<Body>(std::make_unique<Body>(std::forward<F>(body)));
      actions_ = &kOnHeap<Body>;
    }
  }
  /// Takes the work of `other`, which is then empty.
  HostFunction(HostFunction&& other) noexcept { take(other); }
  /// Destroys the current work and takes that of `other`.
  HostFunction& operator=(HostFunction&& other) noexcept {
    if (this != &other) {
      reset();
      take(other);
    }
    return *this;
  }
  ~HostFunction() { reset(); }

  /// Runs the work; may be called more than once.
  void operator()() { actions_->call(storage_); }
  /// Returns true if the function is not empty.
  explicit operator bool() const { return actions_ != nullptr; }
  /// Destroys the work and its captures.
  void reset() noexcept {
    if (actions_ != nullptr) std::exchange(actions_, nullptr)->destroy(storage_);
  }

 private:
  struct Actions {
    void (*call)(void*);
    void (*move)(void* to, void* from) noexcept;
    void (*destroy)(void*) noexcept;
  };
  template <class T>
  static void relocate(void* to, void* from) noexcept {
    ::new (to) T(std::move(*static_cast<T*>(from)));
    static_cast<T*>(from)->~T();
  }
  template <class T>
  static void finish(void* at) noexcept {
    static_cast<T*>(at)->~T();
  }
  template <class Body>
  static constexpr Actions kInPlace = {[](void* at) { (*static_cast<Body*>(at))(); }, &relocate<Body>, &finish<Body>};
  template <class Body>
  static constexpr Actions kOnHeap = {[](void* at) { (**static_cast<std::unique_ptr<Body>*>(at))(); },
                                      &relocate<std::unique_ptr<Body>>, &finish<std::unique_ptr<Body>>};

  void take(HostFunction& other) noexcept {
    actions_ = std::exchange(other.actions_, nullptr);
    if (actions_ != nullptr) actions_->move(storage_, other.storage_);
  }

  const Actions* actions_ = nullptr;
  alignas(std::max_align_t) std::byte storage_[kInline];
};

}  // namespace tessera::device
