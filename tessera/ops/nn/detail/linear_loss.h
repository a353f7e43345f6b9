// Loss and gradients of a linear map, a few rows at a time. One buffer holds their logits: a product computes them,
// each row is used, and the next rows overwrite them. The gradient pass converts them in place to the gradients of the
// logits and multiplies these with x for the gradient of the weight, and with the weight for the gradient of x.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "tessera/ops/detail/rows_per_piece.h"
#include "tessera/ops/matrix/detail/gemm.h"
#include "tessera/ops/matrix/detail/product_library.h"
#include "tessera/ops/nn/detail/cross_entropy_rows.h"
#include "tessera/ops/nn/detail/loss_matrix.h"
#include "tessera/ops/parallel.h"

namespace tessera::ops::detail {

/// The operands of a call.
struct LinearLoss {
  explicit LinearLoss(const tensor::Call& call) : how(call) {}

  CrossEntropyRows how;
  LossMatrix x;
  Rows targets, loss, logsumexp;
  Rows grad, grad_logsumexp;  // inputs of the backward operator
  LossMatrix dx, dweight;     // set if gradients are computed
  GemmOperand weight;
  std::int64_t classes = 0;
  std::int64_t features = 0;

  [[nodiscard]] std::int64_t chunk() const { return rows_of_chunk(x.count(), classes); }
};

/// Returns the transposed operand.
inline GemmOperand transposed(GemmOperand of) {
  std::swap(of.row, of.col);
  return of;
}

/// Computes c = a b, or c += a b.
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

/// Calls body(first, count, x, logits) for each chunk, with x as products read it and its logits.
template <class T, class F>
void for_chunks(const LinearLoss& of, const F& body) {
  const std::int64_t rows = of.x.count();
  const std::int64_t chunk = of.chunk();
  const auto x_copy = of.x.room<T>(chunk);
  const auto logits = std::make_unique_for_overwrite<T[]>(static_cast<std::size_t>(chunk * of.classes));
  for (std::int64_t first = 0; first < rows; first += chunk) {
    const std::int64_t count = std::min(chunk, rows - first);
    const GemmOperand x = of.x.load(first, count, x_copy.get());
    multiply({count, of.classes, of.features}, x, transposed(of.weight), dense_operand(logits.get(), of.classes));
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

/// Writes the value of a row.
template <class T>
void put_value(const Rows& to, std::int64_t row, T value) {
  T one[1] = {value};
  *to.begin_write(row, one) = value;
  to.finish(row, one);
}

/// Computes the gradients of x and the weight from those of the logits, chunk by chunk. If x and the weight are bf16
/// and the processor multiplies bf16, rounds the gradients of the logits to bf16.
template <class T>
class LinearLossGradients {
 public:
  explicit LinearLossGradients(const LinearLoss& of)
      : of_(of), dx_(of.dx.room<T>(of.chunk())), is_dweight_in_place_(is_added_in_place(of.dweight)) {
    const auto items = [](std::int64_t rows, std::int64_t width) { return static_cast<std::size_t>(rows * width); };
    if (!is_dweight_in_place_) sums_ = std::make_unique_for_overwrite<T[]>(items(of.classes, of.features));
    if (of.x.is_in_place() && of.x.dtype() == DType::kBF16 && of.weight.dtype == DType::kBF16 && has_fast_bf16()) {
      rounded_ = std::make_unique_for_overwrite<bf16[]>(items(of.chunk(), of.classes));
    }
  }

  /// Takes the gradients of the logits of a row; `at` is its index in the chunk. Calls may be concurrent.
  void take_row(std::int64_t at, const T* gradients) {
    if (!rounded_) return;
    store(gradients, reinterpret_cast<std::byte*>(rounded_.get() + at * of_.classes), DType::kBF16, 1, of_.classes);
  }
  /// Adds a chunk after all of its rows were taken.
  void add(std::int64_t first, std::int64_t count, const GemmOperand& x, T* gradients) {
    const GemmOperand of_logits =
        rounded_ ? dense_operand(rounded_.get(), of_.classes) : dense_operand(gradients, of_.classes);
    multiply({count, of_.features, of_.classes}, of_logits, of_.weight, of_.dx.begin(first, dx_.get()));
    if (dx_) of_.dx.store(first, count, dx_.get());
    multiply({of_.classes, of_.features, count}, transposed(of_logits), x, sums(), first > 0);
  }
  /// Completes the gradients after the last chunk.
  void finish() {
    const GemmOperand to = sums();
    if (of_.x.count() == 0) std::fill_n(reinterpret_cast<T*>(to.data), of_.classes * of_.features, T(0));
    if (sums_ && of_.features > 0) of_.dweight.store(0, of_.classes, sums_.get());
  }

 private:
  static bool is_added_in_place(const LossMatrix& dweight) {
    return dweight.is_in_place() && dweight.dtype() == ::tessera::dtype_of<T>();
  }
  [[nodiscard]] GemmOperand sums() const {
    return is_dweight_in_place_ ? of_.dweight.begin<T>(0, nullptr) : dense_operand(sums_.get(), of_.features);
  }

  const LinearLoss& of_;
  std::unique_ptr<T[]> dx_;
  bool is_dweight_in_place_;
  std::unique_ptr<T[]> sums_;
  std::unique_ptr<bf16[]> rounded_;
};

/// Computes the loss and the logsumexp of each row.
template <class T>
void compute_loss(const LinearLoss& of) {
  std::vector<double> losses(static_cast<std::size_t>(of.x.count()));
  for_chunks<T>(of, [&](std::int64_t first, std::int64_t count, const GemmOperand&, T* chunk) {
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

/// Computes both gradients from the gradient of the loss. Recomputes the logits.
template <class T>
void compute_gradients(const LinearLoss& of) {
  const T share = static_cast<T>(1 / of.how.divisor(of.targets));
  LinearLossGradients<T> gradients(of);
  for_chunks<T>(of, [&](std::int64_t first, std::int64_t count, const GemmOperand& x, T* chunk) {
    for_rows(of, first, count, chunk, [&](std::int64_t row, T* logits) {
      T one[3];
      const T by = *of.grad.read(of.how.is_reduced ? 0 : row, one) * share;
      const T by_all = of.grad_logsumexp.has_rows() ? *of.grad_logsumexp.read(row, one + 2) : T(0);
      of.how.gradient<T>(logits, of.classes, of.how.target(of.targets, row, of.classes),
                         *of.logsumexp.read(row, one + 1), by, by_all, logits);
      gradients.take_row(row - first, logits);
    });
    gradients.add(first, count, x, chunk);
  });
  gradients.finish();
}

/// Computes the loss and both gradients for a gradient of the loss of 1.
template <class T>
void compute_loss_and_gradients(const LinearLoss& of) {
  const T share = static_cast<T>(1 / of.how.divisor(of.targets));
  std::vector<double> losses(static_cast<std::size_t>(of.x.count()));
  LinearLossGradients<T> gradients(of);
  for_chunks<T>(of, [&](std::int64_t first, std::int64_t count, const GemmOperand& x, T* chunk) {
    for_rows(of, first, count, chunk, [&](std::int64_t row, T* logits) {
      T logsumexp = 0;
      const std::int64_t target = of.how.target(of.targets, row, of.classes);
      losses[static_cast<std::size_t>(row)] = of.how.loss(logits, of.classes, target, logsumexp);
      of.how.gradient<T>(logits, of.classes, target, logsumexp, share, T(0), logits);
      gradients.take_row(row - first, logits);
    });
    gradients.add(first, count, x, chunk);
  });
  gradients.finish();
  put_value(of.loss, 0, static_cast<T>(of.how.total(losses, of.targets)));
}

}  // namespace tessera::ops::detail
