// Common code of the forward and backward pass of attention: sequences and masks of a call, and rows of its operands as
// the kernels read them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

#include "tessera/ops/nn/detail/attention_kernels.h"
#include "tessera/ops/nn/detail/attention_tiles.h"

namespace tessera::ops::detail {

/// Keys per step of the kernels: the probabilities of a panel stay in a near cache.
inline constexpr std::int64_t kAttentionKeyBlock = 128;

/// One sequence of one batch: its start and length.
struct AttentionSequence {
  std::int64_t batch, first_query, queries, first_key, keys;
};

/// Keys in [begin, end).
struct Interval {
  std::int64_t begin, end;
};

/// The keys that a query of a sequence attends to. Both bounds never decrease from query to query.
class KeyMask {
 public:
  /// Creates the mask for the queries of `sequence`.
  KeyMask(const AttentionBias& bias, const AttentionSequence& sequence)
      : shift_(bias.is_bottom_right ? sequence.keys - sequence.queries : 0),
        left_(bias.window_left),
        right_(bias.is_causal ? 0 : bias.window_right),
        keys_(sequence.keys) {}
  /// Returns the keys of one query.
  [[nodiscard]] Interval keys_of(std::int64_t query) const {
    const std::int64_t place = query + shift_;
    const std::int64_t end = right_ < 0 ? keys_ : std::clamp<std::int64_t>(place + right_ + 1, 0, keys_);
    const std::int64_t begin = left_ < 0 ? 0 : std::clamp<std::int64_t>(place - left_, 0, end);
    return {begin, end};
  }
  /// Returns the keys of queries [first, last]: from the begin of the first to the end of the last.
  [[nodiscard]] Interval keys_of(std::int64_t first, std::int64_t last) const {
    return {keys_of(first).begin, keys_of(last).end};
  }

 private:
  std::int64_t shift_, left_, right_, keys_;
};

/// Returns the sequences of a call: those of its offsets, or one per batch.
std::vector<AttentionSequence> sequences_of(const AttentionCall& call);

/// Returns the least multiple of `step` that is not less than `count`.
inline std::int64_t round_up(std::int64_t count, std::int64_t step) { return (count + step - 1) / step * step; }

/// Returns the width of rows that are read in full vectors.
template <class T>
std::int64_t padded_width(std::int64_t width) {
  return round_up(std::max<std::int64_t>(width, 1), attention_kernels<T>().lanes);
}

/// Memory for one chunk of a loop, written before it is read. Parts start at cache lines.
template <class T>
class AttentionMemory {
 public:
  /// Allocates parts of these sizes.
  explicit AttentionMemory(std::initializer_list<std::int64_t> sizes) {
    std::size_t room = kLine;
    for (const std::int64_t size : sizes) room += static_cast<std::size_t>(round_up(size, kLine));
    memory_ = std::make_unique_for_overwrite<T[]>(room);
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.get());
    next_ = memory_.get() + (kLine - address / sizeof(T) % kLine);
  }
  /// Returns the next part.
  T* take(std::int64_t size) { return std::exchange(next_, next_ + round_up(size, kLine)); }

 private:
  static constexpr std::int64_t kLine = 64 / static_cast<std::int64_t>(sizeof(T));
  std::unique_ptr<T[]> memory_;
  T* next_;
};

/// Returns the address of a row of one head.
inline std::byte* row_address(const AttentionOperand& of, std::int64_t batch, std::int64_t head, std::int64_t row) {
  return of.data + (batch * of.batch + head * of.head + row * of.row) * static_cast<std::int64_t>(itemsize(of.dtype));
}

/// Returns `count` rows of one head with zeros from `width` to `room`: in place, or loaded into scratch.
template <class T>
AttentionRows<const T> read_head_rows(const AttentionOperand& of, std::int64_t batch, std::int64_t head,
                                      std::int64_t first, std::int64_t count, std::int64_t width, std::int64_t room,
                                      T* scratch) {
  if (of.dtype == ::tessera::dtype_of<T>() && of.col == 1 && width == room) {
    return {reinterpret_cast<const T*>(row_address(of, batch, head, first)), of.row};
  }
  for (std::int64_t i = 0; i < count; ++i) {
    load(scratch + i * room, row_address(of, batch, head, first + i), of.dtype, of.col, width);
    std::fill(scratch + i * room + width, scratch + (i + 1) * room, T(0));
  }
  return {scratch, room};
}

/// Stores `count` rows of one head.
template <class T>
void store_head_rows(const AttentionOperand& to, std::int64_t batch, std::int64_t head, std::int64_t first,
                     std::int64_t count, std::int64_t width, const T* from, std::int64_t stride) {
  if (to.col == 1 && to.row == width && stride == width) {
    return store(from, row_address(to, batch, head, first), to.dtype, 1, count * width);
  }
  for (std::int64_t i = 0; i < count; ++i) {
    store(from + i * stride, row_address(to, batch, head, first + i), to.dtype, to.col, width);
  }
}

/// Returns the factor of scores.
inline double scale_of(const AttentionCall& call) {
  return call.bias.scale != 0 ? call.bias.scale : 1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(call.d, 1)));
}

/// Returns the number of query heads that share one head of keys.
inline std::int64_t group_of(const AttentionCall& call) { return call.kv_heads > 0 ? call.heads / call.kv_heads : 1; }

/// Returns the keys of the queries of a panel.
inline PanelMask panel_mask(const KeyMask& mask, std::int64_t first, std::int64_t queries, std::int64_t panel) {
  PanelMask of;
  for (std::int64_t i = 0; i < panel; ++i) {
    const Interval keys = mask.keys_of(first + std::min(i, queries - 1));
    of.begin[i] = keys.begin;
    of.end[i] = keys.end;
  }
  of.block = 0;
  return of;
}

}  // namespace tessera::ops::detail
