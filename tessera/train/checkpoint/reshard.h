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
/// InvalidArgument for more ranks than it has elements, too. `from` is verified first: IoError when it is damaged.
/// Returns the new one.
TESSERA_API CheckpointInfo reshard_checkpoint(const CheckpointInfo& from, const layout::Mesh& mesh,
                                              const std::filesystem::path& directory);

/// The mesh of the checkpoint with so many ranks. From the last axis to the first each keeps its size, or, where that
/// does not divide what is left of `ranks`, the greatest part of it that does; fsdp, or where there is none the first
/// axis, takes what is left in the end. Of dp=2,fsdp=2,tp=2 for 12 ranks dp=2,fsdp=3,tp=2; for 1 rank all are 1.
TESSERA_API layout::Mesh mesh_with_ranks(const CheckpointInfo& from, int ranks);

}  // namespace tessera::train
