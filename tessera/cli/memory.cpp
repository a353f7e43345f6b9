// `tessera memory`: the memory records of a record file. This file lists its subcommands in declare().
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "tessera/analysis/memory/history_reader.h"
#include "tessera/base/bytes.h"
#include "tessera/base/error.h"
#include "tessera/base/probe/reader.h"
#include "tessera/cli/memory_verbs.h"
#include "tessera/cli/verb.h"

namespace tessera::cli {
namespace {

// A run directory contains a file or link rank-N.HOST.PID.X for each rank.
std::string record_in(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) return path;
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
    if (entry.path().filename().string().starts_with("rank-")) found.push_back(entry.path().string());
  }
  std::sort(found.begin(), found.end());
  TESSERA_CHECK_AS(IoError, !found.empty(), "run directory ", path, ": no record file of a rank found");
  TESSERA_CHECK_AS(IoError, found.size() == 1, "run directory ", path, ": must contain one record file, got ",
                   found.size(), "; name one of them, as in ", found.front());
  return found.front();
}

Body declare(Command& command) {
  const Body run_chosen = command.add_commands({
      {"dump", "Write a snapshot for the PyTorch memory viewer", declare_memory_dump},
      {"stat", "Show the memory of each allocator, pool and label", declare_memory_stat},
      {"top", "Show the largest labels, call sites and blocks", declare_memory_top},
      {"replay", "Replay a log of allocations with one or more policies", declare_memory_replay},
  });
  command.footer =
      "FILE is the record file of a rank, active or ended. A run directory has one per rank; `tessera info` lists the "
      "others.\n"
      "  tessera memory stat run/rank-0.node7.4242.a1\n"
      "  tessera memory dump run/rank-0.node7.4242.a1 -o snapshot.pickle    # open it at pytorch.org/memory_viz";
  return [run_chosen]() -> int {
    try {
      return run_chosen();
    } catch (const IoError& error) {  // a missing or invalid file: the source location does not matter
      std::fprintf(stderr, "tessera: %s\n", error.message().c_str());
      return kFailed;
    }
  };
}

const VerbRegistration kMemory({"memory", "Show the memory of a rank from its record file", declare});

}  // namespace

AllocatorRecords load_memory(const std::string& path) {
  AllocatorRecords file;
  file.path = record_in(path);
  const auto records = probe::RecordFile::open(file.path);
  file.snapshots = analysis::read_history(records, &file.notes);
  for (const std::string& problem : records.problems()) std::fprintf(stderr, "tessera: %s\n", problem.c_str());
  for (const std::string& note : file.notes) std::fprintf(stderr, "tessera: %s: %s\n", file.path.c_str(), note.c_str());
  file.notes.insert(file.notes.begin(), records.problems().begin(), records.problems().end());
  TESSERA_CHECK_AS(IoError, !file.snapshots.empty(), "record file ", file.path,
                   ": contains no memory records; the process created no allocator");
  return file;
}

analysis::Symbols symbols_of(const AllocatorRecords& file, bool is_wanted) {
  if (!is_wanted) return {};
  std::vector<std::string> notes;
  analysis::Symbols symbols = analysis::symbolize(file.snapshots, &notes);
  for (const std::string& note : notes) std::fprintf(stderr, "tessera: %s\n", note.c_str());
  return symbols;
}

std::string size_text(std::uint64_t nbytes, Style style) {
  return style.is_terminal ? format_bytes(nbytes) : std::to_string(nbytes);
}

std::string pool_text(const memory::Snapshot& snapshot, memory::PoolId pool) {
  for (const memory::PoolView& view : snapshot.pools) {
    if (view.id == pool && !view.name.empty()) return view.name;
  }
  return fmt::format("{}.{}", pool.graph, pool.user);
}

nlohmann::ordered_json to_json(const memory::Totals& totals) {
  return {{"reserved_nbytes", totals.reserved_nbytes}, {"live_nbytes", totals.live_nbytes},
          {"rounding_nbytes", totals.rounding_nbytes}, {"pending_nbytes", totals.pending_nbytes},
          {"cached_nbytes", totals.cached_nbytes},     {"live_blocks", totals.live_blocks},
          {"pending_blocks", totals.pending_blocks},   {"cached_blocks", totals.cached_blocks}};
}

}  // namespace tessera::cli
