// Blocks of one kind, sorted by size into bins with two levels of bitmaps: finding the first nonempty bin from a size
// on takes two word scans, for any number of blocks.
//
// Up to 256 KiB every multiple of 512 has a separate bin, so that the choice is the best fit. Above, there are 32 bins
// per doubling, and the best of the first few blocks of a bin is chosen. A block of the next bin up is at most a 16th
// larger than requested.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "tessera/memory/detail/block.h"
#include "tessera/memory/policy.h"

namespace tessera::memory::detail {

/// Not thread-safe: guarded by the lock of its heap.
class Bins {
 public:
  static constexpr std::size_t kExact = 512;  ///< bins of one size each
  static constexpr std::size_t kExactNbytes = kExact * kAlignment;
  static constexpr std::size_t kSteps = 32;  ///< bins per doubling above
  static constexpr std::size_t kDoublings = 42;
  static constexpr std::size_t kCount = kExact + kSteps * kDoublings;
  static constexpr std::size_t kWords = (kCount + 63) / 64;
  static_assert(kWords <= 64, "one summary word covers all");

  /// Returns the bin of a size, a multiple of 512 that is at least 512.
  static std::size_t bin_of(std::size_t nbytes) {
    if (nbytes <= kExactNbytes) return nbytes / kAlignment - 1;
    const int top = std::bit_width(nbytes) - 1;
    const std::size_t doubling = static_cast<std::size_t>(top) - (std::bit_width(kExactNbytes) - 1);
    const std::size_t step = (nbytes >> (top - 5)) - kSteps;
    return kExact + doubling * kSteps + step;
  }

  void insert(Block& block) {
    const std::size_t bin = bin_of(block.size);
    block.bin = static_cast<std::uint16_t>(bin);
    block.bin_prev = nullptr;
    block.bin_next = first_[bin];
    if (first_[bin] != nullptr) {
      first_[bin]->bin_prev = &block;
    } else {
      words_[bin / 64] |= std::uint64_t{1} << (bin % 64);
      summary_ |= std::uint64_t{1} << (bin / 64);
    }
    first_[bin] = &block;
  }

  void remove(Block& block) {
    if (block.bin_next != nullptr) block.bin_next->bin_prev = block.bin_prev;
    if (block.bin_prev != nullptr) {
      block.bin_prev->bin_next = block.bin_next;
    } else {
      const std::size_t bin = block.bin;
      first_[bin] = block.bin_next;
      if (first_[bin] == nullptr && (words_[bin / 64] &= ~(std::uint64_t{1} << (bin % 64))) == 0)
        summary_ &= ~(std::uint64_t{1} << (bin / 64));
    }
  }

  /// Returns the first nonempty bin from `bin` on; kCount if none.
  [[nodiscard]] std::size_t next(std::size_t bin) const {
    if (bin >= kCount) return kCount;
    const std::uint64_t here = words_[bin / 64] >> (bin % 64);
    if (here != 0) return bin + static_cast<std::size_t>(std::countr_zero(here));
    const std::size_t word = bin / 64 + 1;
    const std::uint64_t rest = word < 64 ? summary_ >> word : 0;
    if (rest == 0) return kCount;
    const std::size_t found = word + static_cast<std::size_t>(std::countr_zero(rest));
    return found * 64 + static_cast<std::size_t>(std::countr_zero(words_[found]));
  }
  [[nodiscard]] Block* first(std::size_t bin) const { return first_[bin]; }

  /// Returns a block of at least `nbytes`: the best fit, or nearly so among large ones.
  [[nodiscard]] Block* find(std::size_t nbytes) const {
    std::size_t bin = bin_of(nbytes);
    if (bin >= kExact) {
      // The bin of the size itself holds larger and smaller blocks.
      if (Block* best = best_of(bin, nbytes)) return best;
      ++bin;
    }
    bin = next(bin);
    if (bin == kCount) return nullptr;
    return bin < kExact ? first_[bin] : best_of(bin, nbytes);
  }

  /// Calls `take(block)` for blocks of at least `nbytes`, best first, until it returns true or `most` were tried.
  template <class Take>
  Block* find_if(std::size_t nbytes, int most, const Take& take) const {
    for (std::size_t bin = next(bin_of(nbytes)); bin < kCount; bin = next(bin + 1)) {
      for (Block* block = first_[bin]; block != nullptr; block = block->bin_next) {
        if (block->size < nbytes) continue;
        if (take(*block)) return block;
        if (--most == 0) return nullptr;
      }
    }
    return nullptr;
  }

 private:
  [[nodiscard]] Block* best_of(std::size_t bin, std::size_t nbytes) const {
    Block* best = nullptr;
    int left = 8;
    for (Block* block = first_[bin]; block != nullptr && left > 0; block = block->bin_next, --left) {
      if (block->size >= nbytes && (best == nullptr || block->size < best->size)) best = block;
    }
    return best;
  }

  std::uint64_t summary_ = 0;
  std::array<std::uint64_t, kWords> words_{};
  std::array<Block*, kCount> first_{};
};

}  // namespace tessera::memory::detail
