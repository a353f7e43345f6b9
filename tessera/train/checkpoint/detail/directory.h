// The directory of a run's checkpoints: what lies in it, and how a checkpoint comes and goes. Both are one rename, so
// that whoever looks sees a whole checkpoint or none: what is being written is called .partial, what is being removed
// or was replaced .removed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace tessera::train::detail {

/// A checkpoint by its name alone.
struct NamedStep {
  std::int64_t step = 0;       ///< by its name
  std::filesystem::path path;  ///< of its directory
};

/// What lies in a directory of checkpoints, by name, the newest first.
struct DirectoryEntries {
  std::vector<NamedStep> checkpoints;  ///< step-N
  std::vector<NamedStep> partials;     ///< step-N.partial
  std::vector<NamedStep> removed;      ///< step-N.removed: once good, and half gone
};
/// Nothing when there is no such directory.
DirectoryEntries entries_of(const std::filesystem::path& directory);

/// Makes the directory and those above it, if they are missing, durably and with the access of its run directory:
/// private outside of one. IoError with the way out.
void make_directory(const std::filesystem::path& directory);
/// Makes the directory, as make_directory(), and keeps other writers of checkpoints out of it until the result goes or
/// this process ends, however that happens. A file system that has no locks keeps nobody out. IoError with the way out.
std::shared_ptr<void> open_directory(const std::filesystem::path& directory);
/// Where a checkpoint is written aside.
std::filesystem::path partial_of(const std::filesystem::path& directory, std::int64_t step);
/// Removes what is left of writers that died, with a word for each that was being written.
void remove_leftovers(const std::filesystem::path& directory);
/// Makes what a checkpoint is written to aside, in an open directory, which it does not make again. IoError.
void make_partial(const std::filesystem::path& directory, std::int64_t step);
/// Puts what was written aside in its place, over one of the same step, and makes that durable. The last of its files
/// came by write_file, which has synced the directory itself.
void put_in_place(const std::filesystem::path& directory, std::int64_t step);
/// Removes checkpoints older than the last `keep` up to `step`, which has just been written and stays. Later ones,
/// which another run or an earlier life of this one left, are not counted and not touched.
void keep_last(const std::filesystem::path& directory, std::int64_t step, int keep);

}  // namespace tessera::train::detail
