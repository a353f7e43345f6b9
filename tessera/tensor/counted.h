// Objects that count who holds them, and handles that keep the count. The count lies in the object, so that a handle is
// one pointer and making an object one allocation.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace tessera::tensor::detail {

/// Base of counted objects. Handles of one object may be used by several threads.
class Counted {
 public:
  Counted() = default;
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  /// One more holder.
  void retain() const noexcept { count_.fetch_add(1, std::memory_order_relaxed); }
  /// One less; true: it was the last, and the object is the caller's to delete.
  [[nodiscard]] bool release() const noexcept {
    // The only holder needs no read-modify-write: nobody else can add to the count.
    if (count_.load(std::memory_order_acquire) == 1) return true;
    return count_.fetch_sub(1, std::memory_order_acq_rel) == 1;
  }
  /// Holders now; exact only when it is 1 and the caller is that one.
  [[nodiscard]] std::uint32_t count() const noexcept { return count_.load(std::memory_order_acquire); }

 protected:
  ~Counted() = default;

 private:
  mutable std::atomic<std::uint32_t> count_{1};
};

/// A handle of a counted T. Empty until assigned.
template <class T>
class Ref {
 public:
  Ref() noexcept = default;
  /// Takes over one count of `object`.
  static Ref adopt(T* object) noexcept {
    Ref ref;
    ref.object_ = object;
    return ref;
  }
  /// One more handle of `object`.
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
  /// Hands the count over to the caller; the handle is empty then.
  [[nodiscard]] T* detach() noexcept { return std::exchange(object_, nullptr); }
  friend bool operator==(const Ref& a, const Ref& b) noexcept { return a.object_ == b.object_; }

 private:
  T* object_ = nullptr;
};

}  // namespace tessera::tensor::detail
