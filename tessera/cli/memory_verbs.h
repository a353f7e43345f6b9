// The subcommands of `tessera memory`. Each has one file (memory_dump.cpp, ...), a function declared here and a line in
// declare() of memory.cpp.
#pragma once

#include <string>
#include <string_view>
#include <vector>
#include <nlohmann/json.hpp>

#include "tessera/analysis/memory/torch_snapshot.h"
#include "tessera/cli/command.h"
#include "tessera/cli/table.h"
#include "tessera/memory/snapshot.h"

namespace tessera::cli {

// Each function adds its options and returns the function to run after they are parsed.
Body declare_memory_dump(Command& command);
Body declare_memory_stat(Command& command);
Body declare_memory_top(Command& command);
Body declare_memory_replay(Command& command);

/// The allocators of a record file.
struct AllocatorRecords {
  std::string path;
  std::vector<memory::Snapshot> snapshots;  ///< at least one
  std::vector<std::string> notes;           ///< unknown facts, one line each
};

/// Reads a record file, or the only one of a run directory. Prints notes and problems to stderr, one line each. Throws
/// IoError if no file exists or it contains no memory records.
AllocatorRecords load_memory(const std::string& path);

/// Returns the names of the functions in the stacks of the file, if `is_wanted`. Prints its notes to stderr.
analysis::Symbols symbols_of(const AllocatorRecords& file, bool is_wanted);

/// Returns a size in bytes: "1.5 GiB" on a terminal, "1610612736" in a pipe.
std::string size_text(std::uint64_t nbytes, Style style);
/// Returns the name of a pool, or its number.
std::string pool_text(const memory::Snapshot& snapshot, memory::PoolId pool);
/// Returns the totals by name.
nlohmann::ordered_json to_json(const memory::Totals& totals);

}  // namespace tessera::cli
