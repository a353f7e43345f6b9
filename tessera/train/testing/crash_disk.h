// Simulates the contents of a disk after a machine crash. A log of file operations is replayed up to some point: synced
// operations are present, any of the others may be missing in any order, and writes may be torn. The sync of a
// directory covers its names, the sync of a file its bytes. Real file systems guarantee more, but the code under test
// must not need it.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace tessera::train::testing {

/// An operation on files, by inodes.
struct FileOperation {
  /// Kind of an operation.
  enum class Kind : std::uint8_t {
    kName,      ///< `file` got the name `name` in `directory`. `is_directory`: it is a new directory.
    kUnname,    ///< The name was removed.
    kRename,    ///< `file` moved from `name` in `directory` to `to_name` in `to_directory`.
    kExchange,  ///< It was exchanged with `other`.
    kWrite,     ///< `bytes` were written at `offset` of `file`.
    kResize,    ///< `file` was resized to `offset` bytes.
    kSync,      ///< Sync of `file`, or of a directory.
    kMark,      ///< No operation: a value that the test recorded, in `offset`.
  };
  Kind kind = Kind::kMark;
  ino_t directory = 0;
  std::string name = {};
  ino_t file = 0;
  ino_t to_directory = 0;
  std::string to_name = {};
  ino_t other = 0;
  std::uint64_t offset = 0;
  std::string bytes = {};
  bool is_directory = false;
};
using FileLog = std::vector<FileOperation>;

/// Returns the newest mark before `point`, or `none`.
inline std::uint64_t mark_before(const FileLog& log, std::size_t point, std::uint64_t none) {
  for (std::size_t i = point; i-- > 0;) {
    if (log[i].kind == FileOperation::Kind::kMark) return log[i].offset;
  }
  return none;
}

/// The disk after a crash.
class CrashDisk {
 public:
  /// Simulates a crash before operation `point` of the log. `seed` selects the unsynced operations that are present.
  /// `root` is the logged directory.
  CrashDisk(const FileLog& log, std::size_t point, std::uint64_t seed, ino_t root) : root_(root), random_(seed) {
    static constexpr unsigned kKept[] = {0, 100, 50, 90, 10};
    const unsigned kept = kKept[seed % std::size(kKept)];
    names_[root];
    std::map<ino_t, std::size_t> synced;  // last sync, by file or directory
    for (std::size_t i = 0; i < point; ++i) {
      if (log[i].kind == FileOperation::Kind::kSync) synced[log[i].file] = i;
    }
    const auto is_covered = [&](ino_t file, std::size_t i) {
      const auto found = synced.find(file);
      return found != synced.end() && found->second > i;
    };
    for (std::size_t i = 0; i < point; ++i) {
      const FileOperation& each = log[i];
      const bool is_of_bytes = each.kind == FileOperation::Kind::kWrite || each.kind == FileOperation::Kind::kResize;
      const bool is_moved = each.kind == FileOperation::Kind::kRename || each.kind == FileOperation::Kind::kExchange;
      const bool is_durable = is_of_bytes
                                  ? is_covered(each.file, i)
                                  : is_covered(each.directory, i) && (!is_moved || is_covered(each.to_directory, i));
      if (is_durable || random_() % 100 < kept) apply(each, is_durable || random_() % 2 == 0);
    }
  }

  /// Writes the contents to a directory, which is replaced.
  void write_to(const std::filesystem::path& path) const {
    std::filesystem::remove_all(path);
    write(root_, path);
  }

 private:
  void apply(const FileOperation& each, bool is_whole) {
    switch (each.kind) {
      case FileOperation::Kind::kName:
        names_[each.directory][each.name] = each.file;
        if (each.is_directory) names_[each.file];
        break;
      case FileOperation::Kind::kUnname: names_[each.directory].erase(each.name); break;
      case FileOperation::Kind::kRename:
        std::erase_if(names_[each.directory],
                      [&](const auto& named) { return named.first == each.name && named.second == each.file; });
        names_[each.to_directory][each.to_name] = each.file;
        break;
      case FileOperation::Kind::kExchange:
        names_[each.directory][each.name] = each.other;
        names_[each.to_directory][each.to_name] = each.file;
        break;
      case FileOperation::Kind::kWrite: write_bytes(each, is_whole); break;
      case FileOperation::Kind::kResize: bytes_[each.file].resize(each.offset); break;
      default: break;
    }
  }
  // A torn write: some sectors are missing, and read as zeros or as before.
  void write_bytes(const FileOperation& each, bool is_whole) {
    constexpr std::size_t kSector = 512;
    std::string& to = bytes_[each.file];
    to.resize(std::max<std::size_t>(to.size(), each.offset + each.bytes.size()));
    for (std::size_t at = 0; at < each.bytes.size();) {
      const std::size_t end = std::min(each.bytes.size(), at + kSector - (each.offset + at) % kSector);
      if (is_whole || random_() % 2 == 0) to.replace(each.offset + at, end - at, each.bytes, at, end - at);
      at = end;
    }
  }
  // NOLINTNEXTLINE(misc-no-recursion): as deep as the directories
  void write(ino_t directory, const std::filesystem::path& path) const {
    std::filesystem::create_directories(path);
    for (const auto& [name, file] : names_.at(directory)) {
      if (names_.contains(file)) {
        write(file, path / name);
        continue;
      }
      const auto bytes = bytes_.find(file);
      std::ofstream(path / name, std::ios::binary) << (bytes == bytes_.end() ? std::string() : bytes->second);
    }
  }

  ino_t root_;
  std::mt19937_64 random_;
  std::map<ino_t, std::map<std::string, ino_t>> names_;  // by directory
  std::map<ino_t, std::string> bytes_;                   // by file
};

}  // namespace tessera::train::testing
