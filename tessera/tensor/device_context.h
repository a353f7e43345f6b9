// Per-rank state of a device: the allocator of the rank, the device kind, and the stream for calls.
//
//   DeviceScope gpu("cuda:0");          // tensors of this thread are created on cuda:0
//   StreamScope scope(side);            // calls of this thread on the device of `side` use `side`
//   Tensor c = zeros({4}) + ones({4});
//
// Each thread has its own current stream per device; by default, it is DeviceContext::default_stream. The caller
// orders work on different streams with events. Memory is safe without events: a call reports each buffer that it uses
// on another stream to the allocator.
#pragma once

#include <cstdint>

#include "tessera/base/export.h"
#include "tessera/device/device.h"
#include "tessera/memory/allocator.h"

namespace tessera::tensor {

/// Dense, process-local number of a device kind. Kernels are looked up by it.
using DeviceKind = std::uint8_t;
/// Maximum number of device kinds.
inline constexpr std::size_t kMaxDeviceKinds = 8;
/// Kind of the host.
inline constexpr DeviceKind kHostKind = 0;
/// Returns the number of the kind with this name ("host", "cuda"). Assigns one on first use.
TESSERA_API DeviceKind device_kind(std::string_view name);
/// Returns the name of a kind.
TESSERA_API std::string_view device_kind_name(DeviceKind kind);

/// A device and the resources of this rank on it. Lives as long as the rank.
struct DeviceContext {
  device::Device device;        ///< The device.
  memory::Allocator allocator;  ///< Allocator of this rank.
  /// Stream of calls outside every StreamScope: the default stream of the device, or one of this rank if other ranks of
  /// this machine may use the device too.
  device::Stream default_stream;
  DeviceKind kind = kHostKind;  ///< Kind of the device.
  bool has_values = true;       ///< DeviceProperties::has_values: if false, calls run no kernel.
};

/// The context of a device and the current stream of this thread.
struct CurrentDevice {
  const DeviceContext* context;  ///< Context of the rank of this thread.
  const device::Stream* stream;  ///< Stream for calls.
};
/// Returns the context and stream of `device` for this thread. Cheap: cached per thread.
TESSERA_API CurrentDevice current_device(const device::Device& device);
/// Returns the stream for calls of this thread on `device`.
TESSERA_API const device::Stream& current_stream(const device::Device& device);

/// Returns the device "meta" of this rank, whose tensors have shapes and no values: calls on it infer and allocate
/// their results and run no kernel.
TESSERA_API device::Device meta_device();

/// Makes a stream current for calls of this thread on its device, for the lifetime of the scope. Scopes must nest.
class TESSERA_API StreamScope {
 public:
  /// Makes `stream` current.
  explicit StreamScope(device::Stream stream);
  /// Restores the previous stream.
  ~StreamScope();
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

 private:
  friend struct CurrentStreams;
  device::Stream stream_;
  const device::DeviceState* device_;
  StreamScope* outer_;
};

/// Makes a device the default for tensors that this thread creates, for the lifetime of the scope. Scopes must nest.
class TESSERA_API DeviceScope {
 public:
  /// Makes `device` the default.
  explicit DeviceScope(device::Device device);
  /// Restores the previous default.
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  friend TESSERA_API device::Device default_device();
  device::Device device_;
  DeviceScope* outer_;
};
/// Returns the device of the innermost DeviceScope of this thread; without one, the host of this rank.
TESSERA_API device::Device default_device();
/// Returns the host of this rank, for control traffic between ranks and for staging of data, whatever the device that
/// the rank computes on.
TESSERA_API device::Device host_device();

}  // namespace tessera::tensor

namespace tessera {
using tensor::DeviceScope;  // NOLINT(misc-unused-using-decls)
using tensor::StreamScope;  // NOLINT(misc-unused-using-decls)
}  // namespace tessera
