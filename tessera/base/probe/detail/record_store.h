// The memory of a record file: created on tmpfs with every page allocated before use (so a full tmpfs is an error here
// and never a SIGBUS later), mapped shared so that it outlives the process, linked from the run directory, and copied
// there or removed at the end. Of the sections, it knows only the positions.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "tessera/base/probe/layout.h"
#include "tessera/base/probe/options.h"
#include "tessera/base/rank.h"

namespace tessera::probe::detail {

/// posix_fallocate, or the replacement of a test. Returns 0 or an errno.
using Allocate = std::function<int(int fd, std::uint64_t nbytes)>;
int allocate_file(int fd, std::uint64_t nbytes);

/// Divides a file of `nbytes` among its sections.
FilePlan plan_file(std::uint64_t nbytes);

class RecordStore {
 public:
  /// Creates the file. Returns null if that fails and the options allow it; `status` then has the reason, otherwise the
  /// path and any reductions. The magic is not written yet: call publish() when the sections are ready.
  static std::unique_ptr<RecordStore> create(const RecordOptions& options, const RankPlace& place, std::string& status,
                                             const Allocate& allocate = allocate_file);
  /// Unmaps the file. The file stays unless removed.
  ~RecordStore();
  RecordStore(const RecordStore&) = delete;
  RecordStore& operator=(const RecordStore&) = delete;

  [[nodiscard]] std::byte* base() const { return base_; }
  [[nodiscard]] FileHeader& header() const { return *reinterpret_cast<FileHeader*>(base_); }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::byte* section(SectionType type, std::uint32_t number, std::uint64_t* nbytes) const;

  /// Makes the file a valid record file.
  void publish();
  /// Links the file from `run_dir`. Returns false and sets `status` if that fails. First moves the records of killed
  /// processes into their run directories.
  bool link_from(const std::string& run_dir, std::string& status);
  /// Replaces the link by a copy of the current file, written to a temporary file and renamed. Throws IoError, also if
  /// another directory has replaced the run directory.
  void copy_to_run_dir();
  [[nodiscard]] const std::string& run_path() const { return run_path_; }
  void remove();

 private:
  RecordStore() = default;
  std::byte* base_ = nullptr;
  std::uint64_t nbytes_ = 0;
  int fd_ = -1;
  std::string path_;
  std::string run_path_;        // the link, later the copy; empty if there is no run directory
  struct ::stat run_dir_ = {};  // of the run directory when the link was created
};

}  // namespace tessera::probe::detail
