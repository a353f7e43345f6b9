// The error of a call whose operands must be redistributed: the conflict, the operands, and the cheapest fixes as code.
//
//   matmul: operands disagree on mesh dp=2,tp=2: axis tp shards dimension 1 of a, but not dimension 0 of b
//     a  f32[8, 4096]     {dp: Shard(0), tp: Shard(1)}
//     b  f32[4096, 1024]  {}
//   cheapest fixes:
//     redistribute(b, {{"tp", Shard(0)}})  no communication
//     redistribute(a, {{"dp", Shard(0)}})  all-gather over tp, 32 KiB, 8.9 us
//   or call it inside AutoRedistribute
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "tessera/layout/propagate.h"
#include "tessera/tensor/op_def.h"

namespace tessera::shard::detail {

/// Returns the name of an argument, with its index if it is in a list of several: "grads[3]".
std::string argument_text(const tensor::Call& call, std::size_t input);
/// Throws InvalidArgument for an input without a layout in a call of tensors with layouts.
[[noreturn]] void refuse_plain(const tensor::Call& call, std::size_t input);
/// Returns the placements of the axes that do not replicate: "{dp: Shard(0), tp: Partial()}".
std::string named_placements(const layout::Layout& layout);
/// Returns the operands of a call, one per line: name, dtype, shape and placements; then its attributes.
std::string operands_text(const tensor::Call& call);
/// Returns the fixes, one per line, as calls of redistribute() with their steps and cost. Empty without fixes.
std::string fixes_text(const tensor::Call& call, std::span<const layout::Fix> fixes);
/// Returns a conflict with the names of the operands instead of "input 0 {...}". `places` are the inputs of the call
/// that the operands of the rule stand for.
std::string conflict_with_names(const tensor::Call& call, std::string_view conflict,
                                std::span<const std::size_t> places);

}  // namespace tessera::shard::detail
