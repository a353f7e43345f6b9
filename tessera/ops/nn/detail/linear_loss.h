// Loss and gradients behind a linear map, a few rows at a time. Their logits live in one buffer: made by a product,
// used row by row, and overwritten by the next rows. Gradients turn them into their own gradients in place and multiply
// those on: with x into the weight's, with the weight into x's.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "tessera/ops/detail/parallel.h"
#include "tessera/ops/detail/rows_per_piece.h"
#include "tessera/ops/matrix/detail/gemm.h"
#include "tessera/ops/nn/detail/cross_entropy_rows.h"

namespace tessera::ops::detail {

/// A matrix of rows, as products read and write it: where it lies, or a dense copy of a few of its rows.
struct LossMatrix {
  Rows rows;
  std::byte* in_place = nullptr;  // null: it does not lie dense in the compute type
  std::int64_t width = 0;

  LossMatrix() = default;
  LossMatrix(const Tensor& tensor, DType compute)
      : rows(tensor, tensor.ndim() - 1),
        in_place(tensor.is_contiguous() && tensor.dtype() == compute ? tensor.data() : nullptr),
        width(tensor.size(-1)) {}

  // Room for a copy of `count` rows; none where they are used in place.
  template <class T>
  [[nodiscard]] std::unique_ptr<T[]> room(std::int64_t count) const {
    return in_place != nullptr ? nullptr : std::make_unique_for_overwrite<T[]>(static_cast<std::size_t>(count * width));
  }
  template <class T>
  T* begin(std::int64_t first, T* copy) const {
    return in_place != nullptr ? reinterpret_cast<T*>(in_place) + first * width : copy;
  }
  template <class T>
  T* load(std::int64_t first, std::int64_t count, T* copy) const {
    T* to = begin(first, copy);
    if (in_place != nullptr) return to;
    for (std::int64_t i = 0; i < count; ++i) {
      const T* from = rows.read(first + i, to + i * width);
      if (from != to + i * width) std::copy_n(from, width, to + i * width);
    }
    return to;
  }
  template <class T>
  void store(std::int64_t first, std::int64_t count, T* copy) const {
    if (in_place != nullptr) return;
    for (std::int64_t i = 0; i < count; ++i) {
      T* from = copy + i * width;
      T* to = rows.begin_write(first + i, from);
      if (to != from) std::copy_n(from, width, to);
      rows.finish(first + i, from);
    }
  }
};

/// The operands of a call.
struct LinearLoss {
  explicit LinearLoss(const tensor::Call& call) : how(call) {}

  CrossEntropyRows how;
  LossMatrix x;
  Rows targets, loss, logsumexp;
  Rows grad, grad_logsumexp;  // of the backward operator
  LossMatrix dx, dweight;     // where gradients are computed
  GemmOperand weight;
  std::int64_t classes = 0;
  std::int64_t features = 0;

  // Enough rows to keep a product busy, few enough that their logits are small (64 MiB in f32).
  [[nodiscard]] std::int64_t chunk() const {
    const std::int64_t most = (std::int64_t{1} << 24) / std::max<std::int64_t>(classes, 1);
    return std::min(std::clamp<std::int64_t>(most, 64, 2048), std::max<std::int64_t>(x.rows.count(), 1));
  }
};

/// A matrix that lies dense by rows.
template <class T>
GemmOperand dense_operand(T* data, std::int64_t width) {
  return {reinterpret_cast<std::byte*>(data), width, 1, ::tessera::dtype_of<T>()};
}

/// The same, read by columns.
inline GemmOperand transposed(GemmOperand of) {
  std::swap(of.row, of.col);
  return of;
}

/// c = a b, or c += a b.
inline void multiply(const GemmSizes& sizes, const GemmOperand& a, const GemmOperand& b, const GemmOperand& c,
                     bool is_added = false) {
  Gemm gemm;
  gemm.sizes = sizes;
  gemm.a = a;
  gemm.b = b;
  gemm.c = c;
  gemm.is_added = is_added;
  if (sizes.m > 0 && sizes.n > 0) run_gemm(gemm);
}

/// Calls body(first, count, x, logits) for each chunk: x dense, and its logits.
template <class T, class F>
void for_chunks(const LinearLoss& of, const F& body) {
  const std::int64_t rows = of.x.rows.count();
  const std::int64_t chunk = of.chunk();
  const auto x_copy = of.x.room<T>(chunk);
  const auto logits = std::make_unique_for_overwrite<T[]>(static_cast<std::size_t>(chunk * of.classes));
  for (std::int64_t first = 0; first < rows; first += chunk) {
    const std::int64_t count = std::min(chunk, rows - first);
    T* x = of.x.load(first, count, x_copy.get());
    multiply({count, of.classes, of.features}, dense_operand(x, of.features), transposed(of.weight),
             dense_operand(logits.get(), of.classes));
    body(first, count, x, logits.get());
  }
}

/// Calls body(row, logits of the row) for the rows of a chunk, on the threads of the rank.
template <class T, class F>
void for_rows(const LinearLoss& of, std::int64_t first, std::int64_t count, T* logits, const F& body) {
  parallel_for(count, rows_per_piece(of.classes), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) body(first + i, logits + i * of.classes);
  });
}

/// Writes the one value of a row.
template <class T>
void put_value(const Rows& to, std::int64_t row, T value) {
  T one[1] = {value};
  *to.begin_write(row, one) = value;
  to.finish(row, one);
}

/// Gradients of x and the weight from those of the logits, chunk by chunk.
template <class T>
class LinearLossGradients {
 public:
  explicit LinearLossGradients(const LinearLoss& of)
      : of_(of), dx_(of.dx.room<T>(of.chunk())), dweight_(of.dweight.room<T>(of.classes)) {}

  void add(std::int64_t first, std::int64_t count, T* x, T* logits) {
    const GemmOperand gradients = dense_operand(logits, of_.classes);
    T* dx = of_.dx.begin(first, dx_.get());
    multiply({count, of_.features, of_.classes}, gradients, of_.weight, dense_operand(dx, of_.features));
    of_.dx.store(first, count, dx);
    multiply({of_.classes, of_.features, count}, transposed(gradients), dense_operand(x, of_.features),
             dense_operand(of_.dweight.begin(0, dweight_.get()), of_.features), first > 0);
  }
  // No rows: the sum of nothing.
  void finish() {
    T* sums = of_.dweight.begin(0, dweight_.get());
    if (of_.x.rows.count() == 0) std::fill_n(sums, of_.classes * of_.features, T(0));
    if (of_.features > 0) of_.dweight.store(0, of_.classes, sums);
  }

 private:
  const LinearLoss& of_;
  std::unique_ptr<T[]> dx_;
  std::unique_ptr<T[]> dweight_;
};

/// The loss, and the logsumexp of each row.
template <class T>
void compute_loss(const LinearLoss& of) {
  std::vector<double> losses(static_cast<std::size_t>(of.x.rows.count()));
  for_chunks<T>(of, [&](std::int64_t first, std::int64_t count, T*, T* chunk) {
    for_rows(of, first, count, chunk, [&](std::int64_t row, T* logits) {
      T logsumexp = 0;
      const std::int64_t target = of.how.target(of.targets, row, of.classes);
      const double loss = of.how.loss(logits, of.classes, target, logsumexp);
      losses[static_cast<std::size_t>(row)] = loss;
      put_value(of.logsumexp, row, logsumexp);
      if (!of.how.is_reduced) put_value(of.loss, row, static_cast<T>(loss));
    });
  });
  if (of.how.is_reduced) put_value(of.loss, 0, static_cast<T>(of.how.total(losses, of.targets)));
}

/// Both gradients, from that of the loss; makes the logits again.
template <class T>
void compute_gradients(const LinearLoss& of) {
  const T share = static_cast<T>(1 / of.how.divisor(of.targets));
  LinearLossGradients<T> gradients(of);
  for_chunks<T>(of, [&](std::int64_t first, std::int64_t count, T* x, T* chunk) {
    for_rows(of, first, count, chunk, [&](std::int64_t row, T* logits) {
      T one[3];
      const T by = *of.grad.read(of.how.is_reduced ? 0 : row, one) * share;
      const T by_all = of.grad_logsumexp.has_rows() ? *of.grad_logsumexp.read(row, one + 2) : T(0);
      of.how.gradient<T>(logits, of.classes, of.how.target(of.targets, row, of.classes),
                         *of.logsumexp.read(row, one + 1), by, by_all, logits);
    });
    gradients.add(first, count, x, chunk);
  });
  gradients.finish();
}

/// The loss, and both gradients of a loss whose own gradient is 1.
template <class T>
void compute_loss_and_gradients(const LinearLoss& of) {
  const T share = static_cast<T>(1 / of.how.divisor(of.targets));
  std::vector<double> losses(static_cast<std::size_t>(of.x.rows.count()));
  LinearLossGradients<T> gradients(of);
  for_chunks<T>(of, [&](std::int64_t first, std::int64_t count, T* x, T* chunk) {
    for_rows(of, first, count, chunk, [&](std::int64_t row, T* logits) {
      T logsumexp = 0;
      const std::int64_t target = of.how.target(of.targets, row, of.classes);
      losses[static_cast<std::size_t>(row)] = of.how.loss(logits, of.classes, target, logsumexp);
      of.how.gradient<T>(logits, of.classes, target, logsumexp, share, T(0), logits);
    });
    gradients.add(first, count, x, chunk);
  });
  gradients.finish();
  put_value(of.loss, 0, static_cast<T>(of.how.total(losses, of.targets)));
}

}  // namespace tessera::ops::detail
