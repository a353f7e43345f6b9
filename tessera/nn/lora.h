// LoRA: trains a product of two small matrices beside each chosen linear map, and freezes everything else.
//
//   nn::add_lora(model, {.rank = 16, .modules = {"*q_proj", "*v_proj"}});      // before distribute()
//   ...
//   nn::merge_lora(model);                                                     // the weights now contain the adapters
//
//   y = x weight^T + bias + alpha / rank * (x lora_a^T) lora_b^T
//
// lora_b is zero at first, so that a new adapter changes nothing. Both are parameters of the linear map, with its
// paths: "layers.0.self_attn.q_proj.lora_a".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/nn/module.h"

namespace tessera::nn {

/// Options of add_lora().
struct LoraOptions {
  std::int64_t rank = 8;                     ///< Width between the two matrices.
  double alpha = 16;                         ///< The product is scaled by alpha / rank.
  std::vector<std::string> modules = {"*"};  ///< Patterns of the paths of Linear modules; "*" matches any text.
};

/// Adds adapters to the Linear modules that match, and freezes all other parameters. Returns the number of adapters.
/// Under a ShardingScope, adapters are created in shards. Throws InvalidArgument, and changes nothing, if a pattern
/// matches no Linear module, or a module that has an adapter or shares its weight with another module.
TESSERA_API std::int64_t add_lora(const Module& model, const LoraOptions& options);
/// Adds the adapters to the weights, and removes them. Returns their number. Call it before distribute().
TESSERA_API std::int64_t merge_lora(const Module& model);
/// Returns true if a parameter with this path belongs to an adapter.
TESSERA_API bool is_lora_parameter(std::string_view path);

}  // namespace tessera::nn
