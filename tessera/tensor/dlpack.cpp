#include "tessera/tensor/dlpack.h"

#include <memory>
#include <utility>
#include <vector>

namespace tessera::tensor {

using dlpack::DataType;
using dlpack::ManagedTensor;
using dlpack::ManagedTensorVersioned;
using dlpack::TensorView;

namespace {

// The memory layout that other libraries were compiled for.
static_assert(sizeof(TensorView) == 48 && offsetof(TensorView, ndim) == 16 && offsetof(TensorView, dtype) == 20 &&
              offsetof(TensorView, shape) == 24 && offsetof(TensorView, byte_offset) == 40);
static_assert(sizeof(ManagedTensor) == 64 && offsetof(ManagedTensor, deleter) == 56);
static_assert(sizeof(ManagedTensorVersioned) == 80 && offsetof(ManagedTensorVersioned, deleter) == 16 &&
              offsetof(ManagedTensorVersioned, flags) == 24 && offsetof(ManagedTensorVersioned, tensor) == 32);

constexpr std::uint32_t kMajor = 1;
constexpr std::uint32_t kMinor = 1;
constexpr std::int32_t kMaxDims = 64;

DataType type_of(DType dtype) {
  const auto bits = static_cast<std::uint8_t>(8 * itemsize(dtype));
  if (dtype == DType::kBF16) return {dlpack::kBfloat, bits, 1};
  if (dtype == DType::kF8E4M3) return {dlpack::kFloat8E4M3Fn, bits, 1};
  if (dtype == DType::kF8E5M2) return {dlpack::kFloat8E5M2, bits, 1};
  if (dtype == DType::kBool) return {dlpack::kBool, bits, 1};
  if (is_complex(dtype)) return {dlpack::kComplex, bits, 1};
  if (is_floating(dtype)) return {dlpack::kFloat, bits, 1};
  return {static_cast<std::uint8_t>(is_signed(dtype) ? dlpack::kInt : dlpack::kUInt), bits, 1};
}

DType dtype_of_type(const DataType& type) {
  TESSERA_CHECK_AS(NotSupported, type.lanes == 1, "DLPack: elements must have 1 lane, got ", type.lanes);
  for (const DType dtype : kAllDTypes) {
    const DataType ours = type_of(dtype);
    if (ours.code == type.code && ours.bits == type.bits) return dtype;
  }
  TESSERA_THROW(NotSupported, "from_dlpack: type must be that of a dtype, got code ", int{type.code}, " with ",
                int{type.bits}, " bits");
}

dlpack::Device device_number(const device::Device& device) {
  const device::DeviceProperties& properties = device.properties();
  if (properties.kind == "host") return {dlpack::kCpu, 0};
  TESSERA_CHECK_AS(NotSupported, properties.kind == "cuda", "to_dlpack: device must be host or cuda, got ",
                   device.name(), "; copy the tensor with to()");
  return {dlpack::kCuda, properties.index};
}

device::Device device_of(const dlpack::Device& where, const device::Device& wanted) {
  const bool is_host = where.type == dlpack::kCpu || where.type == dlpack::kCudaHost;
  TESSERA_CHECK_AS(NotSupported, is_host || where.type == dlpack::kCuda,
                   "DLPack: device type must be 1 (CPU), 2 (CUDA) or 3 (CUDA host), got ", where.type);
  if (!wanted) return device::Device::get(is_host ? "host" : "cuda:" + std::to_string(where.index));
  const device::DeviceProperties& have = wanted.properties();
  TESSERA_CHECK(have.kind == (is_host ? "host" : "cuda") && (is_host || have.index == where.index),
                "from_dlpack: device must be that of the tensor, type ", where.type, " and index ", where.index,
                ", got ", wanted.name());
  return wanted;
}

// The object of an exported capsule of either version.
template <class Capsule>
struct Exported {
  Capsule capsule;
  Tensor tensor;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;
};

void order_consumer(const Tensor& tensor, const device::Stream& consumer) {
  if (!consumer) return;
  TESSERA_CHECK(consumer.device() == tensor.device(), "to_dlpack: stream must belong to the device of ",
                describe(tensor), ", got ", consumer.name(), " of ", consumer.device().name());
  const device::Stream& producer = current_stream(tensor.device());
  tensor.storage().use_on(consumer);
  if (producer.id() == consumer.id()) return;
  const device::Event ready = tensor.device().create_event();
  producer.record(ready);
  consumer.wait(ready);
}

template <class Capsule>
Capsule* export_capsule(const Tensor& tensor, const DlpackExportOptions& options) {
  TESSERA_CHECK(tensor, "to_dlpack: tensor must not be empty");
  TESSERA_CHECK(!tensor.has_layout(), "to_dlpack: tensor must be plain, got ", describe(tensor),
                "; use local() for the local shard");
  TESSERA_CHECK(!tensor.is_tracked(), "to_dlpack: autograd tracks ", describe(tensor),
                " and would miss writes to it; detach() it first");
  const dlpack::Device device = device_number(tensor.device());
  auto exported = std::make_unique<Exported<Capsule>>();
  exported->tensor = tensor;
  exported->shape.assign(tensor.shape().begin(), tensor.shape().end());
  exported->strides.assign(tensor.strides().begin(), tensor.strides().end());
  Capsule& capsule = exported->capsule;
  capsule.tensor = {tensor.data(),
                    device,
                    tensor.ndim(),
                    type_of(tensor.dtype()),
                    exported->shape.data(),
                    exported->strides.data(),
                    0};
  capsule.context = exported.get();
  capsule.deleter = [](Capsule* self) { delete static_cast<Exported<Capsule>*>(self->context); };
  order_consumer(tensor, options.stream);
  return &exported.release()->capsule;
}

// Calls the deleter on destruction if it owns the capsule.
template <class Capsule>
struct Imported {
  explicit Imported(Capsule* from) : capsule(from) {}
  Imported(const Imported&) = delete;
  Imported& operator=(const Imported&) = delete;
  ~Imported() {
    if (is_ours && capsule->deleter != nullptr) capsule->deleter(capsule);
  }
  Capsule* capsule;
  bool is_ours = false;
};

Shape shape_of(const TensorView& view) {
  TESSERA_CHECK(view.ndim >= 0 && view.ndim <= kMaxDims, "DLPack: ndim must be in [0, ", kMaxDims, "], got ",
                view.ndim);
  TESSERA_CHECK(view.ndim == 0 || view.shape != nullptr, "DLPack: a tensor of ", view.ndim,
                " dimensions requires a shape");
  return Shape(std::span<const std::int64_t>(view.shape, static_cast<std::size_t>(view.ndim)));
}

// Returns the address of the first element after checking that all elements have valid addresses.
std::byte* first_element(const TensorView& view, const Shape& shape, const Strides& strides, DType dtype) {
  const auto bounds = view_bounds(shape, strides);
  if (!bounds) return nullptr;
  const auto item = static_cast<__int128>(itemsize(dtype));
  const __int128 start = static_cast<__int128>(reinterpret_cast<std::uintptr_t>(view.data)) + view.byte_offset;
  const __int128 low = start + bounds->min * item;
  const __int128 high = start + (bounds->max + static_cast<__int128>(1)) * item;
  // Upper bound of user addresses; it also keeps differences of two addresses far from 64 bits.
  constexpr __int128 kAddressEnd = static_cast<__int128>(1) << 57;
  TESSERA_CHECK(view.data != nullptr && low > 0 && high <= kAddressEnd, "DLPack: ", dtype, shape, " with strides ",
                strides, " at ", static_cast<const void*>(view.data), " + ", view.byte_offset,
                " bytes is outside the address space");
  return reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(start));
}

template <class Capsule>
Tensor import_capsule(Capsule* capsule, const DlpackImportOptions& options) {
  const TensorView& view = capsule->tensor;
  const DType dtype = dtype_of_type(view.dtype);
  const Shape shape = shape_of(view);
  (void)tessera::nbytes(shape, dtype);  // throws if it does not fit
  const auto dims = static_cast<std::size_t>(view.ndim);
  const Strides strides = view.strides == nullptr || view.ndim == 0
                              ? contiguous_strides(shape)
                              : Strides(std::span<const std::int64_t>(view.strides, dims));
  std::byte* first = first_element(view, shape, strides, dtype);
  const device::Device device = device_of(view.device, options.device);
  const auto owner = std::make_shared<Imported<Capsule>>(capsule);
  Tensor tensor = Tensor::wrap(first, shape, dtype, device, owner, &strides);
  owner->is_ours = true;
  return tensor;
}

}  // namespace

ManagedTensorVersioned* to_dlpack(const Tensor& tensor, const DlpackExportOptions& options) {
  auto* capsule = export_capsule<ManagedTensorVersioned>(tensor, options);
  capsule->version = {kMajor, kMinor};
  if (options.read_only) capsule->flags = dlpack::kReadOnly;
  return capsule;
}

ManagedTensor* to_dlpack_unversioned(const Tensor& tensor, const DlpackExportOptions& options) {
  TESSERA_CHECK(!options.read_only, "to_dlpack_unversioned: read_only requires DLPack 1; use to_dlpack()");
  return export_capsule<ManagedTensor>(tensor, options);
}

Tensor from_dlpack(ManagedTensorVersioned* capsule, const DlpackImportOptions& options) {
  TESSERA_CHECK(capsule != nullptr, "from_dlpack: capsule must not be null");
  TESSERA_CHECK_AS(NotSupported, capsule->version.major == kMajor, "DLPack: major version must be ", kMajor,
                   ", got version ", capsule->version.major, ".", capsule->version.minor);
  TESSERA_CHECK((capsule->flags & dlpack::kReadOnly) == 0 || options.accept_read_only,
                "DLPack: elements are read-only; set accept_read_only and do not write them, or copy them first");
  return import_capsule(capsule, options);
}

Tensor from_dlpack(ManagedTensor* capsule, const DlpackImportOptions& options) {
  TESSERA_CHECK(capsule != nullptr, "from_dlpack: capsule must not be null");
  return import_capsule(capsule, options);
}

}  // namespace tessera::tensor
