// Intercepts the file functions of the C library and logs operations on one directory. Included in one source of a
// separate program, whose definitions replace those of the library.
#pragma once

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <mutex>
#include <string>

#include "tessera/train/testing/crash_disk.h"

namespace tessera::train::testing {

/// Log of file operations. One object at a time.
class FileCalls {
 public:
  /// Starts to log operations on files below `directory`, which must exist.
  explicit FileCalls(std::string directory) : directory_(std::move(directory)), root_(inode_of(directory_)) {
    current() = this;
  }
  ~FileCalls() { current() = nullptr; }
  FileCalls(const FileCalls&) = delete;
  FileCalls& operator=(const FileCalls&) = delete;

  /// Records a value in the log.
  void mark(std::uint64_t value) { add({.kind = FileOperation::Kind::kMark, .offset = value}); }
  [[nodiscard]] const FileLog& log() const { return log_; }
  [[nodiscard]] ino_t root() const { return root_; }
  /// Makes the sync of this number fail with EIO; counted from 0.
  void fail_sync(std::int64_t number) { failing_sync_ = number; }
  [[nodiscard]] std::int64_t syncs() const { return syncs_; }

  static std::atomic<FileCalls*>& current() {
    static std::atomic<FileCalls*> calls = nullptr;
    return calls;
  }
  /// Returns the active log if this path is in the directory.
  static FileCalls* of(const char* path) {
    FileCalls* calls = current();
    return calls != nullptr && std::string(path).starts_with(calls->directory_) ? calls : nullptr;
  }
  /// Returns the active log if this is an open file or directory in the directory.
  static FileCalls* of(int descriptor) {
    FileCalls* calls = current();
    return calls != nullptr && !path_of(descriptor).empty() && of(path_of(descriptor).c_str()) != nullptr ? calls
                                                                                                          : nullptr;
  }
  static std::string path_of(int descriptor) {
    char path[4096];
    const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
    const ssize_t count = ::readlink(link.c_str(), path, sizeof path);
    return count > 0 ? std::string(path, static_cast<std::size_t>(count)) : std::string();
  }
  static std::string path_at(int directory, const char* path) {
    return path[0] == '/' || directory == AT_FDCWD ? path : path_of(directory) + "/" + path;
  }
  static ino_t inode_of(const std::string& path) {
    struct stat info = {};
    return ::lstat(path.c_str(), &info) == 0 ? info.st_ino : 0;
  }
  static ino_t inode_of(int descriptor) {
    struct stat info = {};
    return ::fstat(descriptor, &info) == 0 ? info.st_ino : 0;
  }
  static std::string parent_of(const std::string& path) { return path.substr(0, path.rfind('/')); }
  static std::string name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

  void add(FileOperation operation) {
    const std::lock_guard lock(mutex_);
    log_.push_back(std::move(operation));
  }
  void name(const std::string& path, bool is_directory) {
    add({.kind = FileOperation::Kind::kName,
         .directory = inode_of(parent_of(path)),
         .name = name_of(path),
         .file = inode_of(path),
         .is_directory = is_directory});
  }
  void unname(const std::string& path) {
    add({.kind = FileOperation::Kind::kUnname, .directory = inode_of(parent_of(path)), .name = name_of(path)});
  }
  void rename(const std::string& from, const std::string& to, bool is_exchange) {
    add({.kind = is_exchange ? FileOperation::Kind::kExchange : FileOperation::Kind::kRename,
         .directory = inode_of(parent_of(from)),
         .name = name_of(from),
         .file = inode_of(to),
         .to_directory = inode_of(parent_of(to)),
         .to_name = name_of(to),
         .other = is_exchange ? inode_of(from) : 0});
  }
  void write(int descriptor, std::uint64_t offset, const void* bytes, ssize_t count) {
    if (count <= 0) return;
    add({.kind = FileOperation::Kind::kWrite,
         .file = inode_of(descriptor),
         .offset = offset,
         .bytes = std::string(static_cast<const char*>(bytes), static_cast<std::size_t>(count))});
  }
  void resize(int descriptor, std::uint64_t nbytes) {
    add({.kind = FileOperation::Kind::kResize, .file = inode_of(descriptor), .offset = nbytes});
  }
  bool fails_next_sync() { return syncs_++ == failing_sync_; }

 private:
  std::string directory_;
  ino_t root_;
  std::mutex mutex_;
  FileLog log_;
  std::atomic<std::int64_t> syncs_ = 0;
  std::int64_t failing_sync_ = -1;
};

/// Returns the library function that the definition below replaces.
template <class F>
F* real(const char* name) {
  return reinterpret_cast<F*>(::dlsym(RTLD_NEXT, name));
}

inline int open_logged(int directory, const char* path, int flags, mode_t mode) {
  static auto* const next = real<int(int, const char*, int, ...)>("openat");
  const std::string whole = FileCalls::path_at(directory, path);
  FileCalls* calls = FileCalls::of(whole.c_str());
  const bool was_there = calls != nullptr && FileCalls::inode_of(whole) != 0;
  const int descriptor = next(directory, path, flags, mode);
  if (calls == nullptr || descriptor < 0) return descriptor;
  if ((flags & O_CREAT) != 0 && !was_there) calls->name(whole, false);
  if ((flags & O_TRUNC) != 0 && was_there) calls->resize(descriptor, 0);
  return descriptor;
}

inline int unlink_logged(int directory, const char* path, int flags) {
  static auto* const next = real<int(int, const char*, int)>("unlinkat");
  const std::string whole = FileCalls::path_at(directory, path);
  FileCalls* calls = FileCalls::of(whole.c_str());
  const int result = next(directory, path, flags);
  if (calls != nullptr && result == 0) calls->unname(whole);
  return result;
}

inline int rename_logged(const char* from, const char* to, unsigned flags) {
  static auto* const next = real<int(int, const char*, int, const char*, unsigned)>("renameat2");
  FileCalls* calls = FileCalls::of(to);
  const int result = next(AT_FDCWD, from, AT_FDCWD, to, flags);
  if (calls != nullptr && result == 0) calls->rename(from, to, (flags & RENAME_EXCHANGE) != 0);
  return result;
}

inline int sync_logged(int descriptor) {
  static auto* const next = real<int(int)>("fsync");
  FileCalls* calls = FileCalls::of(descriptor);
  if (calls == nullptr) return next(descriptor);
  if (calls->fails_next_sync()) {
    errno = EIO;
    return -1;
  }
  calls->add({.kind = FileOperation::Kind::kSync, .file = FileCalls::inode_of(descriptor)});
  return 0;
}

}  // namespace tessera::train::testing
