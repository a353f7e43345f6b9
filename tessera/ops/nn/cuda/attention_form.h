// The choice between the attention kernels, from the plain data of a call.
#pragma once

#include <string_view>

#include "tessera/ops/nn/cuda/attention_args.h"

namespace tessera::ops::cuda {

/// Kernels of attention.
enum class AttentionForm : std::uint8_t {
  kPlain,        ///< every dtype, width and stride; f32 or f64 arithmetic (attention_plain.cu)
  kTensorCores,  ///< bf16 and f16 in rows of whole words of 16 bytes (attention_tensor.cu)
};

/// Returns the kernels for a call. `grad.data` is null in the forward pass.
AttentionForm attention_form(const AttentionArgs& of);

/// Returns the width of the kernel with tensor cores for rows of up to `width` elements: 64, 128 or 256.
constexpr int tensor_width(int width) { return width <= 64 ? 64 : width <= 128 ? 128 : 256; }

/// Returns the number of blocks that share the keys of a tile, so that `blocks` tiles keep the multiprocessors busy. A
/// block takes at least 256 of at most `keys` keys.
std::int32_t attention_splits(std::int64_t blocks, std::int64_t keys, std::int64_t multiprocessors);

}  // namespace tessera::ops::cuda
