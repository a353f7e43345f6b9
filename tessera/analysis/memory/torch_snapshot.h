// Writes Snapshots in the memory snapshot format of PyTorch, for its viewer (pytorch.org/memory_viz) and
// _memory_viz.py: as pickle (protocol 4, plain data only) or as JSON of the same structure.
//
// A device of the file is one Snapshot, numbered in the given order. allocator_settings["tessera"] holds their names
// and policies. Labels are written as `user_metadata` of events, and as the only frame of a block or event without a
// call stack. The viewer replays the trace backwards from its end and fails on inconsistent events (a free of an
// unknown block, memory mapped twice). Such events of an incomplete record are omitted, so that the output always
// replays.
#pragma once

#include <cstdint>
#include <ostream>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "tessera/base/atomic_file.h"
#include "tessera/base/export.h"
#include "tessera/memory/snapshot.h"

namespace tessera::analysis {

/// One frame of a call stack.
struct Frame {
  std::string filename;    ///< Source file; without symbols, the module.
  std::uint32_t line = 0;  ///< Line; 0 if unknown.
  std::string name;        ///< Function; without symbols, "module+0x1f00".
};

/// Frames by recorded text, "module+0x1f00".
using Symbols = std::unordered_map<std::string, Frame>;

/// Splits a stack into its recorded frames ("module+0x1f00 module+0x20a4", innermost first).
TESSERA_API std::vector<std::string> split_stack(const std::string& stack);

/// Resolves every frame of the snapshots with addr2line, one run per module. Missing modules and frames without debug
/// information are omitted, and failures are added to `notes`. A module is searched at its path in Snapshot::modules,
/// otherwise by its name as a path.
TESSERA_API Symbols symbolize(std::span<const memory::Snapshot> snapshots, std::vector<std::string>* notes = nullptr);

/// Output format.
enum class TorchFormat : std::uint8_t {
  kPickle,  ///< Pickle of protocol 4.
  kJson,    ///< JSON of the same structure; tuples become lists.
};

/// Writes the snapshots. Throws InvalidArgument if a Snapshot is inconsistent, and IoError if the stream fails.
TESSERA_API void write_torch_snapshot(std::ostream& out, std::span<const memory::Snapshot> snapshots,
                                      TorchFormat format, const Symbols& symbols = {});

/// Writes the snapshots to a file atomically.
TESSERA_API void write_torch_snapshot_file(const std::string& path, std::span<const memory::Snapshot> snapshots,
                                           TorchFormat format, const Symbols& symbols = {},
                                           FileKind kind = FileKind::kUser);

}  // namespace tessera::analysis
