// What goes into a launch: the kernel's handle, its grid, its arguments, and what it says about the memory it touches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "tessera/base/export.h"
#include "tessera/base/ids.h"

namespace tessera::device {

class KernelBackend;
class ModuleBackend;
struct DeviceState;

/// How a launch touches a range of bytes.
enum class AccessMode : std::uint8_t {
  kRead,       ///< reads only
  kWrite,      ///< writes without reading
  kReadWrite,  ///< both
};

/// A range of bytes that a launch touches.
struct Access {
  const void* address;  ///< first byte
  std::size_t nbytes;   ///< how many
  AccessMode mode;      ///< read, written or both
};

/// A range that is read.
inline Access reads(const void* address, std::size_t nbytes) { return {address, nbytes, AccessMode::kRead}; }
/// A range that is written.
inline Access writes(const void* address, std::size_t nbytes) { return {address, nbytes, AccessMode::kWrite}; }
/// A range that is read and written.
inline Access updates(const void* address, std::size_t nbytes) { return {address, nbytes, AccessMode::kReadWrite}; }

/// What a launch says about itself.
struct LaunchInfo {
  std::string_view label = {};  ///< shown in errors, graphs and records
  /// The device memory it touches; empty list: none; not given: not declared, which a checked device refuses.
  std::optional<std::span<const Access>> accesses = std::nullopt;
};

/// Grid of a kernel launch.
struct LaunchConfig {
  std::uint32_t grid[3] = {1, 1, 1};   ///< blocks
  std::uint32_t block[3] = {1, 1, 1};  ///< threads of a block
  std::uint32_t shared_nbytes = 0;     ///< dynamic shared memory
  bool spins = false;                  ///< may wait for other streams or the host: counted against the spin budget
};

/// Arguments of a kernel launch: any trivially copyable values, in the kernel's order. They are copied by the launch
/// call and need not outlive it.
class KernelArgs {
 public:
  /// The most arguments a kernel may take.
  static constexpr std::size_t kMost = 32;
  /// Points at each argument.
  template <class... T>
  requires(sizeof...(T) <= kMost && (std::is_trivially_copyable_v<T> && ...)) explicit KernelArgs(const T&... args)
      : count_(sizeof...(T)) {
    [[maybe_unused]] std::size_t i = 0;  // only what is used is written: the arrays are large
    ((pointers_[i] = const_cast<void*>(static_cast<const void*>(&args)), sizes_[i] = sizeof(T), ++i), ...);
  }
  /// Addresses of the arguments.
  [[nodiscard]] std::span<void* const> pointers() const { return {pointers_, count_}; }
  /// Size of each argument in bytes.
  [[nodiscard]] std::span<const std::size_t> sizes() const { return {sizes_, count_}; }

 private:
  void* pointers_[kMost];
  std::size_t sizes_[kMost];
  std::size_t count_;
};

/// What a kernel of the host device is: called once a launch with the grid and pointers to the arguments.
using HostKernelFn = void (*)(const LaunchConfig& config, void* const* args);

/// A kernel that can be launched on streams of its device. A cheap handle; keeps its module alive.
class TESSERA_API Kernel {
 public:
  /// No kernel.
  Kernel() = default;
  /// Made by a device.
  Kernel(std::shared_ptr<DeviceState> device, std::shared_ptr<KernelBackend> backend, std::string name);
  /// Whether there is a kernel.
  explicit operator bool() const { return backend_ != nullptr; }
  /// Its name.
  [[nodiscard]] const std::string& name() const { return name_; }
  /// The device's side of it.
  [[nodiscard]] const std::shared_ptr<KernelBackend>& backend() const { return backend_; }
  /// The device it belongs to.
  [[nodiscard]] const std::shared_ptr<DeviceState>& device() const { return device_; }

 private:
  std::shared_ptr<DeviceState> device_;
  std::shared_ptr<KernelBackend> backend_;
  std::string name_;
};

}  // namespace tessera::device
