// State tables: current state in rows of a record file that are claimed, changed in place and released. Rings overwrite
// old records; a row stays until its owner releases it, even if the owner is killed.
//
//   struct InFlightRow {
//     std::uint64_t sequence;
//     probe::StringId operation;
//     static constexpr std::uint32_t kRows = 1024;
//     TESSERA_RECORD(InFlightRow, "in_flight", sequence, operation)
//   };
//   auto row = recorder.table<InFlightRow>().claim({7, name});
//   row.set(&InFlightRow::sequence, 8);
//   row.release();  // or let it go out of scope
//
// Each row has a lock word (odd during a write) and a check over its contents. Several threads may change one row, and
// a reader of a live, dead or copied file detects a half-written row.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/base/probe/schema.h"
#include "tessera/base/probe/slot.h"
#include "tessera/base/probe/tsc_clock.h"

namespace tessera::probe {

namespace detail {

inline constexpr std::uint32_t kNoRow = 0xffffffff;

/// A table as bytes. A lock-free stack outside the file holds the free rows.
class TESSERA_API TableCore {
 public:
  TableCore(std::byte* rows, std::uint32_t count, std::uint32_t row_bytes, std::uint16_t payload_bytes,
            std::uint32_t number, ClockSource clock, std::uint64_t* refused);

  std::uint32_t claim(const void* payload);
  void load(std::uint32_t row, void* payload) const;
  void store(std::uint32_t row, const void* payload);
  /// Same as store(), if only this thread writes the row: takes no lock and is inlined.
  template <std::size_t kWords>
  void store_alone(std::uint32_t row, const std::uint64_t (&payload)[kWords]);
  void release(std::uint32_t row);
  /// Locks the row, passes its contents to `edit(contents, context)`, and stores them.
  void change(std::uint32_t row, void (*edit)(void* contents, void* context), void* context);
  [[nodiscard]] std::uint32_t rows() const { return count_; }

 private:
  [[nodiscard]] std::uint64_t* row_words(std::uint32_t row) const {
    return reinterpret_cast<std::uint64_t*>(rows_ + std::size_t{row} * row_bytes_);
  }
  std::uint64_t lock(std::uint64_t* words);
  void put_payload(std::uint64_t* words, const void* payload);
  void unlock(std::uint64_t* words, std::uint32_t row, std::uint64_t locked);
  std::uint32_t pop_free();
  void push_free(std::uint32_t row);

  std::byte* rows_;
  std::uint32_t count_;
  std::uint32_t row_bytes_;
  std::uint16_t payload_bytes_;
  std::uint32_t number_;
  ClockSource clock_;
  std::uint64_t* refused_;
  std::atomic<std::uint64_t> free_;               // number of pops << 32 | first free row
  std::vector<std::atomic<std::uint32_t>> next_;  // of each free row
};

inline constexpr std::size_t kHeadWords = 3;  // lock, since, check

template <std::size_t kWords>
void TableCore::store_alone(std::uint32_t row, const std::uint64_t (&payload)[kWords]) {
  std::uint64_t* words = row_words(row);
  const auto put = [](std::uint64_t& word, std::uint64_t value) {
    std::atomic_ref<std::uint64_t>(word).store(value, std::memory_order_release);
  };
  const std::uint64_t since = words[1];
  const std::uint64_t lock = words[0] + 2;
  put(words[0], lock - 1);
#pragma GCC unroll 16
  for (std::size_t i = 0; i < kWords; ++i) put(words[kHeadWords + i], payload[i]);
  const auto checked = [&](std::size_t i) { return i == 0 ? since : payload[i - 1]; };
  put(words[2], words_check(checked, 1 + kWords, slot_place(number_, row) ^ lock << 8));
  put(words[0], lock);
}

}  // namespace detail

/// A struct that can be a row: a kind with a requested number of rows.
template <class T>
concept RowKind = Describable<T> && sizeof(T) <= 488 && alignof(T) <= 8 && requires {
  { T::kRows } -> std::convertible_to<std::uint32_t>;
};

/// A claimed row, released on destruction. Empty, and then without effect, if the table was full or recording is off.
/// Must not outlive its recorder. Thread-safe except for release().
template <RowKind T>
class Row {
 public:
  /// Constructs an empty row.
  Row() = default;
  /// Constructs a row for StateTable.
  Row(detail::TableCore* table, std::uint32_t index) : table_(table), index_(index) {}
  /// Takes over the row of `other`.
  Row(Row&& other) noexcept : table_(std::exchange(other.table_, nullptr)), index_(other.index_) {}
  /// Releases the current row and takes over that of `other`.
  Row& operator=(Row&& other) noexcept {
    if (this != &other) {
      release();
      table_ = std::exchange(other.table_, nullptr);
      index_ = other.index_;
    }
    return *this;
  }
  /// Releases the row.
  ~Row() { release(); }

  /// Returns true if the object holds a row.
  explicit operator bool() const { return table_ != nullptr; }
  /// Returns the index in the table.
  [[nodiscard]] std::uint32_t index() const { return index_; }
  /// Replaces the contents.
  void update(const T& contents) {
    if (table_ != nullptr) table_->store(index_, &contents);
  }
  /// Replaces the contents at half the cost. The caller ensures that no other thread writes the row at the same time.
  void put(const T& contents) {
    std::uint64_t words[kWords] = {};
    std::memcpy(words, &contents, sizeof contents);
    put_words(words);
  }
  /// Number of words of the contents.
  static constexpr std::size_t kWords = (sizeof(T) + 7) / 8;
  /// Same as put(), for contents given as words, which avoids a copy through memory.
  void put_words(const std::uint64_t (&words)[kWords]) {
    if (table_ != nullptr) table_->store_alone(index_, words);
  }
  /// Modifies the contents with `change(T&)`, which must not throw.
  template <class Change>
  requires std::is_invocable_v<Change&, T&>
  void update(Change change) {
    if (table_ == nullptr) return;
    table_->change(
        index_, [](void* contents, void* context) { (*static_cast<Change*>(context))(*static_cast<T*>(contents)); },
        &change);
  }
  /// Sets one field.
  template <class Field>
  void set(Field T::*field, const std::type_identity_t<Field>& value) {
    update([&](T& contents) { contents.*field = value; });
  }
  /// Returns the contents.
  [[nodiscard]] T get() const {
    T contents{};
    if (table_ != nullptr) table_->load(index_, &contents);
    return contents;
  }
  /// Leaves the row claimed, so that it stays in the file when the recorder ends.
  void leave() { table_ = nullptr; }
  /// Frees the row.
  void release() {
    if (table_ != nullptr) std::exchange(table_, nullptr)->release(index_);
  }

 private:
  detail::TableCore* table_ = nullptr;
  std::uint32_t index_ = detail::kNoRow;
};

/// A table of rows of one kind. A small value; thread-safe; must not outlive its recorder.
template <RowKind T>
class StateTable {
 public:
  /// Constructs a table for Recorder; null: a table without rows.
  explicit StateTable(detail::TableCore* core) : core_(core) {}
  /// Claims and fills a free row. Returns an empty Row if no row is free; the file counts these.
  [[nodiscard]] Row<T> claim(const T& contents = {}) {
    const std::uint32_t index = core_ != nullptr ? core_->claim(&contents) : detail::kNoRow;
    return index != detail::kNoRow ? Row<T>(core_, index) : Row<T>();
  }
  /// Returns the number of rows, claimed or free. May be less than T::kRows in a small file.
  [[nodiscard]] std::uint32_t rows() const { return core_ != nullptr ? core_->rows() : 0; }

 private:
  detail::TableCore* core_;
};

}  // namespace tessera::probe
