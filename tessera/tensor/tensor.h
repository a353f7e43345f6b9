// A tensor: elements of one dtype under a shape, in memory of one device; or, with a layout, one whose elements lie cut
// over the ranks of a mesh.
//
// A Tensor is a handle; copies share elements. Views share storage. A plain tensor has strides and an offset into its
// storage. A tensor with a layout has a global shape() and holds its local part as a plain tensor, which only local()
// gives: data() and strides() refuse it, so that no code takes a part for the whole by mistake.
//
// Everything is asynchronous: elements are there once the stream that wrote them has done its work. Tensors may be read
// from several threads; changing one (in place, or what autograd keeps on it) is for one thread at a time.
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
#include "tessera/tensor/recycled.h"
#include "tessera/tensor/scalar.h"
#include "tessera/tensor/storage.h"

namespace tessera::tensor {

class Tensor;

/// What autograd keeps on a tensor; it defines the rest.
class GradientState : public detail::Recycled {
 public:
  GradientState() = default;
  GradientState(const GradientState&) = delete;
  GradientState& operator=(const GradientState&) = delete;
  virtual ~GradientState() = default;
  /// Whether gradients flow to this tensor: it asks for one, or was computed from one that does.
  bool is_tracked = false;
};

namespace detail {

/// The object behind a handle.
struct TESSERA_API TensorState final : public Counted, public Recycled {
  TensorState() {}  // NOLINT(modernize-use-equals-default): a defaulted one is filled with zeros first by `new T()`
  TensorState(Ref<Storage> bytes, Shape&& dims, Strides&& steps, std::int64_t elements, DType type)
      : storage(std::move(bytes)), shape(std::move(dims)), strides(std::move(steps)), numel(elements), dtype(type) {}
  ~TensorState();
  Ref<Storage> storage;       // null for a tensor with a layout
  Shape shape;                // global with a layout
  Strides strides;            // of a plain tensor
  std::int64_t offset = 0;    // into the storage, in elements
  std::int64_t numel = 1;     // of shape
  DType dtype = DType::kF32;  // of the elements
  bool is_contiguous = true;  // a plain one
  bool has_layout = false;
  bool is_constant = false;  // made from numbers by an operator that says so
  layout::Layout layout;
  Ref<TensorState> local;  // with a layout: this rank's part; null off the mesh
  std::unique_ptr<GradientState> gradient;
};

}  // namespace detail

/// See the head of this file.
class TESSERA_API Tensor {
 public:
  /// No tensor.
  Tensor() = default;
  /// New memory for this shape and dtype on `device`, uninitialised, for work on its current stream.
  static Tensor allocate(const Shape& shape, DType dtype, const device::Device& device);
  /// Likewise where it is already known.
  static Tensor allocate(Shape shape, DType dtype, const CurrentDevice& where);
  /// A view of bytes from outside on `device`, contiguous unless strides are given; `owner` keeps them alive. Refuses
  /// data that is not aligned to its elements.
  static Tensor wrap(void* data, Shape shape, DType dtype, const device::Device& device, std::shared_ptr<void> owner,
                     const Strides* strides = nullptr);
  /// The tensor of this global shape whose part on this rank is `local` (no tensor: this rank is off the mesh).
  static Tensor sharded(Shape global, DType dtype, layout::Layout layout, Tensor local);
  /// Whether there is a tensor.
  explicit operator bool() const { return static_cast<bool>(state_); }

  /// Its dimensions; global with a layout.
  [[nodiscard]] const Shape& shape() const { return state_->shape; }
  /// Steps between elements; refuses a tensor with a layout.
  [[nodiscard]] const Strides& strides() const {
    check_plain("strides");
    return state_->strides;
  }
  /// Of its elements.
  [[nodiscard]] DType dtype() const { return state_->dtype; }
  /// How many dimensions.
  [[nodiscard]] int ndim() const { return state_->shape.ndim(); }
  /// Size of a dimension, counted from the end when negative; InvalidArgument when there is none such.
  [[nodiscard]] std::int64_t size(int dim) const { return state_->shape.dim(dim); }
  /// How many elements.
  [[nodiscard]] std::int64_t numel() const { return state_->numel; }
  /// Bytes of its elements, lying dense.
  [[nodiscard]] std::size_t nbytes() const { return static_cast<std::size_t>(numel()) * itemsize(dtype()); }
  /// Where it lies; with a layout, where this rank's part does (InvalidArgument off the mesh).
  [[nodiscard]] const device::Device& device() const { return plain().storage->device(); }
  /// The kind of that device.
  [[nodiscard]] DeviceKind device_kind() const { return plain().storage->kind(); }
  /// Whether elements lie dense, last dimension fastest; refuses a tensor with a layout.
  [[nodiscard]] bool is_contiguous() const {
    check_plain("is_contiguous");
    return state_->is_contiguous;
  }
  /// First element's bytes; refuses a tensor with a layout. What is there is up to the stream that writes it.
  [[nodiscard]] std::byte* data() const {
    check_plain("data");
    return state_->storage->data() + state_->offset * static_cast<std::int64_t>(itemsize(dtype()));
  }
  /// Likewise, checked to be of T.
  template <class T>
  [[nodiscard]] T* data_as() const {
    TESSERA_CHECK(dtype_of<T>() == dtype(), "a tensor of ", dtype(), " read as ", dtype_of<T>());
    return reinterpret_cast<T*>(data());
  }
  /// Offset of its first element in its storage, in elements.
  [[nodiscard]] std::int64_t offset() const { return state_->offset; }
  /// The bytes behind it; refuses a tensor with a layout.
  [[nodiscard]] const Storage& storage() const {
    check_plain("storage");
    return *state_->storage;
  }
  /// Writes to its storage so far, through any view.
  [[nodiscard]] std::uint64_t version() const { return plain().storage->version(); }

  /// How it is cut over ranks; empty for a plain tensor.
  [[nodiscard]] const layout::Layout& layout() const { return state_->layout; }
  /// Whether it has a layout.
  [[nodiscard]] bool has_layout() const { return state_->has_layout; }
  /// Whether it is plain, was made from numbers alone (full, zeros, ones, arange, eye) and not written since: a program
  /// that makes it on every rank has the same everywhere. Views of it are none: where they look may be a rank's own
  /// matter.
  [[nodiscard]] bool is_constant() const { return state_->is_constant && state_->storage->version() == 0; }
  /// This rank's part as a plain tensor, outside autograd; no tensor off the mesh. Of a plain tensor: itself.
  [[nodiscard]] Tensor local() const;

  /// A view of the same storage: another shape, strides, and offset (absolute, in elements). Refuses what would leave
  /// the storage. Plain tensors only; outside autograd.
  [[nodiscard]] Tensor as_strided(Shape shape, Strides strides, std::int64_t offset) const;
  /// Likewise, with the bytes read as another dtype; strides and offset count its elements.
  [[nodiscard]] Tensor reinterpreted(DType dtype, Shape shape, Strides strides, std::int64_t offset) const;
  /// The same elements, outside autograd.
  [[nodiscard]] Tensor detach() const;

  /// Whether a call on it is recorded for gradients.
  [[nodiscard]] bool is_tracked() const { return state_->gradient != nullptr && state_->gradient->is_tracked; }
  /// What autograd keeps; null: nothing.
  [[nodiscard]] GradientState* gradient_state() const { return state_->gradient.get(); }
  /// For autograd.
  void set_gradient_state(std::unique_ptr<GradientState> state) const { state_->gradient = std::move(state); }
  /// The same tensor: the same object, not merely equal elements.
  friend bool operator==(const Tensor& a, const Tensor& b) { return a.state_ == b.state_; }
  /// The object behind the handle.
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

  detail::Ref<detail::TensorState> state_;
};

/// "f32[2, 3] on host"; with a layout: "f32[2, 3] dp=2 {Shard(0)}"; "no tensor".
TESSERA_API std::string describe(const Tensor& tensor);

}  // namespace tessera::tensor

namespace tessera {
using tensor::Scalar;  // NOLINT(misc-unused-using-decls)
using tensor::Tensor;  // NOLINT(misc-unused-using-decls)
}  // namespace tessera
