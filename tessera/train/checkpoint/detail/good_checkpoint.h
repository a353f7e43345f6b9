// Opens checkpoints that the user named. They must be valid, because no other one replaces them.
#pragma once

#include <filesystem>
#include <string>

#include "tessera/train/checkpoint/verify.h"

namespace tessera::train::detail {

/// Returns the first fault and the number of further ones, printable on a terminal.
std::string first_fault(const CheckpointVerdict& verdict);
/// Reads and verifies the checkpoint in this directory. Throws IoError with its first fault.
CheckpointInfo good_checkpoint(const std::filesystem::path& path, const OnProgress& on_progress = {});

}  // namespace tessera::train::detail
