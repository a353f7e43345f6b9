// The arithmetic of attention on one panel of queries and one block of keys. The vector code is compiled for each
// vector width and selected for the processor.
//
// A panel is `panel` adjacent queries. Scores are stored key by key, each key a row of `panel` lanes, so that maxima
// and sums over keys need no sums over lanes. Products keep a register tile: one operand is read in place one number at
// a time, the other in full vectors.
//
//   scores  s[key, query] = k[key, :] q_columns[:, query]      results  out[query, :] = sum of p[key, query] v[key, :]
//
// Invariant: the bits of a result depend on the operands, the position of a block and the processor, not on threads.
#pragma once

#include <cstdint>

namespace tessera::ops::detail {

/// Rows of numbers, `stride` apart.
template <class T>
struct AttentionRows {
  T* data = nullptr;
  std::int64_t stride = 0;
};

/// Maximum number of queries of a panel, for any vector width.
inline constexpr std::int64_t kMaxPanel = 64;

/// Keys that each query of a panel attends to. Both bounds never decrease from query to query; queries beyond the end
/// of the panel repeat the last one.
struct PanelMask {
  std::int64_t begin[kMaxPanel];  ///< the first key
  std::int64_t end[kMaxPanel];    ///< the key after the last
  std::int64_t block;             ///< the first key of the block
  /// Returns the row of the block with the first key of query i; may be outside the block.
  [[nodiscard]] std::int64_t begin_of(std::int64_t i) const { return begin[i] - block; }
  /// Returns the row after the last key of query i; may be outside the block.
  [[nodiscard]] std::int64_t end_of(std::int64_t i) const { return end[i] - block; }
};

/// Intermediate results of a panel.
template <class T>
struct PanelState {
  T* out;   ///< [panel, e_padded], not yet divided by the sums
  T* most;  ///< [panel], the greatest score, in units of `score_unit`
  T* sum;   ///< [panel], sum of exponentials
};

/// One step of the forward pass.
template <class T>
struct ForwardStep {
  std::int64_t queries, keys;  ///< in the panel and in the block
  std::int64_t d;              ///< width of q and k
  std::int64_t e_padded;       ///< width of v, a multiple of `lanes`
  const PanelMask* mask;
  const T* q_columns;  ///< [d, panel], times scale and score_unit
  AttentionRows<const T> k, v;
  PanelState<T> state;
  bool is_first;  ///< the state is not initialized yet
  T* p;           ///< [keys rounded up to `rows`, panel], overwritten
};

/// One step of the backward pass. Gradients are accumulated.
template <class T>
struct BackwardStep {
  std::int64_t queries, keys;       ///< sizes of the panel and of the block
  std::int64_t d, e;                ///< widths of q and k, and of v
  std::int64_t d_padded, e_padded;  ///< multiples of `lanes`
  const PanelMask* mask;
  const T* q_columns;              ///< [d, panel], times scale and score_unit
  const T* grad_columns;           ///< [e, panel]
  AttentionRows<const T> q, grad;  ///< rows of d_padded and e_padded
  const T* logsumexp;              ///< [panel], times score_unit; infinity for a query without keys
  const T* delta;                  ///< [panel], dot product of result and gradient
  AttentionRows<const T> k, v;
  T* dq;      ///< [panel, d_padded], not yet scaled
  T* dk;      ///< [keys rounded up to `rows`, d_padded], not yet scaled
  T* dv;      ///< [keys rounded up to `rows`, e_padded]
  T *p, *ds;  ///< [keys rounded up to `rows`, panel], overwritten
};

/// The kernels for one vector width.
template <class T>
struct AttentionKernels {
  std::int64_t lanes;  ///< lanes of a vector
  std::int64_t panel;  ///< queries of a panel
  std::int64_t rows;   ///< rows of a register tile
  double score_unit;   ///< factor of scores: exponentials are to the base e^(1 / score_unit)
  /// Sets columns[c, i] = by * rows[i, c] for i < count, and 0 for the other queries of the panel.
  void (*pack_columns)(AttentionRows<const T> rows, std::int64_t count, std::int64_t width, T by, T* columns);
  /// Runs a ForwardStep.
  void (*forward)(const ForwardStep<T>& step);
  /// Converts sums to results: divides `out` by the sums and sets `most` to the logsumexp; -infinity if a query has no
  /// keys.
  void (*finish)(const PanelState<T>& state, std::int64_t queries, std::int64_t e_padded);
  /// Runs a BackwardStep.
  void (*backward)(const BackwardStep<T>& step);
};

/// Returns the kernels for this processor.
template <class T>
const AttentionKernels<T>& attention_kernels();
template <>
const AttentionKernels<float>& attention_kernels<float>();
template <>
const AttentionKernels<double>& attention_kernels<double>();

}  // namespace tessera::ops::detail
