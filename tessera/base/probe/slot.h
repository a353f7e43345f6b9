// One record of a ring, and the protocol that prevents readers from mixing two records.
//
//    0        8        16                         24                                                   64
//   +--------+--------+------+--------+----------+----------------------------------------------------+
//   | check  | ticks  | kind | thread |   lap    |  payload: 5 words                                  |
//   | 64 bit | 64 bit |  16  |   16   |   32     |                                                    |
//   +--------+--------+------+--------+----------+----------------------------------------------------+
//
// A slot is one cache line. A writer stores complete words in this order:
//   1. check := kUnderWrite      no reader accepts the slot as a record
//   2. the seven other words
//   3. check := a 64-bit hash of the seven words and of the index of the slot in the file
// No thread waits for another. Other writers may lap a writer that is stopped between two stores and write the same
// slot; when it continues, its remaining words mix with theirs. No order of stores could prevent that, so the reader
// does not rely on order: it accepts a slot only if the hash matches all seven words. A mix of two records matches with
// probability 2^-63. The hash covers the index, so a record copied to another slot does not match either. Step 1 makes
// the usual case (one writer in the middle of a record) certain, and distinguishes it from a slot damaged by two
// writers.
//
// A slot that was never written is zero. If a writer slept before its first store and was lapped, its record is
// complete but late: its lap is older than that of its neighbors, and its ticks are correct.
#pragma once

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>

namespace tessera::probe::detail {

inline constexpr std::size_t kSlotWords = 8;
inline constexpr std::size_t kSlotBytes = 64;
inline constexpr std::size_t kPayloadWords = 5;
inline constexpr std::size_t kPayloadBytes = 40;
inline constexpr std::uint64_t kUnderWrite = 2;  // a finished check is odd

__extension__ typedef unsigned __int128 Wide;  // NOLINT(modernize-use-using): __extension__ takes no using

/// Combines both halves of the product; each bit of either factor affects all of the result.
inline std::uint64_t fold(std::uint64_t a, std::uint64_t b) {
  const Wide product = static_cast<Wide>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

/// Odd constants without pattern (hexadecimal digits of pi).
inline constexpr std::uint64_t kSalt[8] = {0x243f6a8885a308d3, 0x13198a2e03707345, 0xa4093822299f31d1,
                                           0x082efa98ec4e6c89, 0x452821e638d01377, 0xbe5466cf34e90c6d,
                                           0xc0ac29b7c97c50dd, 0x3f84d5b5b5470917};

/// Returns word 0 of a finished slot. `word` is the slot; word 0 is not read.
inline std::uint64_t slot_check(const std::uint64_t (&word)[kSlotWords], std::uint64_t place) {
  const std::uint64_t a = fold(word[1] ^ kSalt[0], word[2] ^ kSalt[1]);
  const std::uint64_t b = fold(word[3] ^ kSalt[2], word[4] ^ kSalt[3]);
  const std::uint64_t c = fold(word[5] ^ kSalt[4], word[6] ^ kSalt[5]);
  const std::uint64_t d = fold(word[7] ^ kSalt[6], place ^ kSalt[7]);
  return (a ^ b ^ c ^ d) | 1;
}

/// Returns the hash of any number of words, which `at` returns.
template <std::invocable<std::size_t> At>
inline std::uint64_t words_check(const At& at, std::size_t count, std::uint64_t place) {
  std::uint64_t sum = fold(place ^ kSalt[7], count ^ kSalt[6]);
#pragma GCC unroll 16
  for (std::size_t i = 0; i < count; i += 2) {  // the products are independent
    const std::uint64_t second = i + 1 < count ? at(i + 1) : 0;
    sum ^= fold(at(i) ^ (kSalt[0] + i * kSalt[1]), second ^ (kSalt[2] + i * kSalt[3]));
  }
  return sum | 1;
}
/// Returns the hash of consecutive words.
inline std::uint64_t words_check(const std::uint64_t* word, std::size_t count, std::uint64_t place) {
  return words_check([word](std::size_t i) { return word[i]; }, count, place);
}

inline std::uint64_t slot_place(std::uint64_t ring, std::uint64_t index) { return ring << 48 | index; }

inline std::uint64_t slot_head(std::uint64_t kind, std::uint64_t thread, std::uint64_t lap) {
  return kind | thread << 16 | lap << 32;
}

/// Stores one record. Release stores keep their order; on x86 they are free. `between(i)` runs before store i and after
/// the last: tests stop writers there; other callers pass an empty function.
template <class Between>
inline void store_slot(std::uint64_t* slot, const std::uint64_t (&word)[kSlotWords], std::uint64_t place,
                       Between&& between) {
  const auto put = [slot](std::size_t i, std::uint64_t value) {
    std::atomic_ref<std::uint64_t>(slot[i]).store(value, std::memory_order_release);
  };
  between(0);
  put(0, kUnderWrite);
#pragma GCC unroll 8
  for (std::size_t i = 1; i < kSlotWords; ++i) {
    between(static_cast<int>(i));
    put(i, word[i]);
  }
  between(static_cast<int>(kSlotWords));
  put(0, slot_check(word, place));
  between(static_cast<int>(kSlotWords) + 1);
}

}  // namespace tessera::probe::detail
