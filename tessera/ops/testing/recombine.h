// Global tensors and the shards of all ranks of a mesh, in one process. A global tensor is sharded by a layout, and the
// shards that ranks computed are recombined by another layout, without communication or device. Tests of sharding rules
// use it as reference.
//
// Partial values are constructed so that a wrong rule is detected: no partial value looks like the global value. Sums
// are split 2:3 (2:3:4, ...) with offsets beyond the range of the values and alternating signs. For min and max, a
// different rank has the value at every element; the others have a value near it, far beyond it, or the identity, as an
// empty shard does. Products are split by powers of two of both signs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/layout/factor_rule.h"
#include "tessera/layout/layout.h"
#include "tessera/tensor/tensor.h"

namespace tessera::ops::testing {

/// A tensor with all elements known, as doubles; a complex element is two doubles.
struct Whole {
  Shape shape;
  DType dtype = DType::kF64;
  std::vector<double> values;
  double rounding = 0;  // possible error of elements that were combined from larger partial values
};

/// The shards of a tensor on all ranks of a mesh.
struct Parts {
  Shape shape;  // global
  DType dtype = DType::kF64;
  layout::Layout layout;        // unset for an omitted optional argument
  std::vector<Tensor> by_rank;  // in the order of the ranks of the mesh
};

/// Number of ways to construct partial values. For min, max and prod, a different rank has the value in each.
inline constexpr int kPartStyles = 2;

/// Returns the shard of every rank, in separate memory. `style` is in [0, kPartStyles).
Parts sharding(const Whole& whole, const layout::Layout& layout, int style = 0);
/// Returns the global tensor of these shards. On failure returns nullopt and sets `wrong`: a shard whose shape differs
/// from the layout, a replica that differs from that of an earlier rank, or an invalid kind of partial values. The
/// shards must have been computed: call wait_for_work() first.
std::optional<Whole> recombine(const Parts& parts, std::string& wrong);

/// Reduces tensors of one shape element by element. Throws MismatchError if the shapes differ.
Whole reduced(const std::vector<const Whole*>& parts, Reduction reduction);

/// Waits for all work on the host. Throws the error of failed work and clears it from the stream, so that the next
/// trial starts without it.
void wait_for_work();
/// Returns a contiguous host tensor in separate memory.
Tensor to_tensor(const Whole& whole);
/// Returns the elements of a computed tensor.
Whole read(const Tensor& tensor);
/// Returns "" if both have the same shape and dtype and close elements: relative to max(1, |wanted|) for floating
/// dtypes, equal for others, apart from the rounding of partial values. Otherwise describes the first difference and
/// the ranks that hold it in this layout.
std::string difference(const Whole& got, const Whole& want, double tolerance, const layout::Layout& layout);

/// Returns the shard of each rank for a tensor of this shape, for OpDef::localize, in the order of the ranks of the
/// mesh.
const std::vector<layout::LocalOperand>& local_operands(const layout::Layout& layout, const Shape& shape);

}  // namespace tessera::ops::testing
