// A device as tensors see it: with this rank's allocator, the number of its kind, and the stream that calls go to.
//
//   StreamScope scope(side);            // calls of this thread on side's device go to `side`
//   add(a, b);
//
// Which stream is current is a matter of each thread; without a scope it is the device's default stream. Work on
// different streams is ordered by events, which is the caller's job; memory is safe without: a call tells the allocator
// of every buffer that it uses on another stream than the buffer's own.
#pragma once

#include <cstdint>

#include "tessera/base/export.h"
#include "tessera/device/device.h"
#include "tessera/memory/allocator.h"

namespace tessera::tensor {

/// Numbers the kinds of devices of this process, densely: kernels are found by it.
using DeviceKind = std::uint8_t;
/// The most kinds there can be.
inline constexpr std::size_t kMostDeviceKinds = 8;
/// Always the host.
inline constexpr DeviceKind kHostKind = 0;
/// The number of the kind of this name ("host", "cuda"), given when first asked for.
TESSERA_API DeviceKind device_kind(std::string_view name);
/// The name of a kind.
TESSERA_API std::string_view device_kind_name(DeviceKind kind);

/// A device and this rank's means on it. Lives as long as its rank.
struct DeviceContext {
  device::Device device;          ///< the device
  memory::Allocator allocator;    ///< this rank's
  device::Stream default_stream;  ///< the stream of calls outside every StreamScope
  DeviceKind kind = kHostKind;    ///< of the device
};

/// A device's context, and the stream that is current on this thread.
struct CurrentDevice {
  const DeviceContext* context;  ///< of this thread's rank
  const device::Stream* stream;  ///< where calls go
};
/// For `device`, on this thread. Cheap: remembered by the thread.
TESSERA_API CurrentDevice current_device(const device::Device& device);
/// The stream that calls of this thread on `device` go to.
TESSERA_API const device::Stream& current_stream(const device::Device& device);

/// Calls of this thread on the stream's device go to `stream` while it lives. Scopes nest, and end in reverse order.
class TESSERA_API StreamScope {
 public:
  /// Makes `stream` current.
  explicit StreamScope(device::Stream stream);
  /// Makes the stream before it current.
  ~StreamScope();
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

 private:
  friend struct CurrentStreams;
  device::Stream stream_;
  const device::DeviceState* device_;
  StreamScope* outer_;
};

}  // namespace tessera::tensor
