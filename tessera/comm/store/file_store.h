// A store in a directory, for processes that share a file system. Each key is a file that is written to a temporary
// file and renamed, so that readers always see a complete value. Changes are made one at a time under a file lock,
// which the kernel releases if its holder dies. A killed process leaves the store usable.
//
//   directory/.users    locked by every open store; the first user clears the store, the last user removes all files
//   directory/.lock     locked during a change
//   directory/.aside    the temporary file
//   directory/k<key>    "key\nvalue"; bytes not allowed in file names are written as %xx; long names end in a hash
//
// The kernel wakes waits (inotify). Waits also poll every 20 ms, since network file systems send no notifications.
//
// The directory must belong to the user of this process, and no other user may write it. A new directory has mode 0700.
// Files in it are never opened through symbolic links. A file store is bounded only by its file system, not by the byte
// limits of the TCP store.
#pragma once

#include <memory>
#include <string>

#include "tessera/base/export.h"
#include "tessera/comm/store/store.h"

namespace tessera::comm {

/// Options of a file store.
struct FileStoreOptions {
  /// Keeps the values after all processes have closed the store: the first user finds them, the last user removes
  /// nothing.
  bool is_kept = false;
  /// How long a change waits for a change of another process.
  std::chrono::nanoseconds lock_timeout = std::chrono::minutes(1);
};

/// A store in a directory.
class TESSERA_API FileStore final : public Store {
 public:
  /// Opens the store in this directory, which is created if it does not exist. Throws IoError if it cannot be created,
  /// or if other users can write it.
  explicit FileStore(const std::string& directory, const FileStoreOptions& options = {});
  ~FileStore() override;
  FileStore(const FileStore&) = delete;
  FileStore& operator=(const FileStore&) = delete;

  void set(std::string_view key, std::string_view value) override;
  std::optional<std::string> find(std::string_view key) override;
  std::int64_t add(std::string_view key, std::int64_t by) override;
  std::optional<std::string> compare_set(std::string_view key, std::optional<std::string_view> expected,
                                         std::string_view desired) override;
  void wait(std::span<const std::string> keys, std::chrono::nanoseconds timeout) override;
  bool remove(std::string_view key) override;
  std::vector<std::string> keys(std::string_view prefix) override;
  [[nodiscard]] std::string text() const override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera::comm
