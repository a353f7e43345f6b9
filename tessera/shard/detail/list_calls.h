// Calls over lists of tensors with different layouts and meshes: element-wise updates (pointwise operators over lists)
// and norms, for which ranks cooperate. Such calls have no cache entry, because checking each tensor is cheaper than a
// key of all.
//
// The tensors at one list index must fit together as in a separate call. Norms count every shard once: of the ranks
// that hold the same shard, the first along each axis counts it. One all-reduce adds the counts, for any number of axes
// and meshes.
#pragma once

#include "tessera/tensor/call.h"

namespace tessera::shard::detail {

/// Returns true for update and norm operators over lists. Other operators with lists (cat, stack) are normal calls.
bool goes_by_lists(const tensor::Call& call);
/// Executes such a call.
void call_lists(const tensor::Call& call);

/// Executes an update, index by index. Sends nothing.
void call_by_place(const tensor::Call& call);
/// Executes a norm.
void call_together(const tensor::Call& call);

/// Returns true if every rank of `other` is on `mesh`.
bool holds_ranks_of(const layout::Mesh& mesh, const layout::Mesh& other);
/// Redistributes inputs, in one launch for each kind of step, and makes the call on the results.
void move_and_call(const tensor::Call& call, std::span<const std::size_t> inputs, std::span<const layout::Layout> to);

}  // namespace tessera::shard::detail
