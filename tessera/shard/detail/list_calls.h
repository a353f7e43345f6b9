// Calls over lists of tensors that may all have layouts, and meshes, of their own: updates, which go place by place
// (pointwise operators over lists), and norms, for which ranks work together. There is no entry for such a call: a look
// at each tensor is cheaper than a key of them all.
//
// The tensors of one place must fit together as they would in a call of their own. In norms every part counts once:
// among the ranks that hold the same one, the first along each axis counts it. One all-reduce adds up what was counted,
// whatever the number of axes and meshes.
#pragma once

#include "tessera/tensor/call.h"

namespace tessera::shard::detail {

/// Whether the operator goes over lists in one of these ways; others with lists (cat, stack) are called like any.
bool goes_by_lists(const tensor::Call& call);
/// Makes such a call.
void call_lists(const tensor::Call& call);

/// The update operators' side: place by place, nothing is sent.
void call_by_place(const tensor::Call& call);
/// The norms' side.
void call_together(const tensor::Call& call);

/// Which argument an input is, for people: "grads[3]".
std::string argument_text(const tensor::Call& call, std::size_t input);
/// Whether every rank of `other` is on `mesh`.
bool holds_ranks_of(const layout::Mesh& mesh, const layout::Mesh& other);
/// Moves inputs, in one launch for each kind of step, and makes the call on what they have become.
void move_and_call(const tensor::Call& call, std::span<const std::size_t> inputs, std::span<const layout::Layout> to);

}  // namespace tessera::shard::detail
