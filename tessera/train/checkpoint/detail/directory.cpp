#include "tessera/train/checkpoint/detail/directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <string_view>
#include <system_error>

#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/base/run_directory.h"
#include "tessera/base/sync_directory.h"
#include "tessera/train/checkpoint/detail/index.h"
#include "tessera/train/checkpoint/detail/shard_file.h"

namespace tessera::train::detail {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kPartial = ".partial";
constexpr std::string_view kRemoved = ".removed";

void remove_quietly(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) log::warn("checkpoints: ", path.string(), " cannot be removed: ", error.message());
}

// Hides a checkpoint by one rename before its files are removed one by one.
void remove_checkpoint(const fs::path& path, const fs::path& aside) {
  std::error_code error;
  if (fs::exists(aside, error)) remove_quietly(aside);
  fs::rename(path, aside, error);
  remove_quietly(error ? path : aside);
}

fs::path removed_of(const fs::path& directory, std::int64_t step) {
  return directory / (step_name(step) + std::string(kRemoved));
}

}  // namespace

DirectoryEntries entries_of(const fs::path& directory) {
  DirectoryEntries entries;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    const std::string whole = it->path().filename().string();
    std::string_view name = whole;
    auto* list = &entries.checkpoints;
    if (name.ends_with(kPartial)) list = &entries.partials;
    if (name.ends_with(kRemoved)) list = &entries.removed;
    if (list != &entries.checkpoints) name = name.substr(0, name.rfind('.'));
    const std::optional<std::int64_t> step = step_of_name(name);
    if (step) list->push_back({*step, it->path()});
  }
  const auto newest_first = [](const NamedStep& a, const NamedStep& b) { return a.step > b.step; };
  std::ranges::sort(entries.checkpoints, newest_first);
  std::ranges::sort(entries.partials, newest_first);
  return entries;
}

void make_directory(const fs::path& directory) {
  std::error_code none;
  if (fs::is_directory(directory, none)) return;
  try {
    const fs::path above = directory.parent_path();
    fs::is_directory(above, none) ? make_run_subdirectory(directory) : make_run_directory(directory);
  } catch (const IoError& error) {
    TESSERA_THROW(IoError, "cannot create directory '", directory.string(), "': ", error.message(),
                  "; make it writable, or use another directory");
  }
}

std::shared_ptr<void> open_directory(const fs::path& directory) {
  make_directory(directory);
  const std::shared_ptr<int> descriptor(new int(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)),
                                        [](const int* open) {
                                          if (*open >= 0) ::close(*open);
                                          delete open;
                                        });
  const bool is_taken = *descriptor >= 0 && ::flock(*descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  TESSERA_CHECK_AS(IoError, !is_taken, "'", directory.string(),
                   "' is in use by another run; give each run a separate directory of checkpoints");
  return descriptor;
}

fs::path partial_of(const fs::path& directory, std::int64_t step) {
  return directory / (step_name(step) + std::string(kPartial));
}

void remove_leftovers(const fs::path& directory) {
  const DirectoryEntries entries = entries_of(directory);
  for (const NamedStep& left : entries.removed) remove_quietly(left.path);
  for (const NamedStep& left : entries.partials) {
    log::warn("checkpoints: ", left.path.string(), " is a leftover of a dead writer; removed");
    remove_quietly(left.path);
  }
}

void make_partial(const fs::path& directory, std::int64_t step) { make_run_subdirectory(partial_of(directory, step)); }

void put_in_place(const fs::path& directory, std::int64_t step) {
  const fs::path aside = partial_of(directory, step);
  const fs::path place = directory / step_name(step);
  // Exchanges an existing one with the new one, in one step if the file system supports it.
  const bool is_exchanged = ::renameat2(AT_FDCWD, aside.c_str(), AT_FDCWD, place.c_str(), RENAME_EXCHANGE) == 0;
  std::error_code error;
  if (!is_exchanged) {
    const fs::path old = removed_of(directory, step);
    if (fs::exists(place, error)) fs::rename(place, old, error);
    fs::rename(aside, place, error);
    TESSERA_CHECK_AS(IoError, !error, "cannot rename to '", place.string(), "': ", error.message(),
                     way_out(error.value()));
    if (fs::exists(old, error)) remove_quietly(old);
  }
  sync_directory(directory.string());
  if (is_exchanged) remove_checkpoint(aside, removed_of(directory, step));
}

void keep_last(const fs::path& directory, std::int64_t step, int keep) {
  int kept = 0;
  for (const NamedStep& each : entries_of(directory).checkpoints) {
    if (each.step > step) continue;
    if (each.step == step || kept < keep) {
      ++kept;
      continue;
    }
    remove_checkpoint(each.path, removed_of(directory, each.step));
  }
}

}  // namespace tessera::train::detail
