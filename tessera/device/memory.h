// Device memory below the allocator: physical memory, reserved addresses, and the mapping of the one onto the other.
//
//   Memory        physical bytes of one device; may be mapped in several places, exported to another process, imported
//   AddressRange  reserved addresses with nothing behind them until Memory is mapped there
//   PinnedMemory  host memory that the device reads and writes in place
//
// Sizes and offsets of Memory and AddressRange are multiples of the device's granularity. Mapping and unmapping take
// effect at once and wait for no stream: unmap only what is known to be completed.
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

/// What may be done with mapped bytes.
enum class Protection : std::uint8_t {
  kNone,       ///< any access is a fault
  kRead,       ///< reads only
  kReadWrite,  ///< reads and writes
};

/// A file descriptor that names exported memory; closes it in the destructor. Send it to another process over a Unix
/// socket, or let a child inherit it.
class TESSERA_API ExportedMemory {
 public:
  /// Takes over `fd`.
  ExportedMemory(int fd, std::uint64_t offset, std::size_t nbytes) : fd_(fd), offset_(offset), nbytes_(nbytes) {}
  ExportedMemory(ExportedMemory&& other) noexcept;
  ExportedMemory& operator=(ExportedMemory&& other) noexcept;
  ~ExportedMemory();
  /// The descriptor; still owned by this object.
  [[nodiscard]] int fd() const { return fd_; }
  /// Where in the file behind the descriptor the memory begins.
  [[nodiscard]] std::uint64_t offset() const { return offset_; }
  /// Its size.
  [[nodiscard]] std::size_t nbytes() const { return nbytes_; }

 private:
  int fd_;
  std::uint64_t offset_;
  std::size_t nbytes_;
};

/// Physical memory of a device. A shared handle: the bytes go back when the last handle and the last mapping are gone.
class TESSERA_API Memory {
 public:
  /// No memory.
  Memory() = default;
  /// Made by Device::create_memory and Device::import_memory.
  explicit Memory(std::shared_ptr<MemoryState> state) : state_(std::move(state)) {}
  /// Whether there is memory.
  explicit operator bool() const { return state_ != nullptr; }
  /// Its size; a multiple of the device's granularity.
  [[nodiscard]] std::size_t nbytes() const;
  /// A descriptor through which another process can import it. Exporting twice names the same bytes.
  [[nodiscard]] ExportedMemory export_handle() const;
  /// Lets go of this handle.
  void reset() { state_.reset(); }
  /// The shared state.
  [[nodiscard]] const std::shared_ptr<MemoryState>& state() const { return state_; }

 private:
  std::shared_ptr<MemoryState> state_;
};

/// Reserved addresses of one device. Move-only; the destructor unmaps what is mapped and gives the addresses back, so
/// all work on them must have completed. Thread-safe for calls on disjoint parts.
class TESSERA_API AddressRange {
 public:
  /// No addresses.
  AddressRange();
  /// Made by Device::reserve.
  explicit AddressRange(std::unique_ptr<RangeState> state);
  AddressRange(AddressRange&&) noexcept;
  AddressRange& operator=(AddressRange&&) noexcept;
  ~AddressRange();
  /// Whether addresses are held.
  explicit operator bool() const { return state_ != nullptr; }
  /// First address.
  [[nodiscard]] std::byte* data() const;
  /// Size of the reservation.
  [[nodiscard]] std::size_t nbytes() const;
  /// Bytes that have memory behind them.
  [[nodiscard]] std::size_t mapped_nbytes() const;
  /// Maps all of `memory` at `offset`, readable and writable by its device. Overlapping what is mapped is an error.
  void map(std::size_t offset, const Memory& memory);
  /// Unmaps [offset, offset + nbytes), which must be exactly one or more whole mappings.
  void unmap(std::size_t offset, std::size_t nbytes);
  /// Changes what this device may do with [offset, offset + nbytes), which must be whole mappings.
  void protect(std::size_t offset, std::size_t nbytes, Protection protection);
  /// Gives another device of the same kind access to [offset, offset + nbytes).
  void share_with(const Device& peer, std::size_t offset, std::size_t nbytes, Protection protection);

 private:
  std::unique_ptr<RangeState> state_;
};

/// Host memory that the device can read and write in place and that the host can touch at any time. Move-only.
class TESSERA_API PinnedMemory {
 public:
  /// None.
  PinnedMemory();
  /// Made by Device::allocate_pinned.
  explicit PinnedMemory(std::unique_ptr<PinnedState> state);
  PinnedMemory(PinnedMemory&&) noexcept;
  PinnedMemory& operator=(PinnedMemory&&) noexcept;
  ~PinnedMemory();
  /// Whether there is memory.
  explicit operator bool() const { return state_ != nullptr; }
  /// First byte, valid on host and device.
  [[nodiscard]] std::byte* data() const;
  /// Its size.
  [[nodiscard]] std::size_t nbytes() const;

 private:
  std::unique_ptr<PinnedState> state_;
};

}  // namespace tessera::device
