#include "tessera/base/probe/state_table.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "tessera/base/probe/layout.h"

namespace tessera::probe::detail {
namespace {

static_assert(kRowHeadBytes == kHeadWords * 8);

std::uint64_t get(const std::uint64_t& word, std::memory_order order = std::memory_order_relaxed) {
  return std::atomic_ref<const std::uint64_t>(word).load(order);
}
void put(std::uint64_t& word, std::uint64_t value) {
  std::atomic_ref<std::uint64_t>(word).store(value, std::memory_order_release);
}

}  // namespace

std::uint64_t row_check(const std::uint64_t* words, std::size_t payload_words, std::uint64_t lock,
                        std::uint64_t place) {
  std::uint64_t copy[1 + kMaxRowPayload / 8];
  copy[0] = get(words[1]);
  for (std::size_t i = 0; i < payload_words; ++i) copy[1 + i] = get(words[kHeadWords + i]);
  return words_check(copy, 1 + payload_words, place ^ lock << 8);
}

TableCore::TableCore(std::byte* rows, std::uint32_t count, std::uint32_t row_bytes, std::uint16_t payload_bytes,
                     std::uint32_t number, ClockSource clock, std::uint64_t* refused)
    : rows_(rows),
      count_(count),
      row_bytes_(row_bytes),
      payload_bytes_(payload_bytes),
      number_(number),
      clock_(clock),
      refused_(refused),
      free_(count > 0 ? 0 : kNoRow),
      next_(count) {
  for (std::uint32_t i = 0; i < count; ++i) next_[i].store(i + 1 < count ? i + 1 : kNoRow, std::memory_order_relaxed);
}

// The head of the stack counts pops, so that a row popped and pushed back
// between the load and the exchange is detected.
std::uint32_t TableCore::pop_free() {
  std::uint64_t head = free_.load(std::memory_order_acquire);
  while (true) {
    const auto row = static_cast<std::uint32_t>(head);
    if (row == kNoRow) return kNoRow;
    const std::uint64_t after = ((head >> 32) + 1) << 32 | next_[row].load(std::memory_order_relaxed);
    if (free_.compare_exchange_weak(head, after, std::memory_order_acquire)) return row;
  }
}

void TableCore::push_free(std::uint32_t row) {
  std::uint64_t head = free_.load(std::memory_order_relaxed);
  do {
    next_[row].store(static_cast<std::uint32_t>(head), std::memory_order_relaxed);
  } while (!free_.compare_exchange_weak(head, (head >> 32) << 32 | row, std::memory_order_release));
}

std::uint64_t TableCore::lock(std::uint64_t* words) {
  std::atomic_ref<std::uint64_t> word(words[0]);
  for (int spins = 0;; ++spins) {
    std::uint64_t seen = word.load(std::memory_order_relaxed);
    if ((seen & 1) == 0 && word.compare_exchange_weak(seen, seen + 1, std::memory_order_acquire)) return seen + 1;
    if (spins > 100) std::this_thread::yield();  // its holder has been descheduled
  }
}

void TableCore::unlock(std::uint64_t* words, std::uint32_t row, std::uint64_t locked) {
  put(words[2], row_check(words, (payload_bytes_ + 7U) / 8, locked + 1, slot_place(number_, row)));
  put(words[0], locked + 1);
}

void TableCore::put_payload(std::uint64_t* words, const void* payload) {
  const auto* from = static_cast<const std::byte*>(payload);
  for (std::size_t at = 0; at < payload_bytes_; at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, from + at, std::min<std::size_t>(8, payload_bytes_ - at));
    put(words[kHeadWords + at / 8], word);
  }
}

std::uint32_t TableCore::claim(const void* payload) {
  const std::uint32_t row = pop_free();
  if (row == kNoRow) {
    std::atomic_ref<std::uint64_t>(*refused_).fetch_add(1, std::memory_order_relaxed);
    return kNoRow;
  }
  std::uint64_t* words = row_words(row);
  const std::uint64_t locked = lock(words);
  put(words[1], read_ticks(clock_));
  put_payload(words, payload);
  unlock(words, row, locked);
  return row;
}

void TableCore::load(std::uint32_t row, void* payload) const {
  const std::uint64_t* words = row_words(row);
  std::uint64_t copy[kMaxRowPayload / 8];
  const std::size_t count = (payload_bytes_ + 7U) / 8;
  while (true) {
    const std::uint64_t before = get(words[0], std::memory_order_acquire);
    for (std::size_t i = 0; i < count; ++i) copy[i] = get(words[kHeadWords + i], std::memory_order_acquire);
    if ((before & 1) == 0 && get(words[0]) == before) break;
    std::this_thread::yield();
  }
  std::memcpy(payload, copy, payload_bytes_);
}

void TableCore::change(std::uint32_t row, void (*edit)(void* contents, void* context), void* context) {
  std::uint64_t* words = row_words(row);
  const std::uint64_t locked = lock(words);
  alignas(8) std::byte contents[kMaxRowPayload];
  for (std::size_t i = 0; i < (payload_bytes_ + 7U) / 8; ++i) {
    const std::uint64_t word = get(words[kHeadWords + i]);
    std::memcpy(contents + i * 8, &word, 8);
  }
  edit(contents, context);
  put_payload(words, contents);
  unlock(words, row, locked);
}

void TableCore::store(std::uint32_t row, const void* payload) {
  std::uint64_t* words = row_words(row);
  const std::uint64_t locked = lock(words);
  put_payload(words, payload);
  unlock(words, row, locked);
}

void TableCore::release(std::uint32_t row) {
  std::uint64_t* words = row_words(row);
  const std::uint64_t locked = lock(words);
  put(words[1], 0);
  put(words[0], locked + 1);  // no reader checks a free row
  push_free(row);
}

}  // namespace tessera::probe::detail
