// Device memory below the allocator: physical memory, reserved addresses, and mappings of memory at addresses.
//
//   Memory        physical bytes of one device; may be mapped at several addresses, exported and imported
//   AddressRange  reserved addresses, without memory until Memory is mapped there
//   PinnedMemory  host memory that the device can access directly
//
// Sizes and offsets of Memory and AddressRange are multiples of the device's granularity. Mapping and unmapping take
// effect immediately and wait for no stream: unmap only memory whose uses have completed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "tessera/base/export.h"

namespace tessera::device {

class Device;
struct DeviceState;
struct MemoryState;
struct RangeState;
struct PinnedState;

/// Access rights to mapped bytes.
enum class Protection : std::uint8_t {
  kNone,       ///< any access is a fault
  kRead,       ///< reads only
  kReadWrite,  ///< reads and writes
};

/// A file descriptor of exported memory, which the destructor closes. Send it to another process over a Unix socket, or
/// let a child inherit it.
class TESSERA_API ExportedMemory {
 public:
  /// Takes ownership of `fd`.
  ExportedMemory(int fd, std::uint64_t offset, std::size_t nbytes) : fd_(fd), offset_(offset), nbytes_(nbytes) {}
  ExportedMemory(ExportedMemory&& other) noexcept;
  ExportedMemory& operator=(ExportedMemory&& other) noexcept;
  ~ExportedMemory();
  /// Returns the descriptor, still owned by this object.
  [[nodiscard]] int fd() const { return fd_; }
  /// Returns the offset of the memory in the file of the descriptor.
  [[nodiscard]] std::uint64_t offset() const { return offset_; }
  /// Returns the size in bytes.
  [[nodiscard]] std::size_t nbytes() const { return nbytes_; }

 private:
  int fd_;
  std::uint64_t offset_;
  std::size_t nbytes_;
};

/// Physical memory of a device. Copies share the memory, which is freed after the last handle and the last mapping are
/// destroyed.
class TESSERA_API Memory {
 public:
  /// Constructs an empty handle.
  Memory() = default;
  /// Constructs a handle. Called by Device::create_memory and Device::import_memory.
  explicit Memory(std::shared_ptr<MemoryState> state) : state_(std::move(state)) {}
  /// Returns true if the handle refers to memory.
  explicit operator bool() const { return state_ != nullptr; }
  /// Returns the size in bytes, a multiple of the device's granularity.
  [[nodiscard]] std::size_t nbytes() const;
  /// Returns a descriptor that another process can import. All exports refer to the same bytes.
  [[nodiscard]] ExportedMemory export_handle() const;
  /// Releases this handle.
  void reset() { state_.reset(); }
  /// Returns the shared state.
  [[nodiscard]] const std::shared_ptr<MemoryState>& state() const { return state_; }

 private:
  std::shared_ptr<MemoryState> state_;
};

/// Reserved addresses of one device. Move-only. The destructor unmaps and releases them, so all work on them must have
/// completed. Thread-safe for calls on disjoint ranges.
class TESSERA_API AddressRange {
 public:
  /// Constructs an empty range.
  AddressRange();
  /// Constructs a range. Called by Device::reserve.
  explicit AddressRange(std::unique_ptr<RangeState> state);
  AddressRange(AddressRange&&) noexcept;
  AddressRange& operator=(AddressRange&&) noexcept;
  ~AddressRange();
  /// Returns true if the range is not empty.
  explicit operator bool() const { return state_ != nullptr; }
  /// Returns the first address.
  [[nodiscard]] std::byte* data() const;
  /// Returns the size of the reservation in bytes.
  [[nodiscard]] std::size_t nbytes() const;
  /// Returns the number of mapped bytes.
  [[nodiscard]] std::size_t mapped_nbytes() const;
  /// Maps all of `memory` at `offset`, readable and writable by its device. Throws if it overlaps a mapping.
  void map(std::size_t offset, const Memory& memory);
  /// Unmaps [offset, offset + nbytes), which must consist of one or more complete mappings.
  void unmap(std::size_t offset, std::size_t nbytes);
  /// Changes the rights of this device to [offset, offset + nbytes), which must consist of complete mappings.
  void protect(std::size_t offset, std::size_t nbytes, Protection protection);
  /// Gives another device of the same kind access to [offset, offset + nbytes).
  void share_with(const Device& peer, std::size_t offset, std::size_t nbytes, Protection protection);

 private:
  std::unique_ptr<RangeState> state_;
};

/// Host memory that the host and the device can access directly. Move-only.
class TESSERA_API PinnedMemory {
 public:
  /// Constructs an empty object.
  PinnedMemory();
  /// Constructs the memory. Called by Device::allocate_pinned.
  explicit PinnedMemory(std::unique_ptr<PinnedState> state);
  PinnedMemory(PinnedMemory&&) noexcept;
  PinnedMemory& operator=(PinnedMemory&&) noexcept;
  ~PinnedMemory();
  /// Returns true if the object holds memory.
  explicit operator bool() const { return state_ != nullptr; }
  /// Returns the first byte, valid on host and device.
  [[nodiscard]] std::byte* data() const;
  /// Returns the size in bytes.
  [[nodiscard]] std::size_t nbytes() const;

 private:
  std::unique_ptr<PinnedState> state_;
};

}  // namespace tessera::device
