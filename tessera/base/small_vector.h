// A growing array that stores up to N elements in place, for lists that are almost always short and are returned from
// hot paths; longer lists use the heap, like std::vector. Elements are trivially copyable, so growth and copies are one
// memcpy. It is a contiguous range that converts to std::span<const T>.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <span>
#include <stdexcept>
#include <type_traits>
#include <utility>

namespace tessera {

/// A vector with in-place storage for N elements. Not thread-safe.
template <class T, std::uint32_t N>
class SmallVector {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T> && N > 0);

 public:
  using iterator = const T*;        ///< Read-only: use operator[] to modify elements.
  using const_iterator = const T*;  ///< Read-only iterator.

  /// Constructs an empty vector.
  SmallVector() noexcept : data_(in_place()) {}
  /// Constructs a vector of these elements.
  SmallVector(std::initializer_list<T> items) : SmallVector() { append(items); }
  /// Copies the elements.
  SmallVector(const SmallVector& other) : SmallVector() { append(other); }
  /// Takes over the elements of `other`, which becomes empty.
  SmallVector(SmallVector&& other) noexcept : SmallVector() { take(other); }
  /// Replaces the elements by those of `other`.
  SmallVector& operator=(SmallVector other) noexcept {
    take(other);
    return *this;
  }
  ~SmallVector() {
    if (!is_in_place()) std::allocator<T>().deallocate(data_, capacity_);
  }

  /// Returns the number of elements.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// Returns true if there are no elements.
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  /// Returns the address of the first element.
  [[nodiscard]] const T* data() const noexcept { return data_; }
  /// Returns an iterator to the first element.
  [[nodiscard]] const_iterator begin() const noexcept { return data_; }
  /// Returns the end iterator.
  [[nodiscard]] const_iterator end() const noexcept { return data_ + size_; }
  /// Returns an element; the index is not checked.
  [[nodiscard]] T& operator[](std::size_t i) noexcept { return data_[i]; }
  /// Returns an element for reading; the index is not checked.
  [[nodiscard]] const T& operator[](std::size_t i) const noexcept { return data_[i]; }
  /// Returns an element. Throws std::out_of_range if the index is out of range.
  [[nodiscard]] const T& at(std::size_t i) const {
    if (i >= size_) throw std::out_of_range("SmallVector::at");
    return data_[i];
  }

  /// Adds an element.
  void push_back(T item) {
    if (size_ == capacity_) [[unlikely]]
      grow(std::size_t{size_} + 1);
    data_[size_++] = item;
  }
  /// Adds copies of `items`, which must not be elements of this vector.
  void append(std::span<const T> items) {
    if (items.size() > capacity_ - size_) [[unlikely]]
      grow(size_ + items.size());
    copy_to(data_ + size_, items);
    size_ += static_cast<std::uint32_t>(items.size());
  }
  /// Replaces the elements by copies of `items`, which must not be elements of this vector.
  void assign(std::span<const T> items) {
    clear();
    append(items);
  }
  /// Removes the elements and keeps the storage.
  void clear() noexcept { size_ = 0; }

  /// Returns true if both have the same elements in the same order.
  friend bool operator==(const SmallVector& a, const SmallVector& b) { return std::ranges::equal(a, b); }
  /// Returns true if both have the same elements in the same order.
  friend bool operator==(const SmallVector& a, std::span<const T> b) { return std::ranges::equal(a, b); }

 private:
  [[nodiscard]] T* in_place() noexcept { return reinterpret_cast<T*>(place_); }
  [[nodiscard]] bool is_in_place() const noexcept { return static_cast<const void*>(data_) == place_; }
  static void copy_to(T* to, std::span<const T> from) {
    if (from.size() == 1) {  // the common case, not worth a call
      *to = from[0];
    } else if (!from.empty()) {
      std::memcpy(static_cast<void*>(to), from.data(), from.size_bytes());
    }
  }
  void take(SmallVector& other) noexcept {
    if (other.is_in_place()) {
      copy_to(data_, other);  // fits: the capacity is never below N
    } else {
      std::swap(data_, other.data_);
      std::swap(capacity_, other.capacity_);
      if (static_cast<const void*>(other.data_) == place_) other.data_ = other.in_place();
    }
    size_ = std::exchange(other.size_, 0U);
  }
  [[gnu::noinline]] void grow(std::size_t least) {
    const std::size_t capacity = std::max<std::size_t>(least, std::size_t{2} * capacity_);
    SmallVector grown;
    grown.data_ = std::allocator<T>().allocate(capacity);
    grown.capacity_ = static_cast<std::uint32_t>(capacity);
    grown.append(*this);
    take(grown);
  }

  T* data_;
  std::uint32_t size_ = 0;
  std::uint32_t capacity_ = N;
  alignas(T) std::byte place_[sizeof(T[N])];
};

}  // namespace tessera
