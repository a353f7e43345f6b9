// Cached dispatch data of a call: the layouts of its results, or the inputs that must be redistributed first. Its key
// is the operator, its attributes and the layouts, shapes and dtypes of the operands. Entries do not depend on the
// rank, and all ranks of a process share them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/layout/propagate.h"
#include "tessera/tensor/op_def.h"

namespace tessera::shard::detail {

struct Rearranged;

/// Properties of an operand that layouts depend on.
struct OperandKey {
  layout::Layout layout;  // empty: plain or absent tensor
  Shape shape;
  DType dtype = DType::kF32;
  bool is_there = false;
  bool is_constant = false;  // plain tensor computed from constants only
};

/// Dispatch data of a call.
struct DispatchPlan {
  // The key.
  std::uint64_t hash = 0;
  tensor::Operator op;
  tensor::Attributes attributes;
  std::vector<OperandKey> inputs;
  std::vector<layout::Layout> targets;  // layouts of given outputs; empty for new results

  // The value.
  layout::Mesh mesh;
  std::vector<tensor::OutputInfo> infos;
  std::vector<layout::Layout> outputs;
  // per input (empty: unchanged), if some must be redistributed first; otherwise no elements
  std::vector<layout::Layout> moved;
  bool is_free = false;   // redistributed inputs are equal on every rank, and nothing is sent
  bool is_local = false;  // redistribution sends nothing: calls of gradients do it automatically
  std::shared_ptr<const Rearranged> rearranged = {};  // for a call that sends elements to other ranks
  std::vector<std::vector<layout::SubAxis>> phases;   // group of each phase of a cooperative call

  /// Returns true if the entry has the key of `call`.
  [[nodiscard]] bool matches(const tensor::Call& call) const;
};

/// Hashes the key of a call.
std::uint64_t hash_of(const tensor::Call& call);

/// Creates an entry. If operands must be redistributed, the scope in force selects an entry with redistributions or an
/// error with the cheapest fixes.
std::shared_ptr<const DispatchPlan> make_entry(const tensor::Call& call, std::uint64_t hash);

/// Throws for a call whose entry redistributes operands.
[[noreturn]] void refuse_moves(const tensor::Call& call);

/// Returns a plain tensor as a replicated one, on ranks of the mesh.
Tensor as_replicated(const Tensor& plain, const layout::Mesh& mesh);

/// Returns the suffix of errors: "; in the gradient of mm (label 'encoder')", or "" outside of backward.
std::string backward_note();

}  // namespace tessera::shard::detail
