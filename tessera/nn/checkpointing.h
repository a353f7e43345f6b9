// Activation checkpointing of modules: the calls of a checkpointed module save only its input and the results of the
// kept operators, and backward computes the module again.
//
//   nn::set_checkpointing(model, "layers.*");                                                     // full
//   nn::set_checkpointing(model, "layers.*", {.kept_operators = {"scaled_dot_product_attention"}});   // selective
#pragma once

#include <cstdint>
#include <string_view>

#include "tessera/autograd/checkpoint.h"
#include "tessera/base/export.h"
#include "tessera/nn/module.h"

namespace tessera::nn {

/// Options of a checkpointed module.
using CheckpointingOptions = autograd::CheckpointOptions;

/// Checkpoints the calls of all modules whose path matches `pattern`; "*" matches any text without a dot. Returns their
/// number. Throws InvalidArgument if no module matches. Modules must take a tensor first and return one.
TESSERA_API std::int64_t set_checkpointing(const Module& model, std::string_view pattern,
                                           const CheckpointingOptions& options = {});
/// Ends the checkpointing of all modules.
TESSERA_API void clear_checkpointing(const Module& model);

}  // namespace tessera::nn
