// Tensors handed to and taken from other libraries in one process, without a copy, by the structs of DLPack 1.x. The
// structs are declared here as the specification lays them out in memory, so that nobody needs another header; a
// pointer to one of another library's declaration may be cast to ours.
//
//   auto* capsule = to_dlpack(x);            // the consumer calls capsule->deleter(capsule), once
//   Tensor y = from_dlpack(capsule);         // takes it over: the deleter runs behind the last work on y
//
// Nothing waits on the host, in either direction. Whoever consumes on a stream names it, and it is made to wait for the
// work that is queued on the tensor so far; without a stream nothing is put in order, which is what a capture needs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tessera/base/export.h"
#include "tessera/tensor/tensor.h"

namespace tessera::tensor {
namespace dlpack {

/// Where the bytes are, by the numbers of the specification.
enum DeviceType : std::int32_t {
  kCpu = 1,       ///< host memory
  kCuda = 2,      ///< memory of a CUDA device
  kCudaHost = 3,  ///< pinned host memory
};
/// What kind of number an element is, by the numbers of the specification.
enum TypeCode : std::uint8_t {
  kInt = 0,            ///< signed integer
  kUInt = 1,           ///< unsigned integer
  kFloat = 2,          ///< IEEE floating point
  kBfloat = 4,         ///< bf16
  kComplex = 5,        ///< two IEEE numbers
  kBool = 6,           ///< truth value
  kFloat8E4M3Fn = 10,  ///< f8e4m3
  kFloat8E5M2 = 12,    ///< f8e5m2
};
/// Flags of ManagedTensorVersioned.
enum Flags : std::uint64_t {
  kReadOnly = 1,  ///< the bytes must not be written
  kCopied = 2,    ///< the producer made a copy for this capsule
};

/// A device.
struct Device {
  std::int32_t type;   ///< a DeviceType, or another of the specification
  std::int32_t index;  ///< among the devices of the type
};
/// The type of an element.
struct DataType {
  std::uint8_t code;    ///< a TypeCode, or another of the specification
  std::uint8_t bits;    ///< of one number
  std::uint16_t lanes;  ///< numbers to an element
};
/// A view of bytes.
struct TensorView {
  void* data;                 ///< first byte of the memory
  Device device;              ///< where it is
  std::int32_t ndim;          ///< dimensions
  DataType dtype;             ///< of elements
  std::int64_t* shape;        ///< ndim sizes
  std::int64_t* strides;      ///< ndim steps, in elements; null: dense, last dimension fastest
  std::uint64_t byte_offset;  ///< of the first element from `data`
};
/// What is exchanged before version 1.
struct ManagedTensor {
  TensorView tensor;                     ///< the view
  void* context;                         ///< the producer's
  void (*deleter)(ManagedTensor* self);  ///< called once by who is done with it; may be null
};
/// Of the structs' layout: another major number is another layout.
struct Version {
  std::uint32_t major;  ///< 1
  std::uint32_t minor;  ///< grows with new numbers and flags
};
/// What is exchanged since version 1.
struct ManagedTensorVersioned {
  Version version;                                ///< first, so that it can be read whatever follows
  void* context;                                  ///< the producer's
  void (*deleter)(ManagedTensorVersioned* self);  ///< called once by who is done with it; may be null
  std::uint64_t flags;                            ///< Flags
  TensorView tensor;                              ///< the view
};

}  // namespace dlpack

/// How a tensor is handed out.
struct DlpackExportOptions {
  /// A stream of the tensor's device on which it will be used: made to wait for the work queued on the current stream,
  /// and noted as a user of the memory. None: no order, no synchronisation; then the consumer must be done, or behind
  /// the tensor's stream, when it calls the deleter.
  device::Stream stream = {};
  bool read_only = false;  ///< tells the consumer not to write
};
/// A capsule that shares the tensor's elements and keeps their storage alive until its deleter is called, from any
/// thread. Refuses tensors with a layout, those that autograd tracks (detach() first), and devices that DLPack has no
/// number for.
[[nodiscard]] TESSERA_API dlpack::ManagedTensorVersioned* to_dlpack(const Tensor& tensor,
                                                                    const DlpackExportOptions& options = {});
/// The same for consumers from before version 1. Refuses read_only: the old struct cannot say it.
[[nodiscard]] TESSERA_API dlpack::ManagedTensor* to_dlpack_unversioned(const Tensor& tensor,
                                                                       const DlpackExportOptions& options = {});

/// How a capsule is taken over.
struct DlpackImportOptions {
  /// The device to put it on, of the kind that the capsule names; none: this rank's host, or the device of that number.
  device::Device device = {};
  bool accept_read_only = false;  ///< take read-only elements; writing them is then the caller's fault
};
/// A tensor over the elements of the capsule. The deleter is called exactly once, behind all work on the tensor and its
/// views. When it throws, the capsule is still the caller's and was not touched. Refuses other major versions, elements
/// without a dtype here, several lanes, devices that are not here, and sizes, strides and offsets that make no sense.
TESSERA_API Tensor from_dlpack(dlpack::ManagedTensorVersioned* capsule, const DlpackImportOptions& options = {});
/// Likewise from before version 1.
TESSERA_API Tensor from_dlpack(dlpack::ManagedTensor* capsule, const DlpackImportOptions& options = {});

}  // namespace tessera::tensor
