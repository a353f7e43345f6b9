// The verbs of `tessera memory`: each is one file (memory_dump.cpp, ...) with a function declared here and a line in
// the table of memory.cpp.
#pragma once

#include <CLI/CLI.hpp>

#include <functional>
#include <string>
#include <string_view>
#include <vector>
#include <nlohmann/json.hpp>

#include "tessera/cli/report.h"
#include "tessera/memory/snapshot.h"
#include "tessera/memory/torch_snapshot.h"

namespace tessera::cli {

// Each adds its options and returns what to run once they are read.
std::function<int()> declare_memory_dump(CLI::App& options);
std::function<int()> declare_memory_stat(CLI::App& options);
std::function<int()> declare_memory_top(CLI::App& options);
std::function<int()> declare_memory_replay(CLI::App& options);

/// The allocators of a record file.
struct MemoryFile {
  std::string path;                         ///< as read
  std::vector<memory::Snapshot> snapshots;  ///< at least one
  std::vector<std::string> notes;           ///< what is not known, one line each
};

/// Reads a record file, or the only one of a run directory. IoError when there is none, or it holds no memory records.
/// Notes and problems go to stderr as well, each on a line.
MemoryFile load_memory(const std::string& path);

/// Names of the functions in the file's stacks, where `is_wanted`. What could not be found goes to stderr.
memory::Symbols symbols_of(const MemoryFile& file, bool is_wanted);

/// Bytes: "1.5 GiB" on a terminal, "1610612736" in a pipe.
std::string size_text(std::uint64_t nbytes, Style style);
/// "pool 'decode'" without the word: its name, or its number.
std::string pool_text(const memory::Snapshot& snapshot, memory::PoolId pool);
/// The sums by name.
nlohmann::ordered_json to_json(const memory::Totals& totals);

}  // namespace tessera::cli
