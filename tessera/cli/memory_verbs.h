// The parts of `tessera memory`, one file each. Each adds its options to its own parser and returns what to run.
#pragma once

#include <CLI/CLI.hpp>

#include <functional>

namespace tessera::cli {

/// `tessera memory replay`: a log against one policy or several.
std::function<int()> declare_memory_replay(CLI::App& app);

}  // namespace tessera::cli
