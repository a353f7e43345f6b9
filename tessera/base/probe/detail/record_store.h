// The bytes of a record file: made on tmpfs, every page allocated before it is touched (so a full tmpfs is an error
// here and never a SIGBUS later), mapped shared so that they outlive the process, linked from the run directory, and
// copied there or removed at the end. Knows nothing of what the sections hold beyond where they lie.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "tessera/base/probe/detail/layout.h"
#include "tessera/base/probe/options.h"
#include "tessera/base/rank.h"

namespace tessera::probe::detail {

/// posix_fallocate, or what a test puts in its place: 0 or an errno.
using Allocate = std::function<int(int fd, std::uint64_t nbytes)>;
int allocate_file(int fd, std::uint64_t nbytes);

/// Divides a file of `nbytes` among its sections.
FilePlan plan_file(std::uint64_t nbytes);

class RecordStore {
 public:
  /// Makes the file. Null when it cannot be and the options allow that; `status` then says why, and otherwise where the
  /// file is and what had to give. The magic is not written yet: call publish() when the sections are ready.
  static std::unique_ptr<RecordStore> create(const RecordOptions& options, const RankPlace& place, std::string& status,
                                             const Allocate& allocate = allocate_file);
  /// Unmaps. The file stays unless removed.
  ~RecordStore();
  RecordStore(const RecordStore&) = delete;
  RecordStore& operator=(const RecordStore&) = delete;

  [[nodiscard]] std::byte* base() const { return base_; }
  [[nodiscard]] FileHeader& header() const { return *reinterpret_cast<FileHeader*>(base_); }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::byte* section(SectionType type, std::uint32_t number, std::uint64_t* nbytes) const;

  /// From here on the file is a record file.
  void publish();
  /// Puts a link to the file into `run_dir`; false and a word in `status` when that fails. Before, moves the records of
  /// killed processes into their run directories.
  bool link_from(const std::string& run_dir, std::string& status);
  /// Replaces the link by a copy of the file as it is now, written aside and renamed. Throws IoError; also if the run
  /// directory was replaced by another.
  void copy_to_run_dir();
  [[nodiscard]] const std::string& run_path() const { return run_path_; }
  void remove();

 private:
  RecordStore() = default;
  std::byte* base_ = nullptr;
  std::uint64_t nbytes_ = 0;
  int fd_ = -1;
  std::string path_;
  std::string run_path_;        // the link, later the copy; empty: no run directory
  struct ::stat run_dir_ = {};  // of the run directory when the link was made
};

}  // namespace tessera::probe::detail
