// Exchange of tensors with other libraries in one process, without a copy, by the structs of DLPack 1.x. The structs
// are declared here with the memory layout of the specification, so no other header is needed. Pointers to the structs
// of another declaration may be cast to these.
//
//   auto* capsule = to_dlpack(x);            // the consumer calls capsule->deleter(capsule), once
//   Tensor y = from_dlpack(capsule);         // takes it over: the deleter runs after the last work on y
//
// Neither direction blocks the host. If the consumer names a stream, that stream waits for the work enqueued on the
// tensor so far. Without a stream, no order is established, as a capture requires.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tessera/base/export.h"
#include "tessera/tensor/tensor.h"

namespace tessera::tensor {
namespace dlpack {

/// Memory type, numbered by the specification.
enum DeviceType : std::int32_t {
  kCpu = 1,       ///< Host memory.
  kCuda = 2,      ///< Memory of a CUDA device.
  kCudaHost = 3,  ///< Pinned host memory.
};
/// Kind of an element, numbered by the specification.
enum TypeCode : std::uint8_t {
  kInt = 0,            ///< Signed integer.
  kUInt = 1,           ///< Unsigned integer.
  kFloat = 2,          ///< IEEE floating point.
  kBfloat = 4,         ///< bf16.
  kComplex = 5,        ///< Two IEEE numbers.
  kBool = 6,           ///< Boolean.
  kFloat8E4M3Fn = 10,  ///< f8e4m3.
  kFloat8E5M2 = 12,    ///< f8e5m2.
};
/// Flags of ManagedTensorVersioned.
enum Flags : std::uint64_t {
  kReadOnly = 1,  ///< The consumer must not write the elements.
  kCopied = 2,    ///< The producer made a copy for this capsule.
};

/// A device in the numbering of the specification.
struct Device {
  std::int32_t type;   ///< A DeviceType, or another value of the specification.
  std::int32_t index;  ///< Index among the devices of the type.
};
/// Type of an element.
struct DataType {
  std::uint8_t code;    ///< A TypeCode, or another value of the specification.
  std::uint8_t bits;    ///< Bits of one number.
  std::uint16_t lanes;  ///< Numbers per element.
};
/// A view of memory.
struct TensorView {
  void* data;                 ///< Start of the memory.
  Device device;              ///< Device of the memory.
  std::int32_t ndim;          ///< Number of dimensions.
  DataType dtype;             ///< Type of the elements.
  std::int64_t* shape;        ///< ndim sizes.
  std::int64_t* strides;      ///< ndim strides in elements. Null: contiguous, last dimension fastest.
  std::uint64_t byte_offset;  ///< Offset of the first element from `data`.
};
/// Capsule before DLPack 1.
struct ManagedTensor {
  TensorView tensor;                     ///< The elements.
  void* context;                         ///< Private to the producer.
  void (*deleter)(ManagedTensor* self);  ///< The consumer calls it once when done. May be null.
};
/// Version of the struct layout. Another major version is another layout.
struct Version {
  std::uint32_t major;  ///< Currently 1.
  std::uint32_t minor;  ///< Increases with new values and flags.
};
/// Capsule since DLPack 1.
struct ManagedTensorVersioned {
  Version version;                                ///< First field, so that it is readable for any layout.
  void* context;                                  ///< Private to the producer.
  void (*deleter)(ManagedTensorVersioned* self);  ///< The consumer calls it once when done. May be null.
  std::uint64_t flags;                            ///< Combination of Flags.
  TensorView tensor;                              ///< The elements.
};

}  // namespace dlpack

/// Options of an export.
struct DlpackExportOptions {
  /// Stream of the device of the tensor on which the consumer uses it. The stream waits for the work enqueued on the
  /// current stream and is registered as a user of the memory. Without a stream, nothing is ordered; the consumer must
  /// then finish, or be ordered after the stream of the tensor, before it calls the deleter.
  device::Stream stream = {};
  bool read_only = false;  ///< Sets kReadOnly.
};
/// Returns a capsule that shares the elements and keeps their storage alive until its deleter is called, from any
/// thread. Throws InvalidArgument for tensors with a layout and tensors that autograd tracks (detach() them), and
/// NotSupported for devices that DLPack cannot represent.
[[nodiscard]] TESSERA_API dlpack::ManagedTensorVersioned* to_dlpack(const Tensor& tensor,
                                                                    const DlpackExportOptions& options = {});
/// Returns a capsule for consumers before DLPack 1. Throws if `read_only` is set: the old struct has no flags.
[[nodiscard]] TESSERA_API dlpack::ManagedTensor* to_dlpack_unversioned(const Tensor& tensor,
                                                                       const DlpackExportOptions& options = {});

/// Options of an import.
struct DlpackImportOptions {
  /// Target device, of the kind that the capsule names. By default the host, or the CUDA device with that index.
  device::Device device = {};
  bool accept_read_only = false;  ///< Accept read-only elements; the caller must not write them.
};
/// Returns a tensor over the elements of the capsule. The deleter is called exactly once, after all
/// work on the tensor and its views. If this function throws, the caller still owns the unchanged
/// capsule. Throws for other major versions, elements without a matching dtype, several lanes,
/// unavailable devices, and invalid sizes, strides or offsets.
TESSERA_API Tensor from_dlpack(dlpack::ManagedTensorVersioned* capsule, const DlpackImportOptions& options = {});
/// Returns a tensor over a capsule from before DLPack 1.
TESSERA_API Tensor from_dlpack(dlpack::ManagedTensor* capsule, const DlpackImportOptions& options = {});

}  // namespace tessera::tensor
