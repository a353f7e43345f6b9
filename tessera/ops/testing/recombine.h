// Whole tensors and what the ranks of a mesh hold of them, in one process: a whole is cut up as a layout says, and the
// parts that ranks computed are put together again as another one says. No communication, no device: what tests of
// sharding rules hold the rules against.
//
// Parts of partial values are made up so that a rule that is wrong is seen to be: no part alone looks like the whole.
// Sums are split 2:3 (2:3:4, ...) with offsets beyond the range of the values, of signs that alternate; of min and max
// another rank has the value at every element, the others something near it, far beyond it, or the identity, as an
// empty shard gives; products are split by powers of two of both signs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/layout/factor_rule.h"
#include "tessera/layout/layout.h"
#include "tessera/tensor/tensor.h"

namespace tessera::ops::testing {

/// A tensor all of whose elements are known, as doubles; complex elements are two each.
struct Whole {
  Shape shape;
  DType dtype = DType::kF64;
  std::vector<double> values;
  double rounding = 0;  // of elements that were put together from larger parts: how far off they may be
};

/// A tensor as all ranks of a mesh hold it.
struct Parts {
  Shape shape;  // global
  DType dtype = DType::kF64;
  layout::Layout layout;        // none: no tensor, an optional argument left out
  std::vector<Tensor> by_rank;  // in the order of the mesh's ranks
};

/// Other parts of partial values for each; of min, max and prod those that had the value in one do not in the next.
inline constexpr int kPartStyles = 2;

/// The part of every rank, in memory of its own. A style from 0 to kPartStyles - 1.
Parts cut(const Whole& whole, const layout::Layout& layout, int style = 0);
/// The whole that these parts make; none: `wrong` says which rank has a part of another shape than the layout gives it,
/// or another replica than an earlier rank, or that partial values of this kind make no sense. The parts must have been
/// computed: wait_for_work() first.
std::optional<Whole> recombine(const Parts& parts, std::string& wrong);

/// Tensors of one shape reduced element by element; MismatchError where the shapes differ.
Whole reduced(const std::vector<const Whole*>& parts, layout::Reduction reduction);

/// Waits until all that was enqueued on the host is done. What failed meanwhile is thrown, and forgotten by the stream:
/// the next trial starts afresh.
void wait_for_work();
/// A dense tensor on the host, in memory of its own.
Tensor to_tensor(const Whole& whole);
/// The elements of a tensor that has been computed.
Whole read(const Tensor& tensor);
/// Empty when they have the same shape and dtype and close elements: relative to max(1, |wanted|) for floating ones,
/// equal for others, beside what rounding of the parts makes. Else the first that differs, and which ranks have it in
/// this layout.
std::string difference(const Whole& got, const Whole& want, double tolerance, const layout::Layout& layout);

/// What each rank holds of a tensor of this shape, for OpDef::localize; in the order of the mesh's ranks.
const std::vector<layout::LocalOperand>& local_operands(const layout::Layout& layout, const Shape& shape);

}  // namespace tessera::ops::testing
