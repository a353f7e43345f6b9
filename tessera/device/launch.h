// The inputs of a launch: the kernel, its grid, its arguments, and the memory that it declares to access.
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

/// Access of a launch to a range of bytes.
enum class AccessMode : std::uint8_t {
  kRead,       ///< reads only
  kWrite,      ///< writes without reading
  kReadWrite,  ///< reads and writes
};

/// A range of bytes that a launch accesses.
struct Access {
  const void* address;  ///< first byte
  std::size_t nbytes;   ///< size in bytes
  AccessMode mode;      ///< kind of access
};

/// Returns a range that is read.
inline Access reads(const void* address, std::size_t nbytes) { return {address, nbytes, AccessMode::kRead}; }
/// Returns a range that is written.
inline Access writes(const void* address, std::size_t nbytes) { return {address, nbytes, AccessMode::kWrite}; }
/// Returns a range that is read and written.
inline Access updates(const void* address, std::size_t nbytes) { return {address, nbytes, AccessMode::kReadWrite}; }

/// Label and declared accesses of a launch.
struct LaunchInfo {
  std::string_view label = {};  ///< shown in errors, graphs and records
  /// Accessed device memory. An empty list declares no access. nullopt declares nothing, which a checked device
  /// rejects.
  std::optional<std::span<const Access>> accesses = std::nullopt;
};

/// Grid of a kernel launch.
struct LaunchConfig {
  std::uint32_t grid[3] = {1, 1, 1};   ///< number of blocks
  std::uint32_t block[3] = {1, 1, 1};  ///< threads per block
  std::uint32_t shared_nbytes = 0;     ///< dynamic shared memory per block
  bool spins = false;                  ///< may wait for other streams or the host; counted in the spin budget
};

/// Arguments of a kernel launch: trivially copyable values, in the order of the kernel's parameters. The launch copies
/// them.
class KernelArgs {
 public:
  /// Maximum number of arguments.
  static constexpr std::size_t kMax = 32;
  /// Stores a pointer to each argument.
  template <class... T>
  requires(sizeof...(T) <= kMax && (std::is_trivially_copyable_v<T> && ...)) explicit KernelArgs(const T&... args)
      : count_(sizeof...(T)) {
    [[maybe_unused]] std::size_t i = 0;  // writes only the used entries, since the arrays are large
    ((pointers_[i] = const_cast<void*>(static_cast<const void*>(&args)), sizes_[i] = sizeof(T), ++i), ...);
  }
  /// Returns the addresses of the arguments.
  [[nodiscard]] std::span<void* const> pointers() const { return {pointers_, count_}; }
  /// Returns the size of each argument in bytes.
  [[nodiscard]] std::span<const std::size_t> sizes() const { return {sizes_, count_}; }

 private:
  void* pointers_[kMax];
  std::size_t sizes_[kMax];
  std::size_t count_;
};

/// The function of a host kernel, called once per launch with the grid and pointers to the arguments.
using HostKernelFn = void (*)(const LaunchConfig& config, void* const* args);

/// Handle to a kernel of one device. Keeps its module alive.
class TESSERA_API Kernel {
 public:
  /// Constructs an empty handle.
  Kernel() = default;
  /// Constructs a handle. Called by a device.
  Kernel(std::shared_ptr<DeviceState> device, std::shared_ptr<KernelBackend> backend, std::string name);
  /// Returns true if the handle refers to a kernel.
  explicit operator bool() const { return backend_ != nullptr; }
  /// Returns the name of the kernel.
  [[nodiscard]] const std::string& name() const { return name_; }
  /// Returns the backend object.
  [[nodiscard]] const std::shared_ptr<KernelBackend>& backend() const { return backend_; }
  /// Returns the device of the kernel.
  [[nodiscard]] const std::shared_ptr<DeviceState>& device() const { return device_; }

 private:
  std::shared_ptr<DeviceState> device_;
  std::shared_ptr<KernelBackend> backend_;
  std::string name_;
};

}  // namespace tessera::device
