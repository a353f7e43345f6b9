// A store in a directory, for processes that share a file system and have no one to host a socket. Each key is a file,
// written aside and renamed, so that a reader sees a value whole; changes are made one at a time under a lock that the
// kernel lets go of when its holder dies. A process may be killed at any moment and leaves nothing that hurts.
//
//   directory/.users    held by every open store; who opens it alone starts afresh, who leaves last removes everything
//   directory/.lock     held by who changes something
//   directory/.aside    the value being written
//   directory/k<key>    "key\nvalue"; bytes that names cannot have as %xx; names too long for a file end in a hash
//
// Waits are woken by the kernel (inotify) and look again every 20 ms, since a network file system tells of nothing.
//
// The directory must belong to the user of this process, and no other user may write it. A new one has mode 0700. No
// file in it is opened through a symbolic link. Only the TCP store bounds the bytes of a client and of all clients: a
// file store is bounded by its file system.
#pragma once

#include <memory>
#include <string>

#include "tessera/base/export.h"
#include "tessera/comm/store/store.h"

namespace tessera::comm {

/// How a file store is opened.
struct FileStoreOptions {
  /// Values outlive the processes: who opens it alone finds what was left, who leaves last removes nothing.
  bool is_kept = false;
  /// How long a change waits for another process that is in the middle of one.
  std::chrono::nanoseconds lock_timeout = std::chrono::minutes(1);
};

/// A store in a directory.
class TESSERA_API FileStore final : public Store {
 public:
  /// Opens the store of this directory, which is made if it is not there; IoError when it cannot be, or when other
  /// users can write it.
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
