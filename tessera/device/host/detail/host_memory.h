// Memory of the host device: one memory file per device, divided first fit into extents, which are mapped on request.
//
//   memory file   [ A A A | B | free | C C ]           offsets in granules; a freed extent is a hole: zero again
//                     \__________ mapped at reserved addresses, possibly twice, possibly in another process too
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
/// A large page of the processor. Extents of complete large pages are backed by them, because the processor finds their
/// addresses faster.
inline constexpr std::size_t kLargePage = std::size_t{2} << 20;

/// The memory file and its allocated extents. Thread-safe.
class MemoryFile {
 public:
  /// Creates a file with at most `capacity` bytes in use; errors name `device`.
  MemoryFile(std::string device, std::size_t capacity);
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  /// Allocates a zeroed extent and returns its offset. Throws OutOfMemory.
  std::uint64_t take(std::size_t nbytes);
  /// Frees an extent, after other processes have released what was exported of it.
  void give_back(std::uint64_t offset, std::size_t nbytes) noexcept;
  /// Returns a descriptor for another process. It carries a shared lock on the extent, which lasts while a process
  /// holds the descriptor or a mapping made from it; give_back() checks this lock.
  [[nodiscard]] int export_stretch(std::uint64_t offset, std::size_t nbytes) const;
  /// Returns the descriptor of the file.
  [[nodiscard]] int fd() const { return fd_; }
  /// Returns the bytes that are allocated, or still held by another process.
  [[nodiscard]] std::size_t used();
  /// Returns the maximum of used().
  [[nodiscard]] std::size_t capacity() const { return capacity_; }

 private:
  [[nodiscard]] bool is_held_elsewhere(std::uint64_t offset, std::size_t nbytes) const;
  void free_stretch(std::uint64_t offset, std::uint64_t nbytes);
  void add_hole(std::uint64_t offset, std::uint64_t nbytes);
  void free_lingering();

  const std::string device_;
  const std::size_t capacity_;
  int fd_;
  std::mutex mutex_;
  std::map<std::uint64_t, std::uint64_t> lingering_;  // freed, but still held by another process
  std::map<std::uint64_t, std::uint64_t> free_;       // offset -> nbytes; adjacent extents are merged
  std::uint64_t end_ = 0;                             // size of the file
  std::size_t used_ = 0;
};

/// An extent of a memory file of this device or of another process.
class HostMemory : public MemoryBackend {
 public:
  /// Allocates an extent of this device's file.
  HostMemory(std::shared_ptr<MemoryFile> file, std::size_t nbytes);
  /// Imports an extent; keeps a duplicate descriptor.
  explicit HostMemory(const ExportedMemory& exported);
  ~HostMemory() override;
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  ExportedMemory export_handle() override;
  /// Returns the file of this device that contains it; null if it is imported.
  [[nodiscard]] const MemoryFile* file() const { return file_.get(); }
  /// Returns the descriptor to map.
  [[nodiscard]] int fd() const { return file_ ? file_->fd() : imported_fd_; }
  /// Returns the offset in the file.
  [[nodiscard]] std::uint64_t offset() const { return offset_; }
  /// Returns the size in bytes.
  [[nodiscard]] std::size_t nbytes() const { return nbytes_; }

 private:
  std::shared_ptr<MemoryFile> file_;  // null if imported
  int imported_fd_ = -1;
  std::uint64_t offset_ = 0;
  std::size_t nbytes_;
};

/// Reserved addresses and their mappings. The complete process can access host memory, so rights of several devices
/// cannot be separated: the strongest one applies to all. Thread-safe.
class AddressSpace {
 public:
  /// Reserves addresses on which any access is a fault.
  std::byte* reserve(std::size_t nbytes, std::size_t alignment);
  /// Releases the addresses.
  void release(std::byte* address, std::size_t nbytes);
  /// Maps all of `memory`.
  void map(std::byte* address, HostMemory& memory, std::size_t nbytes);
  /// Unmaps one mapping; the addresses stay reserved.
  void unmap(std::byte* address, std::size_t nbytes);
  /// Sets the rights of `owner` (null: the device itself) on complete mappings.
  void set_rights(std::byte* address, std::size_t nbytes, const void* owner, Protection protection);
  /// Returns the offset in `file` of the bytes mapped at [address, address + nbytes); nullopt if they are not all in
  /// that file, or not contiguous there.
  [[nodiscard]] std::optional<std::uint64_t> find(const MemoryFile& file, const std::byte* address,
                                                  std::size_t nbytes) const;
  /// Returns a counter that changes with every map and unmap, before the results of find() change.
  [[nodiscard]] std::uint64_t epoch() const { return epoch_.load(std::memory_order_acquire); }

 private:
  struct Mapping {
    std::size_t nbytes;
    const MemoryFile* file;  // null: imported memory
    std::uint64_t offset;    // offset in the file
    std::map<const void*, Protection> rights;
  };
  std::atomic<std::uint64_t> epoch_{1};
  mutable std::mutex mutex_;
  std::map<const std::byte*, Mapping> mappings_;
};

}  // namespace tessera::device::host::detail
