// A growing array that keeps up to N elements in place, for lists that are nearly always short and are returned from
// hot paths; more go to the heap like a std::vector's. Elements are trivially copyable, so that growing and copying are
// one memcpy. It is a contiguous range: a std::span<const T> takes it.
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

/// See the file's head. Not thread-safe.
template <class T, std::uint32_t N>
class SmallVector {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T> && N > 0);

 public:
  using iterator = const T*;        ///< elements are changed by their place
  using const_iterator = const T*;  ///< likewise

  /// Empty.
  SmallVector() noexcept : data_(in_place()) {}
  /// These elements.
  SmallVector(std::initializer_list<T> items) : SmallVector() { append(items); }
  /// A copy.
  SmallVector(const SmallVector& other) : SmallVector() { append(other); }
  /// Takes over the elements of `other`, which is then empty.
  SmallVector(SmallVector&& other) noexcept : SmallVector() { take(other); }
  /// Replaces the elements by those given.
  SmallVector& operator=(SmallVector other) noexcept {
    take(other);
    return *this;
  }
  ~SmallVector() {
    if (!is_in_place()) std::allocator<T>().deallocate(data_, capacity_);
  }

  /// How many there are.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// Whether there are none.
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  /// The first element's address.
  [[nodiscard]] const T* data() const noexcept { return data_; }
  /// The first element.
  [[nodiscard]] const_iterator begin() const noexcept { return data_; }
  /// Behind the last.
  [[nodiscard]] const_iterator end() const noexcept { return data_ + size_; }
  /// An element; the place is not checked.
  [[nodiscard]] T& operator[](std::size_t i) noexcept { return data_[i]; }
  /// Likewise, to be read.
  [[nodiscard]] const T& operator[](std::size_t i) const noexcept { return data_[i]; }
  /// An element; std::out_of_range when there is none at this place.
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
  /// Adds copies of `items`, which are none of its own.
  void append(std::span<const T> items) {
    if (items.size() > capacity_ - size_) [[unlikely]]
      grow(size_ + items.size());
    copy_to(data_ + size_, items);
    size_ += static_cast<std::uint32_t>(items.size());
  }
  /// Holds copies of `items`, which are none of its own, and nothing else.
  void assign(std::span<const T> items) {
    clear();
    append(items);
  }
  /// Drops the elements and keeps the storage.
  void clear() noexcept { size_ = 0; }

  /// Same elements in the same order.
  friend bool operator==(const SmallVector& a, const SmallVector& b) { return std::ranges::equal(a, b); }
  /// Likewise, against any other list of them.
  friend bool operator==(const SmallVector& a, std::span<const T> b) { return std::ranges::equal(a, b); }

 private:
  [[nodiscard]] T* in_place() noexcept { return reinterpret_cast<T*>(place_); }
  [[nodiscard]] bool is_in_place() const noexcept { return static_cast<const void*>(data_) == place_; }
  static void copy_to(T* to, std::span<const T> from) {
    if (from.size() == 1) {  // what lists hold nearly always, and not worth a call
      *to = from[0];
    } else if (!from.empty()) {
      std::memcpy(static_cast<void*>(to), from.data(), from.size_bytes());
    }
  }
  void take(SmallVector& other) noexcept {
    if (other.is_in_place()) {
      copy_to(data_, other);  // fits: no storage is below N
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
