#include "tessera/comm/store/file_store.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <functional>
#include <system_error>
#include <thread>

#include "tessera/base/error.h"
#include "tessera/base/fork.h"
#include "tessera/base/log.h"
#include "tessera/comm/store/descriptor.h"
#include "tessera/comm/store/detail/deadline.h"
#include "tessera/comm/store/detail/file_names.h"
#include "tessera/comm/store/detail/store_table.h"

namespace tessera::comm {
namespace {

using detail::Clock;
using detail::Descriptor;

constexpr std::chrono::milliseconds kLookAgain(20);
constexpr std::size_t kMaxFileBytes = Store::kMaxKeyBytes + 1 + Store::kMaxValueBytes;
constexpr int kLockFile = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW;

// Uses locks of an open file, not of a process: threads with separate open files exclude each other like processes.
bool try_lock(int fd, short kind) {
  struct flock lock = {};
  lock.l_type = kind;
  lock.l_whence = SEEK_SET;
  for (;;) {
    if (::fcntl(fd, F_OFD_SETLK, &lock) == 0) return true;
    if (errno == EINTR) continue;
    TESSERA_CHECK_AS(IoError, errno == EAGAIN || errno == EACCES, "file store: locking failed: ", std::strerror(errno),
                     "; the file system must support locks");
    return false;
  }
}

// The kernel can wait for a lock, but not with a deadline, and the holder may be stopped forever.
bool lock_until(int fd, short kind, Clock::time_point deadline) {
  std::chrono::microseconds pause(20);
  while (!try_lock(fd, kind)) {
    if (Clock::now() >= deadline) return false;
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(1000));
  }
  return true;
}

// Must not block on a FIFO, or read a device forever.
std::optional<std::string> read_file(int directory, const std::string& name) {
  const Descriptor file(::openat(directory, name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file) {
    TESSERA_CHECK_AS(IoError, errno == ENOENT, "file store: reading ", name, ": ", std::strerror(errno));
    return std::nullopt;
  }
  struct stat info = {};
  TESSERA_CHECK_AS(IoError, ::fstat(file.get(), &info) == 0 && S_ISREG(info.st_mode), "file store: ", name,
                   " must be a regular file; something else writes in this directory");
  std::string bytes;
  char piece[16384];
  for (;;) {
    const ssize_t got = ::read(file.get(), piece, sizeof piece);
    if (got < 0 && errno == EINTR) continue;
    TESSERA_CHECK_AS(IoError, got >= 0, "file store: reading ", name, ": ", std::strerror(errno));
    if (got == 0) return bytes;
    bytes.append(piece, static_cast<std::size_t>(got));
    TESSERA_CHECK_AS(IoError, bytes.size() <= kMaxFileBytes, "file store: ", name, " must have at most ", kMaxFileBytes,
                     " bytes; something else writes in this directory");
  }
}

void write_all(int fd, std::string_view bytes, const std::string& name) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(fd, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    TESSERA_CHECK_AS(IoError, put > 0, "file store: writing ", name, ": ", std::strerror(errno));
    bytes.remove_prefix(static_cast<std::size_t>(put));
  }
}

}  // namespace

struct FileStore::State {
  OwnerProcess owner = {};
  std::string path;
  FileStoreOptions options;
  Descriptor directory;
  Descriptor users;

  void open();
  void check_is_ours() const;
  void check_is_store() const;
  bool join();
  void leave() noexcept;
  void clear() const;
  [[nodiscard]] Descriptor lock() const;
  [[nodiscard]] std::optional<std::string> read(std::string_view key) const;
  void write(std::string_view key, std::string_view value) const;
  [[nodiscard]] std::vector<std::string> names() const;
  [[nodiscard]] std::vector<std::string> missing(std::span<const std::string> keys) const;
};

// The last user may remove the directory at any step of this; it then starts again.
void FileStore::State::open() {
  const auto deadline = Clock::now() + options.lock_timeout;
  while (!join()) {
    TESSERA_CHECK_AS(TimeoutError, Clock::now() < deadline, "file store in ", path, ": ", path,
                     "/.users stayed locked for ", options.lock_timeout, "; check for a stopped process that opens it");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// Another user with write access to the directory could choose the values, and the files that we replace.
void FileStore::State::check_is_ours() const {
  struct stat info = {};
  TESSERA_CHECK_AS(IoError, ::fstat(directory.get(), &info) == 0, "file store: ", path, ": ", std::strerror(errno));
  TESSERA_CHECK_AS(IoError, info.st_uid == ::geteuid(), "file store: the directory ", path, " must belong to user ",
                   ::geteuid(), ", got user ", info.st_uid, "; name another directory");
  TESSERA_CHECK_AS(IoError, (info.st_mode & (S_IWGRP | S_IWOTH)) == 0, "file store: no other user may write ", path,
                   "; run `chmod go-w ", path, "`, or name another directory");
}

// Files in a directory that was not a store belong to others, and must not be mistaken for values.
void FileStore::State::check_is_store() const {
  const auto has_users = [&] { return ::faccessat(directory.get(), ".users", F_OK, 0) == 0; };
  if (has_users() || names().empty()) return;
  TESSERA_CHECK_AS(IoError, has_users(), "file store: ", path,
                   " contains other files and is not a store; name an empty or new directory");
}

bool FileStore::State::join() {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST && !error) error = {errno, std::generic_category()};
  directory.reset(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!directory && errno == ENOENT && !error) return false;
  TESSERA_CHECK_AS(IoError, directory, "file store: cannot open the directory ", path, ": ",
                   error ? error.message() : std::strerror(errno), "; it must be a directory and not a symbolic link");
  check_is_ours();
  check_is_store();
  users.reset(::openat(directory.get(), ".users", kLockFile, 0600));
  if (!users && errno == ENOENT) return false;
  TESSERA_CHECK_AS(IoError, users, "file store: cannot write in ", path, ": ", std::strerror(errno));
  const bool is_alone = try_lock(users.get(), F_WRLCK);
  if (!is_alone && !try_lock(users.get(), F_RDLCK)) return false;
  struct stat held = {};
  struct stat named = {};
  const bool is_current = ::fstat(users.get(), &held) == 0 &&
                          ::fstatat(directory.get(), ".users", &named, AT_SYMLINK_NOFOLLOW) == 0 &&
                          held.st_ino == named.st_ino;
  if (!is_current) return false;
  if (is_alone) {
    if (!options.is_kept) clear();
    return try_lock(users.get(), F_RDLCK);
  }
  return true;
}

void FileStore::State::leave() noexcept {
  try {
    if (options.is_kept || !try_lock(users.get(), F_WRLCK)) return;
    clear();
    ::unlinkat(directory.get(), ".lock", 0);
    ::unlinkat(directory.get(), ".aside", 0);
    ::unlinkat(directory.get(), ".users", 0);
    ::rmdir(path.c_str());  // fails if it has other files: then it stays
  } catch (const std::exception& error) {
    log::warn("file store in ", path, " could not be removed: ", error.what());
  }
}

void FileStore::State::clear() const {
  for (const std::string& name : names()) ::unlinkat(directory.get(), name.c_str(), 0);
}

Descriptor FileStore::State::lock() const {
  owner.check("store");
  Descriptor file(::openat(directory.get(), ".lock", kLockFile, 0600));
  TESSERA_CHECK_AS(IoError, file, "file store in ", path, ": ", std::strerror(errno));
  TESSERA_CHECK_AS(TimeoutError, lock_until(file.get(), F_WRLCK, detail::deadline_after(options.lock_timeout)),
                   "file store in ", path, ": ", path, "/.lock stayed locked for ", options.lock_timeout,
                   "; check for a stopped process that has it open");
  return file;
}

std::optional<std::string> FileStore::State::read(std::string_view key) const {
  owner.check("store");
  const std::string name = detail::file_name_of(key);
  std::optional<std::string> bytes = read_file(directory.get(), name);
  if (!bytes) return std::nullopt;
  const bool is_of_key = bytes->size() > key.size() && bytes->starts_with(key) && (*bytes)[key.size()] == '\n';
  TESSERA_CHECK_AS(IoError, is_of_key, "file store: ", path, "/", name, " does not hold key '", key,
                   "'; something else writes in this directory");
  bytes->erase(0, key.size() + 1);
  return bytes;
}

// Called only under the lock: there is one temporary file, and one of a dead process is removed.
void FileStore::State::write(std::string_view key, std::string_view value) const {
  const std::string name = detail::file_name_of(key);
  {
    (void)::unlinkat(directory.get(), ".aside", 0);
    constexpr int kNew = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
    const Descriptor aside(::openat(directory.get(), ".aside", kNew, 0600));
    TESSERA_CHECK_AS(IoError, aside, "file store in ", path, ": ", std::strerror(errno));
    write_all(aside.get(), std::string(key) + "\n", path + "/.aside");
    write_all(aside.get(), value, path + "/.aside");
  }
  TESSERA_CHECK_AS(IoError, ::renameat(directory.get(), ".aside", directory.get(), name.c_str()) == 0, "file store in ",
                   path, ": renaming to ", name, ": ", std::strerror(errno));
}

std::vector<std::string> FileStore::State::names() const {
  // Opens a separate descriptor, since listings of one descriptor share their position. A directory that was removed
  // meanwhile is empty.
  const int own = ::openat(directory.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (own < 0 && errno == ENOENT) return {};
  DIR* stream = own < 0 ? nullptr : ::fdopendir(own);
  TESSERA_CHECK_AS(IoError, stream != nullptr, "file store in ", path, ": ", std::strerror(errno));
  std::vector<std::string> found;
  while (const dirent* entry = ::readdir(stream)) {
    if (entry->d_name[0] != '.') found.emplace_back(entry->d_name);
  }
  ::closedir(stream);
  return found;
}

std::vector<std::string> FileStore::State::missing(std::span<const std::string> keys) const {
  std::vector<std::string> none;
  for (const std::string& key : keys) {
    if (::faccessat(directory.get(), detail::file_name_of(key).c_str(), F_OK, 0) != 0) none.push_back(key);
  }
  return none;
}

FileStore::FileStore(const std::string& directory, const FileStoreOptions& options)
    : state_(std::make_unique<State>()) {
  TESSERA_CHECK(!directory.empty(), "file store: the directory name must not be empty");
  std::filesystem::path path = std::filesystem::absolute(directory).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();  // "dir/"
  state_->path = path.string();
  state_->options = options;
  state_->open();
}

FileStore::~FileStore() {
  if (state_->owner.is_this()) state_->leave();
}

void FileStore::set(std::string_view key, std::string_view value) {
  check_key(key);
  check_value(key, value);
  const Descriptor lock = state_->lock();
  state_->write(key, value);
}

std::optional<std::string> FileStore::find(std::string_view key) {
  check_key(key);
  return state_->read(key);
}

std::int64_t FileStore::add(std::string_view key, std::int64_t by) {
  check_key(key);
  const Descriptor lock = state_->lock();
  const std::int64_t sum = detail::added(key, state_->read(key), by);
  state_->write(key, std::to_string(sum));
  return sum;
}

std::optional<std::string> FileStore::compare_set(std::string_view key, std::optional<std::string_view> expected,
                                                  std::string_view desired) {
  check_key(key);
  check_value(key, desired);
  if (expected) check_value(key, *expected);
  const Descriptor lock = state_->lock();
  std::optional<std::string> old = state_->read(key);
  const bool is_as_expected = old ? expected && *old == *expected : !expected;
  if (!is_as_expected) return old;
  state_->write(key, desired);
  return std::string(desired);
}

void FileStore::wait(std::span<const std::string> keys, std::chrono::nanoseconds timeout) {
  for (const std::string& key : keys) check_key(key);
  const auto deadline = detail::deadline_after(timeout);
  if (state_->missing(keys).empty()) return;
  // Watches before the next check, so that no change is missed. If the kernel has no watch left, sleeps.
  const Descriptor watch(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  if (watch) ::inotify_add_watch(watch.get(), state_->path.c_str(), IN_MOVED_TO);
  for (;;) {
    const std::vector<std::string> missing = state_->missing(keys);
    if (missing.empty()) return;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0 && Clock::now() >= deadline) detail::throw_timeout(text(), keys.size(), missing, timeout);
    pollfd ready = {watch.get(), POLLIN, 0};
    const auto pause = std::clamp(left, std::chrono::milliseconds(1), kLookAgain);
    ::poll(&ready, watch ? 1 : 0, static_cast<int>(pause.count()));
    char events[4096];
    while (watch && ::read(watch.get(), events, sizeof events) > 0) {
    }
  }
}

bool FileStore::remove(std::string_view key) {
  check_key(key);
  const Descriptor lock = state_->lock();
  const std::string name = detail::file_name_of(key);
  if (::unlinkat(state_->directory.get(), name.c_str(), 0) == 0) return true;
  TESSERA_CHECK_AS(IoError, errno == ENOENT, "file store in ", state_->path, ": removing ", name, ": ",
                   std::strerror(errno));
  return false;
}

std::vector<std::string> FileStore::keys(std::string_view prefix) {
  std::vector<std::string> found;
  for (const std::string& name : state_->names()) {
    std::optional<std::string> key = detail::key_of(name);
    if (!key) {
      const std::optional<std::string> bytes = read_file(state_->directory.get(), name);
      if (!bytes) continue;  // removed since
      key = bytes->substr(0, bytes->find('\n'));
    }
    if (key->starts_with(prefix)) found.push_back(*std::move(key));
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::string FileStore::text() const { return "file store in " + state_->path; }

}  // namespace tessera::comm
