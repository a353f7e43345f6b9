// Writes Snapshots as PyTorch's memory snapshot, which its viewer (pytorch.org/memory_viz) and its _memory_viz.py load:
// as pickle (protocol 4, plain data only) or as JSON of the same shape.
//
// A device of the file is one Snapshot, numbered in the order given; allocator_settings["tessera"] names them and holds
// their policies. Labels are written as `user_metadata` of events, and as the one frame of a block or event that has no
// call stack. The viewer replays the trace backwards from the state at its end and fails on events that do not fit (a
// free of a block that was never there, memory mapped twice); events that an incomplete record would leave so are left
// out, so that what is written always replays.
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

namespace tessera::memory {

/// One frame of a call stack.
struct Frame {
  std::string filename;    ///< source file; of a frame without symbols, the module
  std::uint32_t line = 0;  ///< 0: not known
  std::string name;        ///< function; without symbols, "module+0x1f00"
};

/// Frames by their recorded text, "module+0x1f00".
using Symbols = std::unordered_map<std::string, Frame>;

/// The recorded frames of a stack ("module+0x1f00 module+0x20a4", innermost first).
TESSERA_API std::vector<std::string> split_stack(const std::string& stack);

/// Looks up every frame of the snapshots with addr2line, one run a module. Modules that are not there, and frames
/// without debug information, are left out; what could not be done is added to `notes`. A module is looked
/// for where Snapshot::modules says, else by its name as a path.
TESSERA_API Symbols symbolize(std::span<const Snapshot> snapshots, std::vector<std::string>* notes = nullptr);

/// Which form to write.
enum class TorchFormat : std::uint8_t {
  kPickle,  ///< protocol 4
  kJson,    ///< the same shape; tuples become lists
};

/// Writes the snapshots. A Snapshot that is not consistent is an InvalidArgument; a stream that fails an IoError.
TESSERA_API void write_torch_snapshot(std::ostream& out, std::span<const Snapshot> snapshots, TorchFormat format,
                                      const Symbols& symbols = {});

/// Writes the snapshots to a file, as a whole or not at all.
TESSERA_API void write_torch_snapshot_file(const std::string& path, std::span<const Snapshot> snapshots,
                                           TorchFormat format, const Symbols& symbols = {},
                                           FileKind kind = FileKind::kUser);

}  // namespace tessera::memory
