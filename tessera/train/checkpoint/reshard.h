// Rewrites a checkpoint for another mesh, as its ranks would have written it.
#pragma once

#include <cstdint>
#include <filesystem>

#include "tessera/base/export.h"
#include "tessera/layout/mesh.h"
#include "tessera/train/checkpoint/checkpoint.h"

namespace tessera::train {

/// Writes the checkpoint `from` to DIRECTORY/step-N as the ranks of `mesh` would, and returns the new one. An axis
/// shards the dimensions that the axis of the same name sharded before; explicit shard sizes become even ones. New axes
/// shard nothing, and plain tensors stay plain. Holds one tensor in memory at a time. Throws InvalidArgument if step-N
/// exists or the mesh has more ranks than the checkpoint has elements. Verifies `from` first and throws IoError if it
/// is corrupt.
TESSERA_API CheckpointInfo reshard_checkpoint(const CheckpointInfo& from, const layout::Mesh& mesh,
                                              const std::filesystem::path& directory);

/// Returns the mesh of the checkpoint, resized to `ranks` ranks. From the last axis to the first, each axis is reduced
/// to the greatest common divisor of its size and the rest of `ranks`. fsdp, or the first axis if there is no fsdp,
/// takes the remaining factor instead. For example, dp=2,fsdp=2,tp=2 becomes dp=2,fsdp=3,tp=2 for 12 ranks. Throws
/// InvalidArgument if `ranks` is less than 1 or the tensors are on several meshes.
TESSERA_API layout::Mesh mesh_with_ranks(const CheckpointInfo& from, int ranks);

}  // namespace tessera::train
