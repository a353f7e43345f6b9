// The directory of the checkpoints of a run. A checkpoint appears and disappears by one rename, so that readers see a
// complete checkpoint or none. A checkpoint in progress is named .partial, one being removed or replaced .removed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace tessera::train::detail {

/// A checkpoint by its name alone.
struct NamedStep {
  std::int64_t step = 0;       ///< Step in the name.
  std::filesystem::path path;  ///< Path of the directory.
};

/// Contents of a directory of checkpoints, by name, the newest first.
struct DirectoryEntries {
  std::vector<NamedStep> checkpoints;  ///< step-N
  std::vector<NamedStep> partials;     ///< step-N.partial
  std::vector<NamedStep> removed;      ///< step-N.removed: was valid, and is partly removed.
};
/// Lists a directory. Returns nothing if it does not exist.
DirectoryEntries entries_of(const std::filesystem::path& directory);

/// Creates the directory and its parents, if needed, durably and with the access mode of its run directory; private
/// outside of one. Throws IoError with a fix.
void make_directory(const std::filesystem::path& directory);
/// Creates the directory, as make_directory(), and locks it against other writers until the result is destroyed or this
/// process ends in any way. File systems without locks do not exclude other writers. Throws IoError with a fix.
std::shared_ptr<void> open_directory(const std::filesystem::path& directory);
/// Returns the path of a checkpoint in progress.
std::filesystem::path partial_of(const std::filesystem::path& directory, std::int64_t step);
/// Removes leftovers of dead writers, with a warning for each checkpoint in progress.
void remove_leftovers(const std::filesystem::path& directory);
/// Creates the directory of a checkpoint in progress, in an open directory, which is not created again. Throws IoError.
void make_partial(const std::filesystem::path& directory, std::int64_t step);
/// Renames a checkpoint in progress to its final name, replaces one of the same step, and makes the rename durable. The
/// last file was written by write_file, which synced the directory itself.
void put_in_place(const std::filesystem::path& directory, std::int64_t step);
/// Removes checkpoints older than the last `keep` up to `step`, which was just written and stays. Later checkpoints,
/// from another run or an earlier start, are neither counted nor removed.
void keep_last(const std::filesystem::path& directory, std::int64_t step, int keep);

}  // namespace tessera::train::detail
