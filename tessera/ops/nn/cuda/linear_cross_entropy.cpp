// linear_cross_entropy on CUDA, and its gradients, a few rows at a time as on the host (nn/detail/linear_loss.h).
//
// Logits are f32 (f64 for f64). The gradients of the logits have the dtype of x if it is bf16, otherwise that of the
// logits; f16 would lose the gradients of rare classes, so that its operands are widened. Gradients of the weight are
// added in f32 over the chunks and rounded once.
#include <algorithm>
#include <vector>

#include "tessera/ops/matrix/cuda/lt_gemm.h"
#include "tessera/ops/nn/cuda/cross_entropy.h"
#include "tessera/ops/nn/detail/cross_entropy_rows.h"
#include "tessera/ops/nn/detail/loss_chunks.h"

namespace tessera::ops::cuda {
namespace {

using tensor::KernelCall;

// The gradients that a call computes, and the values that its losses depend on.
struct Results {
  const Tensor* dx = nullptr;
  const Tensor* dweight = nullptr;
  DeviceRows grad = {}, grad_logsumexp = {};  // absent: 1 and none
};

class LinearLoss {
 public:
  // `at` is the index of x among the inputs; the weight and the targets follow.
  LinearLoss(const KernelCall& call, std::size_t at)
      : call_(call),
        rows_(call.inputs[at + 2].numel()),
        classes_(call.inputs[at + 1].size(0)),
        features_(call.inputs[at + 1].size(1)),
        chunk_(detail::loss_chunk_rows(rows_, classes_)),
        computed_(detail::loss_logits_dtype(call.inputs[at].dtype())),
        operand_(detail::loss_operand_dtype(call.inputs[at].dtype())),
        how_(loss_parameters(call, classes_)),
        targets_(rows_of(call, call.inputs[at + 2], kNoDim)) {
    x_ = rows_of(call, call.inputs[at], call.inputs[at].ndim() - 1);
    is_x_in_place_ = is_dense(x_);
    if (!is_x_in_place_) x_copy_ = dense(chunk_, features_, operand_);
    weight_ = rows_of(call, call.inputs[at + 1], 1);
    if (!is_dense(weight_)) {
      const DeviceRows copy = dense(classes_, features_, operand_);
      launch_copy(call, weight_, copy, {.count = classes_});
      weight_ = copy;
    }
    logits_ = aligned(computed_);
  }

  void compute_loss(const DeviceRows& loss, const DeviceRows& logsumexp) {
    LossForward of = forward_of(loss, logsumexp);
    for_chunks([&](std::int64_t, const DeviceRows&, const DeviceRows& logits) {
      of.how = how_;
      of.logits = logits;
      launch_losses(call_, of);
    });
    finish_loss(of, loss);
  }

  void compute_gradients(const DeviceRows& logsumexp, const Results& to) {
    LossBackward of = backward_of(logsumexp, to);
    begin_gradients(to);
    for_chunks([&](std::int64_t first, const DeviceRows& x, const DeviceRows& logits) {
      add_gradients(first, x, logits, of);
    });
    finish_gradients(to);
  }

  void compute_loss_and_gradients(const DeviceRows& loss, const Results& to) {
    const DeviceRows logsumexp = dense(rows_, 1, computed_);
    LossForward losses = forward_of(loss, logsumexp);
    LossBackward of = backward_of(logsumexp, to);
    begin_gradients(to);
    for_chunks([&](std::int64_t first, const DeviceRows& x, const DeviceRows& logits) {
      losses.how = how_;
      losses.logits = logits;
      launch_losses(call_, losses);
      add_gradients(first, x, logits, of);
    });
    finish_gradients(to);
    finish_loss(losses, loss);
  }

 private:
  [[nodiscard]] std::byte* memory(std::int64_t numel, DType dtype) {
    held_.push_back(scratch(call_, static_cast<std::size_t>(numel) * itemsize(dtype)));
    return held_.back().data();
  }
  [[nodiscard]] DeviceRows dense(std::int64_t rows, std::int64_t width, DType dtype) {
    return dense_rows(memory(rows * width, dtype), dtype, rows, width);
  }
  // Returns room for the logits of a chunk.
  [[nodiscard]] DeviceRows aligned(DType dtype) {
    DeviceRows rows = dense(chunk_, detail::loss_row_stride(classes_), dtype);
    rows.length = classes_;
    return rows;
  }
  // Returns the distance between rows.
  [[nodiscard]] static std::int64_t stride_of(const DeviceRows& rows) {
    return rows.ndim == 0 ? rows.length : rows.strides[0];
  }
  // Returns true if products read or write the rows in place.
  [[nodiscard]] bool is_dense(const DeviceRows& rows) const {
    return rows.dtype == operand_ && rows.step == 1 &&
           (rows.ndim == 0 || (rows.ndim == 1 && rows.strides[0] == rows.length));
  }
  // Returns the rows [first, first + count) of rows with one stride.
  [[nodiscard]] static DeviceRows slice_of(const DeviceRows& rows, std::int64_t first, std::int64_t count) {
    const std::int64_t item = static_cast<std::int64_t>(itemsize(rows.dtype));
    std::byte* const data = rows.data == nullptr ? nullptr : rows.data + first * stride_of(rows) * item;
    DeviceRows some = dense_rows(data, rows.dtype, count, rows.length);
    some.strides[0] = stride_of(rows);
    return some;
  }

  // c = a b, or c += a b, of row-major matrices. Each factor may be transposed.
  void multiply(std::int64_t m, std::int64_t n, std::int64_t k, const DeviceRows& a, bool is_a_transposed,
                const DeviceRows& b, bool is_b_transposed, const DeviceRows& c, bool is_added = false) const {
    if (m == 0 || n == 0) return;
    if (k == 0) {
      if (!is_added) launch_copy(call_, {}, c, {.count = c.count});
      return;
    }
    LtProduct product;  // column-major: the transposed product
    product.m = n;
    product.n = m;
    product.k = k;
    product.dtype = operand_;
    product.a = {b.data, stride_of(b), 0, is_b_transposed};
    product.b = {a.data, stride_of(a), 0, is_a_transposed};
    product.c = {c.data, stride_of(c), 0, false};
    product.c_dtype = c.dtype;
    product.is_added = is_added;
    launch_lt_gemm(call_, product);
  }

  // Calls body(first, x, logits) for each chunk of rows.
  template <class F>
  void for_chunks(const F& body) {
    for (std::int64_t first = 0; first < rows_; first += chunk_) {
      const std::int64_t count = std::min(chunk_, rows_ - first);
      how_.first = first;
      const DeviceRows x = is_x_in_place_ ? slice_of(x_, first, count) : slice_of(x_copy_, 0, count);
      if (!is_x_in_place_) launch_copy(call_, x_, x, {.from = first, .count = count});
      const DeviceRows logits = slice_of(logits_, 0, count);
      multiply(count, classes_, features_, x, false, weight_, true, logits);
      body(first, x, logits);
    }
  }

  [[nodiscard]] LossForward forward_of(const DeviceRows& loss, const DeviceRows& logsumexp) {
    LossForward of;
    of.targets = targets_;
    of.logsumexp = logsumexp;
    if (is_reduced()) {
      of.losses = reinterpret_cast<double*>(memory(rows_, DType::kF64));
    } else {
      of.loss = loss;
    }
    return of;
  }
  void finish_loss(const LossForward& of, const DeviceRows& loss) const {
    if (is_reduced()) launch_total(call_, of.losses, targets_, how_, loss);
  }

  [[nodiscard]] LossBackward backward_of(const DeviceRows& logsumexp, const Results& to) {
    LossBackward of;
    of.targets = targets_;
    of.logsumexp = logsumexp;
    of.grad = to.grad;
    of.grad_logsumexp = to.grad_logsumexp;
    of.is_reduced = is_reduced();
    held_.push_back(launch_divisor(call_, targets_, how_));
    of.divisor = reinterpret_cast<const double*>(held_.back().data());
    return of;
  }
  void begin_gradients(const Results& to) {
    dx_ = rows_of(call_, *to.dx, to.dx->ndim() - 1);
    is_dx_in_place_ = is_dense(dx_);
    if (!is_dx_in_place_) dx_copy_ = dense(chunk_, features_, operand_);
    dweight_ = rows_of(call_, *to.dweight, 1);
    if (!is_dense(dweight_) || dweight_.dtype != computed_) dweight_ = dense(classes_, features_, computed_);
    of_logits_ = operand_ == computed_ ? logits_ : aligned(operand_);
  }
  void add_gradients(std::int64_t first, const DeviceRows& x, const DeviceRows& logits, LossBackward& of) const {
    of.how = how_;
    of.logits = logits;
    of.dx = slice_of(of_logits_, 0, logits.count);
    launch_loss_gradients(call_, of);
    const DeviceRows dx = is_dx_in_place_ ? slice_of(dx_, first, x.count) : slice_of(dx_copy_, 0, x.count);
    multiply(x.count, features_, classes_, of.dx, false, weight_, false, dx);
    if (!is_dx_in_place_) launch_copy(call_, dx, dx_, {.to = first, .count = dx.count});
    multiply(classes_, features_, x.count, of.dx, true, x, false, dweight_, first > 0);
  }
  void finish_gradients(const Results& to) const {
    if (rows_ == 0) launch_copy(call_, {}, dweight_, {.count = classes_});
    const DeviceRows target = rows_of(call_, *to.dweight, 1);
    if (target.data != dweight_.data) launch_copy(call_, dweight_, target, {.count = classes_});
  }

  [[nodiscard]] bool is_reduced() const { return call_.as<CrossEntropyAttributes>().reduction != "none"; }

  const KernelCall& call_;
  std::vector<memory::Buffer> held_;  // freed after everything is enqueued
  std::int64_t rows_, classes_, features_, chunk_;
  DType computed_;  // of logits
  DType operand_;   // of the operands of products
  LossParameters how_;
  DeviceRows targets_, x_, x_copy_, weight_, logits_;
  DeviceRows dx_, dx_copy_, dweight_, of_logits_;
  bool is_x_in_place_ = true;
  bool is_dx_in_place_ = true;
};

void forward(const KernelCall& call) {
  LinearLoss(call, 0).compute_loss(rows_of(call, call.outputs[0], kNoDim), rows_of(call, call.outputs[1], kNoDim));
}

void backward(const KernelCall& call) {
  LinearLoss(call, 1).compute_gradients(rows_of(call, call.inputs[4], kNoDim),
                                        {.dx = &call.outputs[0],
                                         .dweight = &call.outputs[1],
                                         .grad = rows_of(call, call.inputs[0], kNoDim),
                                         .grad_logsumexp = rows_of(call, call.inputs[5], kNoDim)});
}

void with_gradients(const KernelCall& call) {
  LinearLoss(call, 0).compute_loss_and_gradients(rows_of(call, call.outputs[0], kNoDim),
                                                 {.dx = &call.outputs[1], .dweight = &call.outputs[2]});
}

const tensor::KernelRegistration kLinearCrossEntropy("linear_cross_entropy", "cuda", forward);
const tensor::KernelRegistration kLinearCrossEntropyBackward("linear_cross_entropy_backward", "cuda", backward);
const tensor::KernelRegistration kWithGradients("linear_cross_entropy_with_gradients", "cuda", with_gradients);

}  // namespace
}  // namespace tessera::ops::cuda
