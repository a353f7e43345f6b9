// Memory of the host device: one memory file per device, cut into stretches first fit, mapped wherever it is asked for.
//
//   memory file   [ A A A | B | free | C C ]           offsets in granules; a stretch given back is a hole: zero again
//                     \__________ mapped at reserved addresses, maybe twice, maybe in another process too
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "tessera/device/backend.h"

namespace tessera::device::host::detail {

/// Unit of sizes and offsets.
inline constexpr std::size_t kGranularity = std::size_t{64} << 10;

/// The memory file and what of it is given out. Thread-safe.
class MemoryFile {
 public:
  /// A file of at most `capacity` bytes in use; `device` is named in errors.
  MemoryFile(std::string device, std::size_t capacity);
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  /// Gives out a stretch that reads as zero and returns its offset; throws OutOfMemory.
  std::uint64_t take(std::size_t nbytes);
  /// Takes it back; not before other processes have let go of what was exported of it.
  void give_back(std::uint64_t offset, std::size_t nbytes) noexcept;
  /// A descriptor for another process. It carries a shared lock on the stretch, which lasts as long as anyone holds the
  /// descriptor or a mapping made from it: that is how give_back() knows.
  [[nodiscard]] int export_stretch(std::uint64_t offset, std::size_t nbytes) const;
  /// The file.
  [[nodiscard]] int fd() const { return fd_; }
  /// Bytes given out, or still held by another process.
  [[nodiscard]] std::size_t used();
  /// The most bytes that may be.
  [[nodiscard]] std::size_t capacity() const { return capacity_; }

 private:
  [[nodiscard]] bool is_held_elsewhere(std::uint64_t offset, std::size_t nbytes) const;
  void free_stretch(std::uint64_t offset, std::uint64_t nbytes);
  void free_lingering();

  const std::string device_;
  const std::size_t capacity_;
  int fd_;
  std::mutex mutex_;
  std::map<std::uint64_t, std::uint64_t> lingering_;  // given back, still held by another process
  std::map<std::uint64_t, std::uint64_t> free_;       // offset -> nbytes; no two touch
  std::uint64_t end_ = 0;                             // size of the file
  std::size_t used_ = 0;
};

/// A stretch of a memory file: of this device, or of another process's.
class HostMemory : public MemoryBackend {
 public:
  /// Takes a stretch of this device's file.
  HostMemory(std::shared_ptr<MemoryFile> file, std::size_t nbytes);
  /// Imports; keeps a descriptor of its own.
  explicit HostMemory(const ExportedMemory& exported);
  ~HostMemory() override;
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  ExportedMemory export_handle() override;
  /// The device's file that it is a stretch of; null: it is imported.
  [[nodiscard]] const MemoryFile* file() const { return file_.get(); }
  /// The file to map.
  [[nodiscard]] int fd() const { return file_ ? file_->fd() : imported_fd_; }
  /// Where in it.
  [[nodiscard]] std::uint64_t offset() const { return offset_; }
  /// Its size.
  [[nodiscard]] std::size_t nbytes() const { return nbytes_; }

 private:
  std::shared_ptr<MemoryFile> file_;  // null: imported
  int imported_fd_ = -1;
  std::uint64_t offset_ = 0;
  std::size_t nbytes_;
};

/// Reserved addresses and what is mapped there. The whole process can touch host memory, so rights given to several
/// devices cannot be told apart: the strongest of them holds for all. Thread-safe.
class AddressSpace {
 public:
  /// Reserves addresses on which any access is a fault.
  std::byte* reserve(std::size_t nbytes, std::size_t alignment);
  /// Gives them back.
  void release(std::byte* address, std::size_t nbytes);
  /// Maps all of `memory`.
  void map(std::byte* address, HostMemory& memory, std::size_t nbytes);
  /// Unmaps one mapping; the addresses stay reserved.
  void unmap(std::byte* address, std::size_t nbytes);
  /// Sets the rights of `owner` (null: the device itself) on whole mappings.
  void set_rights(std::byte* address, std::size_t nbytes, const void* owner, Protection protection);
  /// Where in `file` the bytes are that are mapped at [address, address + nbytes); nullopt: they are not all of that
  /// file, or not in a row there.
  [[nodiscard]] std::optional<std::uint64_t> find(const MemoryFile& file, const std::byte* address,
                                                  std::size_t nbytes) const;
  /// Moves with every map and unmap, before the answers of find() change.
  [[nodiscard]] std::uint64_t epoch() const { return epoch_.load(std::memory_order_acquire); }

 private:
  struct Mapping {
    std::size_t nbytes;
    const MemoryFile* file;  // null: imported memory
    std::uint64_t offset;    // in it
    std::map<const void*, Protection> rights;
  };
  std::atomic<std::uint64_t> epoch_{1};
  mutable std::mutex mutex_;
  std::map<const std::byte*, Mapping> mappings_;
};

}  // namespace tessera::device::host::detail
