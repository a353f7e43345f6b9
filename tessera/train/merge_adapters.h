// Complete weights from a checkpoint of LoRA adapters, for programs that know no adapters.
#pragma once

#include <filesystem>

#include "tessera/base/export.h"
#include "tessera/train/checkpoint/checkpoint.h"

namespace tessera::train {

/// Writes DIRECTORY/step-N with the weights of `base` and the adapters of `adapters` added to them (nn/lora.h), and
/// returns the new checkpoint. It has no optimizer state. Throws InvalidArgument if step-N exists, MismatchError if
/// `adapters` holds none or `base` holds another model, and IoError for corrupt or unwritable files.
TESSERA_API CheckpointInfo merge_adapters(const CheckpointInfo& adapters, const CheckpointInfo& base,
                                          const std::filesystem::path& directory);

/// Returns the path that the run of `adapters` took its weights from (checkpoint.init).
TESSERA_API std::filesystem::path base_of_adapters(const CheckpointInfo& adapters);

}  // namespace tessera::train
