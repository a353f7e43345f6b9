// Checkpoints as other ranks would have written them.
#pragma once

#include <cstdint>
#include <filesystem>

#include "tessera/base/export.h"
#include "tessera/layout/mesh.h"
#include "tessera/train/checkpoint/checkpoint.h"

namespace tessera::train {

/// Writes the checkpoint `from` to DIRECTORY/step-N as the ranks of `mesh` would have: an axis cuts what the axis of
/// the same name cut before (sizes that were given piece by piece become even ones), axes that are new cut nothing,
/// plain tensors stay plain. One tensor is in memory at a time. What is there must not be overwritten: InvalidArgument.
/// All of it is verified first, and what is damaged is an IoError. Returns the new one.
TESSERA_API CheckpointInfo reshard_checkpoint(const CheckpointInfo& from, const layout::Mesh& mesh,
                                              const std::filesystem::path& directory);

/// The mesh of the checkpoint with so many ranks: its axes as they are, but for fsdp, or where there is none the first,
/// which takes what is left. InvalidArgument when the others do not divide `ranks`.
TESSERA_API layout::Mesh mesh_with_ranks(const CheckpointInfo& from, int ranks);

}  // namespace tessera::train
