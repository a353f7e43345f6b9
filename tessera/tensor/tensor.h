// A tensor: elements of one dtype under a shape, in memory of one device or,
// with a layout, sharded over the ranks of a mesh.
//
// A Tensor is a handle; copies share elements. Views share storage. A plain tensor has strides and an offset into its
// storage. A tensor with a layout has a global shape() and holds its local shard as a plain tensor, which local()
// returns. data() and strides() throw for a tensor with a layout, so that no code mistakes the shard for the global
// tensor.
//
// All calls are asynchronous: elements are valid once the stream that writes them has finished. Several threads may
// read a tensor. Only one thread at a time may modify it (in place, or its autograd state).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "tessera/base/dtype.h"
#include "tessera/base/error.h"
#include "tessera/base/export.h"
#include "tessera/base/shape.h"
#include "tessera/layout/layout.h"
#include "tessera/tensor/counted.h"
#include "tessera/tensor/methods.h"
#include "tessera/tensor/recycled.h"
#include "tessera/tensor/scalar.h"
#include "tessera/tensor/storage.h"

namespace tessera::tensor {

class Tensor;

/// Autograd state of a tensor. The autograd layer derives from it.
class GradientState : public detail::Recycled {
 public:
  GradientState() = default;
  GradientState(const GradientState&) = delete;
  GradientState& operator=(const GradientState&) = delete;
  virtual ~GradientState() = default;
  /// True if gradients flow to this tensor: it requires a gradient, or was computed from a tensor that does.
  bool is_tracked = false;
};

namespace detail {

/// The shared object of tensor handles.
struct TESSERA_API TensorState final : public Counted, public Recycled {
  TensorState() {}  // NOLINT(modernize-use-equals-default): a defaulted one is filled with zeros first by `new T()`
  TensorState(Ref<Storage> bytes, Shape&& dims, Strides&& steps, std::int64_t elements, DType type)
      : storage(std::move(bytes)), shape(std::move(dims)), strides(std::move(steps)), numel(elements), dtype(type) {}
  ~TensorState();
  Ref<Storage> storage;     // null for a tensor with a layout
  Shape shape;              // global for a tensor with a layout
  Strides strides;          // of a plain tensor
  std::int64_t offset = 0;  // into the storage, in elements
  std::int64_t numel = 1;
  DType dtype = DType::kF32;
  bool is_contiguous = true;  // of a plain tensor
  bool has_layout = false;
  bool is_constant = false;  // created from numbers by an operator with OpTraits::is_constant
  layout::Layout layout;
  Ref<TensorState> local;  // with a layout: the local shard; null outside the mesh
  std::unique_ptr<GradientState> gradient;
};

}  // namespace detail

/// Handle to a tensor. Copies share elements. Methods that call operators are in methods.h.
class TESSERA_API Tensor : public Methods {
 public:
  /// Constructs an empty handle.
  Tensor() = default;
  /// Returns an uninitialized tensor of this shape and dtype on `device`, for work on its current stream.
  static Tensor allocate(const Shape& shape, DType dtype, const device::Device& device);
  /// Returns an uninitialized tensor for a known device and stream.
  static Tensor allocate(Shape shape, DType dtype, const CurrentDevice& where);
  /// Returns a view of external memory on `device`, contiguous unless `strides` are given; `owner` keeps the memory
  /// alive. Throws InvalidArgument if `data` is not aligned to its elements.
  static Tensor wrap(void* data, Shape shape, DType dtype, const device::Device& device, std::shared_ptr<void> owner,
                     const Strides* strides = nullptr);
  /// Returns the tensor of this global shape whose shard on this rank is
  /// `local` (empty if this rank is outside the mesh).
  static Tensor sharded(Shape global, DType dtype, layout::Layout layout, Tensor local);
  /// Returns true if the handle refers to a tensor.
  explicit operator bool() const { return static_cast<bool>(state_); }

  /// Returns the dimensions; global with a layout.
  [[nodiscard]] const Shape& shape() const { return state_->shape; }
  /// Returns the strides in elements. Throws for a tensor with a layout.
  [[nodiscard]] const Strides& strides() const {
    check_plain("strides");
    return state_->strides;
  }
  /// Returns the element type.
  [[nodiscard]] DType dtype() const { return state_->dtype; }
  /// Returns the number of dimensions.
  [[nodiscard]] int ndim() const { return state_->shape.ndim(); }
  /// Returns the size of a dimension. A negative `dim` counts from the end.
  /// Throws InvalidArgument if it is out of range.
  [[nodiscard]] std::int64_t size(int dim) const { return state_->shape.dim(dim); }
  /// Returns the number of elements.
  [[nodiscard]] std::int64_t numel() const { return state_->numel; }
  /// Returns the bytes of the elements if stored contiguously.
  [[nodiscard]] std::size_t nbytes() const { return static_cast<std::size_t>(numel()) * itemsize(dtype()); }
  /// Returns the device; with a layout, the device of the local shard. Throws InvalidArgument outside the mesh.
  [[nodiscard]] const device::Device& device() const { return plain().storage->device(); }
  /// Returns the kind of the device.
  [[nodiscard]] DeviceKind device_kind() const { return plain().storage->kind(); }
  /// Returns true if the elements are contiguous, last dimension fastest. Throws for a tensor with a layout.
  [[nodiscard]] bool is_contiguous() const {
    check_plain("is_contiguous");
    return state_->is_contiguous;
  }
  /// Returns the address of the first element. Its content is valid once the stream that writes it has finished. Throws
  /// for a tensor with a layout, and NotSupported for a tensor without values (on "meta").
  [[nodiscard]] std::byte* data() const {
    check_plain("data");
    if (!state_->storage->has_values()) [[unlikely]]
      refuse_values("data");
    return address();
  }
  /// Returns the address of the first element, as an argument of work on a stream. Unlike data(), it may be the address
  /// of a tensor without values. Throws for a tensor with a layout.
  [[nodiscard]] std::byte* address() const {
    check_plain("address");
    return state_->storage->data() + state_->offset * static_cast<std::int64_t>(itemsize(dtype()));
  }
  /// Returns data() as T*. Throws InvalidArgument if T does not match the dtype.
  template <class T>
  [[nodiscard]] T* data_as() const {
    TESSERA_CHECK(dtype_of<T>() == dtype(), "data_as: T must be the type of ", dtype(), " elements, got that of ",
                  dtype_of<T>(), "; convert the tensor with to(dtype)");
    return reinterpret_cast<T*>(data());
  }
  /// Returns the offset of the first element in the storage, in elements.
  [[nodiscard]] std::int64_t offset() const { return state_->offset; }
  /// Returns the storage. Throws for a tensor with a layout.
  [[nodiscard]] const Storage& storage() const {
    check_plain("storage");
    return *state_->storage;
  }
  /// Returns the number of writes to the storage so far, through any view.
  [[nodiscard]] std::uint64_t version() const { return plain().storage->version(); }

  /// Returns the layout; empty for a plain tensor.
  [[nodiscard]] const layout::Layout& layout() const { return state_->layout; }
  /// Returns true if the tensor has a layout.
  [[nodiscard]] bool has_layout() const { return state_->has_layout; }
  /// Returns true if the tensor is plain, was created from numbers only (full, zeros, ones,
  /// arange, eye) and has not been written since: if all ranks create it, it is equal on all
  /// ranks. Views are not constant: their position may depend on the rank.
  [[nodiscard]] bool is_constant() const { return state_->is_constant && state_->storage->version() == 0; }
  /// Returns the local shard as a plain tensor, outside autograd; an empty handle
  /// outside the mesh. A plain tensor returns itself.
  [[nodiscard]] Tensor local() const;

  /// Returns a view of the same storage with another shape, strides and offset (absolute, in elements), outside
  /// autograd. Throws if the view would exceed the storage or the tensor has a layout.
  [[nodiscard]] Tensor as_strided(Shape shape, Strides strides, std::int64_t offset) const;
  /// Returns a view of the same storage with another dtype; strides and offset count elements of that dtype.
  [[nodiscard]] Tensor reinterpreted(DType dtype, Shape shape, Strides strides, std::int64_t offset) const;
  /// Returns a handle to the same elements, outside autograd.
  [[nodiscard]] Tensor detach() const;

  /// Returns true if calls on the tensor are recorded for gradients.
  [[nodiscard]] bool is_tracked() const { return state_->gradient != nullptr && state_->gradient->is_tracked; }
  /// Returns the autograd state; null if the tensor has no state.
  [[nodiscard]] GradientState* gradient_state() const { return state_->gradient.get(); }
  /// Sets the autograd state. For autograd only.
  void set_gradient_state(std::unique_ptr<GradientState> state) const { state_->gradient = std::move(state); }
  /// Returns true if both handles refer to the same tensor, not merely to equal elements.
  [[nodiscard]] bool is_same(const Tensor& other) const { return state_ == other.state_; }
  /// Returns the shared object of the handle.
  [[nodiscard]] detail::TensorState* state() const { return state_.get(); }

 private:
  friend class Arguments;
  friend class BorrowedTensors;
  explicit Tensor(detail::Ref<detail::TensorState> state) : state_(std::move(state)) {}
  [[nodiscard]] const detail::TensorState& plain() const {
    if (state_->has_layout) [[unlikely]]
      return local_state();
    return *state_;
  }
  [[nodiscard]] const detail::TensorState& local_state() const;
  void check_plain(const char* what) const {
    if (state_->has_layout) [[unlikely]]
      refuse_layout(what);
  }
  [[noreturn]] void refuse_layout(const char* what) const;
  [[noreturn]] void refuse_values(const char* what) const;

  detail::Ref<detail::TensorState> state_;
};

/// Destination of a result: add(a, b, {.out = t}). Operators with this parameter write to `out` and return it.
struct ResultOptions {
  const Tensor& out;  ///< tensor of the shape and dtype of the result
};

inline const Tensor& Methods::self() const { return static_cast<const Tensor&>(*this); }

/// Returns "f32[2, 3] on host", with a layout "f32[2, 3] dp=2 {Shard(0)}", or "no tensor" for an empty handle.
TESSERA_API std::string describe(const Tensor& tensor);

}  // namespace tessera::tensor

namespace tessera {
// NOLINTBEGIN(misc-unused-using-decls)
using tensor::ResultOptions;
using tensor::Scalar;
using tensor::Tensor;
// NOLINTEND(misc-unused-using-decls)
}  // namespace tessera

#include "tessera/tensor/operators.h"  // IWYU pragma: export
