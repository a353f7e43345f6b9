// The operators of products on CUDA: mm, bmm, linear and contract, by cuBLASLt.
//
// Matrices are read and written where they lie, by rows or by columns; only one that has neither rows nor columns of
// neighbouring elements goes through a dense copy. The longest of the loops is a batch, the others are calls one after
// the other. cuBLASLt thinks in columns: a result by rows is its transpose by columns, so that operands change places.
#include <vector>

#include "tessera/ops/cuda/kernels.h"
#include "tessera/ops/matrix/cuda/gemm_strided.h"
#include "tessera/ops/matrix/cuda/lt_gemm.h"
#include "tessera/ops/matrix/detail/contraction.h"
#include "tessera/ops/matrix/matrix.h"

TESSERA_CUDA_IMAGE(gemm_strided);

namespace tessera::ops::cuda {
namespace {

using detail::ContractionLabels;
using detail::Gemm;
using detail::GemmLoop;
using detail::GemmOperand;
using tensor::KernelCall;

Image image(TESSERA_CUDA_BYTES(gemm_strided));
const Kernel move_kernel(image, "gemm_move_strided");
const Kernel integers_kernel(image, "gemm_integers");

void check_dims(const KernelCall& call, std::size_t count) {
  TESSERA_CHECK_AS(NotSupported, count <= kMostGemmDims, call.op.name(), ": ", count,
                   " dimensions that do not lie as one; cuda takes ", kMostGemmDims, ": make the operands contiguous");
}

// Dimensions of an operand, outermost first, beside those of a dense copy of it.
class Move {
 public:
  Move(const KernelCall& call, std::size_t itemsize) : call_(call) {
    move_.itemsize = static_cast<std::int32_t>(itemsize);
    move_.numel = 1;
  }
  void add(std::int64_t size, std::int64_t to_step, std::int64_t from_step) {
    check_dims(call_, static_cast<std::size_t>(move_.ndim) + 1);
    move_.sizes[move_.ndim] = size;
    move_.to_steps[move_.ndim] = to_step;
    move_.from_steps[move_.ndim++] = from_step;
    move_.numel *= size;
  }
  void launch(std::byte* to, const std::byte* from) {
    move_.to = to;
    move_.from = from;
    cuda::launch(call_, move_kernel, blocks_for(call_, move_.numel, kThreads), kThreads, move_);
  }

 private:
  const KernelCall& call_;
  StridedMove move_;
};

// Whether rows or columns lie as neighbours; steps along a single element are made what suits.
bool lies_dense(GemmOperand& of, std::int64_t rows, std::int64_t cols) {
  if (cols == 1) of.col = 1;
  if (rows == 1) of.row = of.col == 1 ? cols : 1;
  return (of.col == 1 && of.row >= cols) || (of.row == 1 && of.col >= rows);
}

LtMatrix lt_matrix(const GemmOperand& of, std::int64_t cols, std::int64_t batch_stride) {
  const bool by_rows = of.col == 1 && of.row >= cols;
  return {of.data, by_rows ? of.row : of.col, batch_stride, !by_rows};
}

// One product on its way: what had to be copied, and what is left to write back.
class Product {
 public:
  Product(const KernelCall& call, Gemm gemm) : call_(call), gemm_(std::move(gemm)) {}

  void run() {
    if (gemm_.sizes.k == 0) return write_zeros();
    if (!is_lt_dtype(gemm_.c.dtype)) return run_integers();
    const GemmOperand result = gemm_.c;
    const SmallVector<GemmLoop, 4> loops = gemm_.loops;
    const bool is_copied = !place_result();
    if (!gemm_.k_dims.empty() || !lies_dense(gemm_.a, gemm_.sizes.m, gemm_.sizes.k)) pack_left();
    if (!gemm_.k_dims.empty() || !lies_dense(gemm_.b, gemm_.sizes.k, gemm_.sizes.n)) pack_right();
    multiply();
    if (!is_copied) return;
    const std::byte* dense = gemm_.c.data;
    const std::size_t count = gemm_.loops.size();
    Move move(call_, itemsize(result.dtype));
    for (std::size_t i = 0; i < count; ++i) move.add(loops[i].size, loops[i].c, gemm_.loops[i].c);
    move.add(gemm_.sizes.m, result.row, gemm_.sizes.n);
    move.add(gemm_.sizes.n, result.col, 1);
    move.launch(result.data, dense);
  }

 private:
  // Where there is nothing to add up.
  void write_zeros() {
    Move move(call_, itemsize(gemm_.c.dtype));
    for (const GemmLoop& loop : gemm_.loops) move.add(loop.size, loop.c, 0);
    move.add(gemm_.sizes.m, gemm_.c.row, 0);
    move.add(gemm_.sizes.n, gemm_.c.col, 0);
    move.launch(gemm_.c.data, nullptr);
  }

  // A result by columns is the transposed product by rows. False: it is neither, and a dense one takes its place.
  bool place_result() {
    GemmOperand& c = gemm_.c;
    const bool is_dense = lies_dense(c, gemm_.sizes.m, gemm_.sizes.n);
    if (is_dense && !(c.col == 1 && c.row >= gemm_.sizes.n)) transpose();
    if (is_dense) return true;
    std::int64_t step = gemm_.sizes.m * gemm_.sizes.n;
    c.row = gemm_.sizes.n;
    c.col = 1;
    for (std::size_t i = gemm_.loops.size(); i-- > 0; step *= gemm_.loops[i].size) gemm_.loops[i].c = step;
    c.data = hold(step, c.dtype);
    return false;
  }

  void transpose() {
    std::swap(gemm_.sizes.m, gemm_.sizes.n);
    std::swap(gemm_.a, gemm_.b);
    for (GemmOperand* of : {&gemm_.a, &gemm_.b, &gemm_.c}) std::swap(of->row, of->col);
    for (std::size_t i = 0; i < gemm_.loops.size(); ++i) std::swap(gemm_.loops[i].a, gemm_.loops[i].b);
    for (std::size_t i = 0; i < gemm_.k_dims.size(); ++i) std::swap(gemm_.k_dims[i].a, gemm_.k_dims[i].b);
  }

  void pack_left() { pack(gemm_.a, &GemmLoop::a, true); }
  void pack_right() { pack(gemm_.b, &GemmLoop::b, false); }

  // Dense by rows, loops outermost; loops that the operand does not have stay so.
  void pack(GemmOperand& of, std::int64_t GemmLoop::*step_of, bool is_left) {
    SmallVector<GemmLoop, 4> depth = gemm_.k_dims;
    if (depth.empty()) {
      GemmLoop k{gemm_.sizes.k, 0, 0, 0};
      k.*step_of = is_left ? of.col : of.row;
      depth.push_back(k);
    }
    const std::int64_t others = is_left ? gemm_.sizes.m : gemm_.sizes.n;
    std::int64_t step = others * gemm_.sizes.k;
    SmallVector<std::int64_t, 4> steps;
    for (std::size_t i = 0; i < gemm_.loops.size(); ++i) steps.push_back(0);
    for (std::size_t i = gemm_.loops.size(); i-- > 0;) {
      if (gemm_.loops[i].*step_of == 0) continue;
      steps[i] = step;
      step *= gemm_.loops[i].size;
    }
    Move move(call_, itemsize(of.dtype));
    for (std::size_t i = 0; i < gemm_.loops.size(); ++i) {
      if (steps[i] != 0) move.add(gemm_.loops[i].size, steps[i], gemm_.loops[i].*step_of);
    }
    if (is_left) move.add(others, gemm_.sizes.k, of.row);
    std::int64_t dense = gemm_.sizes.k;
    for (const GemmLoop& dim : depth) {
      dense /= dim.size;
      move.add(dim.size, dense * (is_left ? 1 : others), dim.*step_of);
    }
    if (!is_left) move.add(others, 1, of.col);
    std::byte* to = hold(step, of.dtype);
    move.launch(to, of.data);
    of.data = to;
    of.row = is_left ? gemm_.sizes.k : others;
    of.col = 1;
    for (std::size_t i = 0; i < gemm_.loops.size(); ++i) gemm_.loops[i].*step_of = steps[i];
  }

  void multiply() {
    // Steps of a batch go forwards.
    std::size_t batch = gemm_.loops.size();
    for (std::size_t i = 0; i < gemm_.loops.size(); ++i) {
      const GemmLoop& loop = gemm_.loops[i];
      if (loop.a < 0 || loop.b < 0 || loop.c <= 0) continue;
      if (batch == gemm_.loops.size() || loop.size > gemm_.loops[batch].size) batch = i;
    }
    const bool has_batch = batch < gemm_.loops.size();
    const GemmLoop by = has_batch ? gemm_.loops[batch] : GemmLoop{};
    std::int64_t calls = 1;
    for (std::size_t i = 0; i < gemm_.loops.size(); ++i) calls *= i == batch ? 1 : gemm_.loops[i].size;
    LtProduct product;
    product.m = gemm_.sizes.n;
    product.n = gemm_.sizes.m;
    product.k = gemm_.sizes.k;
    product.batch = by.size;
    product.dtype = gemm_.c.dtype;
    product.a = lt_matrix(gemm_.b, gemm_.sizes.n, by.b);
    product.b = lt_matrix(gemm_.a, gemm_.sizes.k, by.a);
    product.c = {gemm_.c.data, gemm_.c.row, by.c, false};
    const auto item = static_cast<std::int64_t>(itemsize(gemm_.c.dtype));
    for (std::int64_t index = 0; index < calls; ++index) {
      LtProduct one = product;
      std::int64_t rest = index;
      for (std::size_t i = gemm_.loops.size(); i-- > 0;) {
        if (i == batch) continue;
        const GemmLoop& loop = gemm_.loops[i];
        const std::int64_t digit = rest % loop.size;
        rest /= loop.size;
        one.a.data += digit * loop.b * item;
        one.b.data += digit * loop.a * item;
        one.c.data += digit * loop.c * item;
      }
      launch_lt_gemm(call_, one);
    }
  }

  void run_integers() {
    IntegerGemm of;
    of.a = gemm_.a.data;
    of.b = gemm_.b.data;
    of.c = gemm_.c.data;
    of.dtype = gemm_.c.dtype;
    of.m = gemm_.sizes.m;
    of.n = gemm_.sizes.n;
    of.numel = call_.outputs[0].numel();
    of.a_row = gemm_.a.row;
    of.b_col = gemm_.b.col;
    of.c_row = gemm_.c.row;
    of.c_col = gemm_.c.col;
    check_dims(call_, gemm_.loops.size());
    for (const GemmLoop& loop : gemm_.loops) {
      of.loop_sizes[of.nloops] = loop.size;
      of.loop_a[of.nloops] = loop.a;
      of.loop_b[of.nloops] = loop.b;
      of.loop_c[of.nloops++] = loop.c;
    }
    SmallVector<GemmLoop, 4> depth = gemm_.k_dims;
    if (depth.empty()) depth.push_back({gemm_.sizes.k, gemm_.a.col, gemm_.b.row, 0});
    check_dims(call_, depth.size());
    for (const GemmLoop& dim : depth) {
      of.k_sizes[of.nk] = dim.size;
      of.k_a[of.nk] = dim.a;
      of.k_b[of.nk++] = dim.b;
    }
    launch(call_, integers_kernel, blocks_for(call_, of.numel, kThreads), kThreads, of);
  }

  // Scratch for as long as work is being enqueued.
  std::byte* hold(std::int64_t numel, DType dtype) {
    held_.push_back(scratch(call_, static_cast<std::size_t>(numel) * itemsize(dtype)));
    return held_.back().data();
  }

  const KernelCall& call_;
  Gemm gemm_;
  std::vector<memory::Buffer> held_;
};

GemmOperand operand(const Tensor& x, std::size_t row) {
  return {x.data(), x.strides()[row], x.strides()[row + 1], x.dtype()};
}

void mm_kernel(const KernelCall& call) {
  const Tensor& a = call.inputs[0];
  const Tensor& b = call.inputs[1];
  if (call.outputs[0].numel() == 0) return;
  Gemm gemm;
  gemm.sizes = {a.shape()[0], b.shape()[1], a.shape()[1]};
  gemm.a = operand(a, 0);
  gemm.b = operand(b, 0);
  gemm.c = operand(call.outputs[0], 0);
  Product(call, std::move(gemm)).run();
}

void bmm_kernel(const KernelCall& call) {
  const Tensor& a = call.inputs[0];
  const Tensor& b = call.inputs[1];
  const Tensor& c = call.outputs[0];
  if (c.numel() == 0) return;
  Gemm gemm;
  gemm.sizes = {a.shape()[1], b.shape()[2], a.shape()[2]};
  gemm.a = operand(a, 1);
  gemm.b = operand(b, 1);
  gemm.c = operand(c, 1);
  if (c.shape()[0] > 1) gemm.loops.push_back({c.shape()[0], a.strides()[0], b.strides()[0], c.strides()[0]});
  Product(call, std::move(gemm)).run();
}

void contract_with(const KernelCall& call, const ContractionLabels& labels) {
  if (call.outputs[0].numel() == 0) return;
  Product(call, detail::plan_contraction(labels, call.inputs[0], call.inputs[1], call.outputs[0])).run();
}
void linear_kernel(const KernelCall& call) {
  const auto leading = static_cast<std::size_t>(call.inputs[0].ndim() - 1);
  const std::string letters = std::string("abcdefghlmnopqrstuvw").substr(0, leading);
  contract_with(call, {letters + "k", "jk", letters + "j"});
}
void contract_kernel(const KernelCall& call) {
  contract_with(call, detail::parse_contraction(call, call.as<ContractAttributes>().labels));
}

const tensor::KernelRegistration kMm("mm", "cuda", mm_kernel);
const tensor::KernelRegistration kBmm("bmm", "cuda", bmm_kernel);
const tensor::KernelRegistration kLinear("linear", "cuda", linear_kernel);
const tensor::KernelRegistration kContract("contract", "cuda", contract_kernel);

}  // namespace
}  // namespace tessera::ops::cuda
