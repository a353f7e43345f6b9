#include "tessera/tensor/tensor.h"

#include <utility>

#include "tessera/base/checked.h"

namespace tessera::tensor {

using detail::Ref;
using detail::TensorState;

detail::TensorState::~TensorState() = default;

Tensor Tensor::allocate(const Shape& shape, DType dtype, const device::Device& device) {
  return allocate(shape, dtype, current_device(device));
}

Tensor Tensor::allocate(Shape shape, DType dtype, const CurrentDevice& where) {
  auto storage = Ref<Storage>::adopt(new Storage(tessera::nbytes(shape, dtype), where));
  Strides strides = contiguous_strides(shape);
  const std::int64_t numel = shape.numel();
  return Tensor(
      Ref<TensorState>::adopt(new TensorState(std::move(storage), std::move(shape), std::move(strides), numel, dtype)));
}

namespace {

// Returns the end of the elements of a storage that a view touches. Throws if the view starts before the storage.
std::int64_t end_of_view(const char* what, const Shape& shape, const Strides& strides, std::int64_t offset) {
  const auto bounds = view_bounds(shape, strides, offset);
  if (!bounds) return 0;
  TESSERA_CHECK(bounds->min >= 0, what, ": view must start in its storage, got one that starts ", -bounds->min,
                " elements before, of shape ", shape, ", strides ", strides, " and offset ", offset);
  return bounds->max + 1;
}

}  // namespace

Tensor Tensor::wrap(void* data, Shape shape, DType dtype, const device::Device& device, std::shared_ptr<void> owner,
                    const Strides* strides) {
  const std::size_t item = itemsize(dtype);
  const std::size_t alignment = itemsize(real_of(dtype));
  TESSERA_CHECK(reinterpret_cast<std::uintptr_t>(data) % alignment == 0, "Tensor::wrap: data of ", dtype,
                " must be aligned to ", alignment, " bytes, got ", static_cast<const void*>(data), "; copy it");
  auto state = Ref<TensorState>::adopt(new TensorState());
  state->numel = shape.numel();
  state->strides = strides != nullptr ? *strides : contiguous_strides(shape);
  const auto bounds = view_bounds(shape, state->strides);
  // Negative strides reach below the pointer: the storage starts at the lowest element.
  const std::int64_t before = bounds ? checked_mul(bounds->min, std::int64_t{-1}, "start of a view") : 0;
  const std::int64_t elements =
      bounds ? checked_add(checked_add(bounds->max, before, "elements of a view"), std::int64_t{1}) : 0;
  const std::int64_t total = checked_mul(elements, static_cast<std::int64_t>(item), "bytes of a view");
  TESSERA_CHECK(data != nullptr || elements == 0, "Tensor::wrap: data must be the address of ", elements,
                " elements, got null");
  state->storage =
      Ref<Storage>::adopt(new Storage(static_cast<std::byte*>(data) - before * static_cast<std::int64_t>(item),
                                      static_cast<std::size_t>(total), device, std::move(owner)));
  state->offset = before;
  state->is_contiguous = tessera::is_contiguous(shape, state->strides);
  state->shape = std::move(shape);
  state->dtype = dtype;
  return Tensor(std::move(state));
}

Tensor Tensor::sharded(Shape global, DType dtype, layout::Layout layout, Tensor local) {
  TESSERA_CHECK(layout,
                "Tensor::sharded: layout must not be empty; use Tensor::wrap or Tensor::allocate for a plain tensor");
  TESSERA_CHECK(!local || !local.has_layout(), "Tensor::sharded: local shard must be a plain tensor, got ",
                describe(local));
  TESSERA_CHECK(!local || local.dtype() == dtype, "Tensor::sharded: local shard must have the dtype of the tensor, ",
                dtype, ", got ", local.dtype());
  TESSERA_CHECK(layout.ndim() <= global.ndim(), "Tensor::sharded: shape must have at least ", layout.ndim(),
                " dimensions for layout ", layout.text(), ", got ", global);
  TESSERA_CHECK(!local || local.ndim() == global.ndim(),
                "Tensor::sharded: local shard must have as many dimensions as the global shape ", global, ", got ",
                local.shape());
  auto state = Ref<TensorState>::adopt(new TensorState());
  state->numel = global.numel();
  state->shape = std::move(global);
  state->dtype = dtype;
  state->is_contiguous = false;
  state->has_layout = true;
  state->layout = std::move(layout);
  state->local = std::move(local.state_);
  return Tensor(std::move(state));
}

Tensor Tensor::local() const { return state_->has_layout ? Tensor(state_->local) : *this; }

Tensor Tensor::as_strided(Shape shape, Strides strides, std::int64_t offset) const {
  return reinterpreted(dtype(), std::move(shape), std::move(strides), offset);
}

Tensor Tensor::reinterpreted(DType dtype, Shape shape, Strides strides, std::int64_t offset) const {
  const char* const what = dtype == state_->dtype ? "as_strided" : "reinterpreted";
  check_plain(what);
  const std::int64_t end = end_of_view(what, shape, strides, offset);
  const auto have = static_cast<std::int64_t>(state_->storage->nbytes() / itemsize(dtype));
  TESSERA_CHECK(end <= have, what, ": view must end in its storage of ", have, " elements, got one that ends at ", end,
                ", of shape ", shape, ", strides ", strides, " and offset ", offset);
  TESSERA_CHECK(dtype == state_->dtype ||
                    reinterpret_cast<std::uintptr_t>(state_->storage->data()) % itemsize(real_of(dtype)) == 0,
                what, ": the bytes of ", describe(*this), " must be aligned to elements of ", dtype, "; copy them");
  const bool is_dense = tessera::is_contiguous(shape, strides);
  const std::int64_t numel = shape.numel();
  auto state =
      Ref<TensorState>::adopt(new TensorState(state_->storage, std::move(shape), std::move(strides), numel, dtype));
  state->offset = offset;
  state->is_contiguous = is_dense;
  return Tensor(std::move(state));
}

Tensor Tensor::detach() const {
  auto state = Ref<TensorState>::adopt(
      new TensorState(state_->storage, Shape(state_->shape), Strides(state_->strides), state_->numel, state_->dtype));
  state->offset = state_->offset;
  state->is_contiguous = state_->is_contiguous;
  state->is_constant = state_->is_constant;
  state->has_layout = state_->has_layout;
  state->layout = state_->layout;
  state->local = state_->local;
  return Tensor(std::move(state));
}

const detail::TensorState& Tensor::local_state() const {
  TESSERA_CHECK(state_->local, "this rank is not in the mesh of ", describe(*this), " and holds no shard");
  return *state_->local;
}

void Tensor::refuse_values(const char* what) const {
  TESSERA_THROW(NotSupported, what, "(): tensor must have values, got ", describe(*this),
                "; create it on a device with storage");
}

void Tensor::refuse_layout(const char* what) const {
  TESSERA_THROW(InvalidArgument, what, "(): tensor must be plain, got ", describe(*this),
                "; use local() for the local shard");
}

std::string describe(const Tensor& tensor) {
  if (!tensor) return "no tensor";
  std::string text(to_string(tensor.dtype()));
  text += to_string(tensor.shape());
  if (tensor.has_layout()) return text + " " + tensor.layout().text();
  return text + " on " + tensor.device().name();
}

}  // namespace tessera::tensor
