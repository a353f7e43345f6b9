// What dispatch knows of a call before it is made: the layouts of its results, or what has to move first. All of it
// follows from the operator, its attributes and the operands' layouts, shapes and dtypes, which are its key. Nothing
// here is of one rank: entries are shared by all ranks of a process.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/layout/propagate.h"
#include "tessera/tensor/op_def.h"

namespace tessera::shard::detail {

struct Rearranged;

/// A tensor of a call as far as layouts depend on it.
struct OperandKey {
  layout::Layout layout;  // empty: a plain one, or none
  Shape shape;
  DType dtype = DType::kF32;
  bool is_there = false;
  bool is_constant = false;  // a plain one that must be made from numbers alone
};

/// See the head of this file.
struct Entry {
  // Of which call.
  std::uint64_t hash = 0;
  tensor::Operator op;
  tensor::Attributes attributes;
  std::vector<OperandKey> inputs;
  std::vector<layout::Layout> targets;  // of tensors that are written into; empty where the result is a new one

  // What comes of it.
  layout::Mesh mesh;
  std::vector<tensor::OutputInfo> infos;
  std::vector<layout::Layout> outputs;
  std::vector<layout::Layout> moved;  // of each input (empty: it stays) where some must move first, else none at all
  bool is_free = false;               // what moves is the same on every rank, and none of it is sent
  bool is_local = false;              // none of what moves is sent: a gradient's calls do so by themselves
  std::shared_ptr<const Rearranged> rearranged = {};  // of a call that is made by sending what changes its rank
  std::vector<std::vector<layout::SubAxis>> phases;   // of a cooperative call: the group of each; else none

  /// Whether it is for this call.
  [[nodiscard]] bool matches(const tensor::Call& call) const;
};

/// Hash of the key of a call.
std::uint64_t hash_of(const tensor::Call& call);

/// Works an entry out. Where operands would have to move: as the scope in force says, an entry with moves or an error
/// that names the cheapest fixes.
std::shared_ptr<const Entry> make_entry(const tensor::Call& call, std::uint64_t hash);

/// Refuses a call whose operands would have to move, which `entry` says they do.
[[noreturn]] void refuse_moves(const tensor::Call& call);

/// A plain tensor as a replicated one, on ranks of the mesh.
Tensor as_replicated(const Tensor& plain, const layout::Mesh& mesh);

/// "; in the gradient of mm (label 'encoder')", or nothing outside of backward: how errors end.
std::string backward_note();

}  // namespace tessera::shard::detail
