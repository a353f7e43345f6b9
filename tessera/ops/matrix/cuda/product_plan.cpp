#include "tessera/ops/matrix/cuda/product_plan.h"

#include <utility>

#include "tessera/base/error.h"

namespace tessera::ops::cuda {
namespace {

using detail::Gemm;
using detail::GemmLoop;
using detail::GemmOperand;

void check_dims(const char* name, std::size_t count) {
  TESSERA_CHECK_AS(NotSupported, count <= kMaxGemmDims, name, ": operands must have at most ", kMaxGemmDims,
                   " dimensions that cannot be merged on cuda, got ", count, "; make the operands contiguous");
}

// Returns true if rows or columns are contiguous. Adjusts steps along dimensions of one element.
bool lies_dense(GemmOperand& of, std::int64_t rows, std::int64_t cols) {
  if (cols == 1) of.col = 1;
  if (rows == 1) of.row = of.col == 1 ? cols : 1;
  return (of.col == 1 && of.row >= cols) || (of.row == 1 && of.col >= rows);
}

LtMatrix lt_matrix(const GemmOperand& of, std::int64_t cols, std::int64_t batch_stride) {
  const bool by_rows = of.col == 1 && of.row >= cols;
  return {of.data, by_rows ? of.row : of.col, batch_stride, !by_rows};
}

class Planner {
 public:
  Planner(const char* name, Gemm gemm, const Scratch& scratch)
      : name_(name), gemm_(std::move(gemm)), scratch_(scratch) {}

  ProductPlan run() {
    if (gemm_.sizes.k == 0) {
      if (!gemm_.is_added) plan_.after = result_move(gemm_.c, gemm_.loops, nullptr);
    } else if (!is_lt_dtype(gemm_.a.dtype)) {
      plan_integers();
    } else {
      const GemmOperand result = gemm_.c;
      const SmallVector<GemmLoop, 4> loops = gemm_.loops;
      const bool is_in_place = place_result();
      if (!is_in_place) plan_.after = result_move(result, loops, gemm_.c.data);
      if (!is_in_place && gemm_.is_added) plan_.before.push_back(reversed(*plan_.after));
      if (!gemm_.k_dims.empty() || !lies_dense(gemm_.a, gemm_.sizes.m, gemm_.sizes.k)) pack(gemm_.a, true);
      if (!gemm_.k_dims.empty() || !lies_dense(gemm_.b, gemm_.sizes.k, gemm_.sizes.n)) pack(gemm_.b, false);
      plan_calls();
    }
    return std::move(plan_);
  }

 private:
  [[nodiscard]] StridedMove new_move(DType dtype, void* to, const void* from) const {
    StridedMove move;
    move.to = to;
    move.from = from;
    move.numel = 1;
    move.itemsize = static_cast<std::int32_t>(itemsize(dtype));
    return move;
  }
  void add_dim(StridedMove& move, std::int64_t size, std::int64_t to_step, std::int64_t from_step) const {
    check_dims(name_, static_cast<std::size_t>(move.ndim) + 1);
    move.sizes[move.ndim] = size;
    move.to_steps[move.ndim] = to_step;
    move.from_steps[move.ndim++] = from_step;
    move.numel *= size;
  }
  [[nodiscard]] std::byte* memory(std::int64_t numel, DType dtype) const {
    return scratch_(static_cast<std::size_t>(numel) * itemsize(dtype));
  }

  // Returns the copy of the dense result to its target; zeros without a product.
  [[nodiscard]] StridedMove result_move(const GemmOperand& to, const SmallVector<GemmLoop, 4>& loops,
                                        const std::byte* from) const {
    StridedMove move = new_move(to.dtype, to.data, from);
    for (std::size_t i = 0; i < loops.size(); ++i) add_dim(move, loops[i].size, loops[i].c, gemm_.loops[i].c);
    add_dim(move, gemm_.sizes.m, to.row, gemm_.c.row);
    add_dim(move, gemm_.sizes.n, to.col, gemm_.c.col);
    return move;
  }
  [[nodiscard]] static StridedMove reversed(StridedMove move) {
    void* to = const_cast<void*>(move.from);
    move.from = std::exchange(move.to, to);
    std::swap(move.to_steps, move.from_steps);
    return move;
  }

  // A column-major result is the row-major transposed product. Returns false if the result is neither, so that a dense
  // one replaces it.
  bool place_result() {
    GemmOperand& c = gemm_.c;
    const bool is_dense = lies_dense(c, gemm_.sizes.m, gemm_.sizes.n);
    if (is_dense && !(c.col == 1 && c.row >= gemm_.sizes.n)) transpose();
    if (is_dense) return true;
    std::int64_t step = gemm_.sizes.m * gemm_.sizes.n;
    c.row = gemm_.sizes.n;
    c.col = 1;
    for (std::size_t i = gemm_.loops.size(); i-- > 0; step *= gemm_.loops[i].size) gemm_.loops[i].c = step;
    c.data = memory(step, c.dtype);
    return false;
  }

  void transpose() {
    std::swap(gemm_.sizes.m, gemm_.sizes.n);
    std::swap(gemm_.a, gemm_.b);
    for (GemmOperand* of : {&gemm_.a, &gemm_.b, &gemm_.c}) std::swap(of->row, of->col);
    for (std::size_t i = 0; i < gemm_.loops.size(); ++i) std::swap(gemm_.loops[i].a, gemm_.loops[i].b);
    for (std::size_t i = 0; i < gemm_.k_dims.size(); ++i) std::swap(gemm_.k_dims[i].a, gemm_.k_dims[i].b);
  }

  [[nodiscard]] SmallVector<GemmLoop, 4> depth_dims() const {
    SmallVector<GemmLoop, 4> depth = gemm_.k_dims;
    if (depth.empty()) depth.push_back({gemm_.sizes.k, gemm_.a.col, gemm_.b.row, 0});
    return depth;
  }

  // Row-major, loops outermost; loops that the operand lacks keep a step of 0.
  void pack(GemmOperand& of, bool is_left) {
    const auto step_of = is_left ? &GemmLoop::a : &GemmLoop::b;
    const SmallVector<GemmLoop, 4> depth = depth_dims();
    const std::int64_t others = is_left ? gemm_.sizes.m : gemm_.sizes.n;
    std::int64_t step = others * gemm_.sizes.k;
    SmallVector<std::int64_t, 4> steps;
    for (std::size_t i = 0; i < gemm_.loops.size(); ++i) steps.push_back(0);
    for (std::size_t i = gemm_.loops.size(); i-- > 0;) {
      if (gemm_.loops[i].*step_of == 0) continue;
      steps[i] = step;
      step *= gemm_.loops[i].size;
    }
    std::byte* to = memory(step, of.dtype);
    StridedMove move = new_move(of.dtype, to, of.data);
    for (std::size_t i = 0; i < gemm_.loops.size(); ++i) {
      if (steps[i] != 0) add_dim(move, gemm_.loops[i].size, steps[i], gemm_.loops[i].*step_of);
      gemm_.loops[i].*step_of = steps[i];
    }
    if (is_left) add_dim(move, others, gemm_.sizes.k, of.row);
    std::int64_t dense = gemm_.sizes.k;
    for (const GemmLoop& dim : depth) {
      dense /= dim.size;
      add_dim(move, dim.size, dense * (is_left ? 1 : others), dim.*step_of);
    }
    if (!is_left) add_dim(move, others, 1, of.col);
    plan_.before.push_back(move);
    of = {to, is_left ? gemm_.sizes.k : others, 1, of.dtype};
  }

  // The longest loop; steps of a batch are positive.
  [[nodiscard]] std::size_t batch_loop() const {
    const std::size_t none = gemm_.loops.size();
    std::size_t batch = none;
    for (std::size_t i = 0; i < gemm_.loops.size(); ++i) {
      const GemmLoop& loop = gemm_.loops[i];
      if (loop.a < 0 || loop.b < 0 || loop.c <= 0) continue;
      if (batch == none || loop.size > gemm_.loops[batch].size) batch = i;
    }
    return batch;
  }

  void plan_calls() {
    const std::size_t batch = batch_loop();
    const GemmLoop by = batch < gemm_.loops.size() ? gemm_.loops[batch] : GemmLoop{};
    std::int64_t calls = 1;
    for (std::size_t i = 0; i < gemm_.loops.size(); ++i) calls *= i == batch ? 1 : gemm_.loops[i].size;
    LtProduct product;
    product.m = gemm_.sizes.n;
    product.n = gemm_.sizes.m;
    product.k = gemm_.sizes.k;
    product.batch = by.size;
    product.dtype = gemm_.a.dtype;
    product.c_dtype = gemm_.c.dtype;
    product.is_added = gemm_.is_added;
    product.a = lt_matrix(gemm_.b, gemm_.sizes.n, by.b);
    product.b = lt_matrix(gemm_.a, gemm_.sizes.k, by.a);
    product.c = {gemm_.c.data, gemm_.c.row, by.c, false};
    const auto item = static_cast<std::int64_t>(itemsize(gemm_.a.dtype));
    const auto c_item = static_cast<std::int64_t>(itemsize(gemm_.c.dtype));
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
        one.c.data += digit * loop.c * c_item;
      }
      plan_.products.push_back(one);
    }
  }

  void plan_integers() {
    IntegerGemm of;
    of.a = gemm_.a.data;
    of.b = gemm_.b.data;
    of.c = gemm_.c.data;
    of.dtype = gemm_.c.dtype;
    of.is_added = gemm_.is_added;
    of.m = gemm_.sizes.m;
    of.n = gemm_.sizes.n;
    of.numel = of.m * of.n;
    of.a_row = gemm_.a.row;
    of.b_col = gemm_.b.col;
    of.c_row = gemm_.c.row;
    of.c_col = gemm_.c.col;
    check_dims(name_, gemm_.loops.size());
    for (const GemmLoop& loop : gemm_.loops) {
      of.numel *= loop.size;
      of.loop_sizes[of.nloops] = loop.size;
      of.loop_a[of.nloops] = loop.a;
      of.loop_b[of.nloops] = loop.b;
      of.loop_c[of.nloops++] = loop.c;
    }
    const SmallVector<GemmLoop, 4> depth = depth_dims();
    check_dims(name_, depth.size());
    for (const GemmLoop& dim : depth) {
      of.k_sizes[of.nk] = dim.size;
      of.k_a[of.nk] = dim.a;
      of.k_b[of.nk++] = dim.b;
    }
    plan_.integers = of;
  }

  const char* name_;
  Gemm gemm_;
  const Scratch& scratch_;
  ProductPlan plan_;
};

}  // namespace

ProductPlan plan_product(const char* name, Gemm gemm, const Scratch& scratch) {
  return Planner(name, std::move(gemm), scratch).run();
}

}  // namespace tessera::ops::cuda
