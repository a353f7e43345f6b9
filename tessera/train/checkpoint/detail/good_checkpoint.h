// Checkpoints that are used only when they are good: named by a user, so that none is taken in their stead.
#pragma once

#include <filesystem>
#include <string>

#include "tessera/train/checkpoint/verify.h"

namespace tessera::train::detail {

/// The first fault of those that were found, and how many more there are; as a terminal can show it.
std::string first_fault(const CheckpointVerdict& verdict);
/// The checkpoint in this directory, of which everything is read and compared; IoError names it and its first fault.
CheckpointInfo good_checkpoint(const std::filesystem::path& path, const OnProgress& on_progress = {});

}  // namespace tessera::train::detail
