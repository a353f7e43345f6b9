// Intrusive reference counting. The count is in the object, so a handle is one pointer and an object one allocation.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace tessera::tensor::detail {

/// Base of counted objects. Handles to one object may be used by several threads.
class Counted {
 public:
  Counted() = default;
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  /// Adds a reference.
  void retain() const noexcept { count_.fetch_add(1, std::memory_order_relaxed); }
  /// Drops a reference. Returns true if it was the last; the caller must then delete the object.
  [[nodiscard]] bool release() const noexcept {
    // The only holder needs no read-modify-write: no other thread can add a reference.
    if (count_.load(std::memory_order_acquire) == 1) return true;
    return count_.fetch_sub(1, std::memory_order_acq_rel) == 1;
  }
  /// Returns the number of references. Exact only if it is 1 and the caller holds that reference.
  [[nodiscard]] std::uint32_t count() const noexcept { return count_.load(std::memory_order_acquire); }

 protected:
  ~Counted() = default;

 private:
  mutable std::atomic<std::uint32_t> count_{1};
};

/// A handle to a counted T. Empty until assigned.
template <class T>
class Ref {
 public:
  Ref() noexcept = default;
  /// Takes over one reference to `object`.
  static Ref adopt(T* object) noexcept {
    Ref ref;
    ref.object_ = object;
    return ref;
  }
  /// Returns a new handle to `object`.
  static Ref share(T* object) noexcept {
    if (object != nullptr) object->retain();
    return adopt(object);
  }
  Ref(const Ref& other) noexcept : object_(other.object_) {
    if (object_ != nullptr) object_->retain();
  }
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() {
    if (object_ != nullptr && object_->release()) delete object_;
  }
  [[nodiscard]] T* get() const noexcept { return object_; }
  T* operator->() const noexcept { return object_; }
  T& operator*() const noexcept { return *object_; }
  explicit operator bool() const noexcept { return object_ != nullptr; }
  /// Releases the reference to the caller; the handle becomes empty.
  [[nodiscard]] T* detach() noexcept { return std::exchange(object_, nullptr); }
  friend bool operator==(const Ref& a, const Ref& b) noexcept { return a.object_ == b.object_; }

 private:
  T* object_ = nullptr;
};

}  // namespace tessera::tensor::detail
