#include "tessera/ops/create/create.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "tessera/base/rank.h"
#include "tessera/layout/planner.h"
#include "tessera/ops/create/detail/fill.h"
#include "tessera/tensor/call.h"
#include "tessera/tensor/device_context.h"

namespace tessera::ops {
namespace {

using detail::Item;
using tensor::Attributes;
using tensor::Call;
using tensor::KernelCall;
using tensor::LocalizeCall;
using tensor::OutputInfo;

device::Device device_of(const CreateOptions& options) {
  return options.device ? options.device : tensor::default_device();
}

// full ---------------------------------------------------------------------------------------------------------------

void infer_full(const Call& call, std::span<OutputInfo> outputs) {
  const auto& attributes = call.as<FullAttributes>();
  outputs[0] = {attributes.shape, attributes.dtype};
}

// Copies the item, `kItem` bytes long, to every element.
template <std::size_t kItem>
void fill_items(const detail::Loop& loop, std::byte* data, const Item& item) {
  struct Element {
    std::byte bytes[kItem];
  };
  Element element;
  std::memcpy(&element, item.bytes, kItem);
  detail::parallel_for(loop.numel(), detail::kPiece, [&](std::int64_t begin, std::int64_t end) {
    loop.for_runs(begin, end, [&](const std::int64_t* offsets, std::int64_t n) {
      auto* to = reinterpret_cast<Element*>(data) + offsets[0];
      const std::int64_t step = loop.step(0);
      if (step == 1) {
        std::fill_n(to, n, element);
      } else {
        for (std::int64_t i = 0; i < n; ++i) to[i * step] = element;
      }
    });
  });
}

void run_full(const KernelCall& call) {
  const Tensor& out = call.outputs[0];
  if (out.numel() == 0) return;
  const detail::ByteRange written = detail::byte_range(out);
  const device::Access accesses[] = {device::writes(written.address, written.nbytes)};
  call.stream().run(
      [loop = detail::Loop({&out}), data = out.data(), size = itemsize(out.dtype()),
       item = detail::item_of(call.as<FullAttributes>().value, out.dtype())] {
        switch (size) {
          case 1: return fill_items<1>(loop, data, item);
          case 2: return fill_items<2>(loop, data, item);
          case 4: return fill_items<4>(loop, data, item);
          case 8: return fill_items<8>(loop, data, item);
          default: return fill_items<16>(loop, data, item);
        }
      },
      {.label = call.op.name(), .accesses = accesses});
}

tensor::Cost cost_of_creation(const Call& call) {
  OutputInfo info;
  call.op->def.infer(call, std::span(&info, 1));
  return {.nbytes = static_cast<double>(nbytes(info.shape, info.dtype))};
}

Attributes localize_full(const LocalizeCall& call) {
  FullAttributes local = call.global.as<FullAttributes>();
  local.shape = call.outputs[0].shape;
  return Attributes(local);
}

const tensor::Operator kFull = tensor::register_op(
    {.name = "full",
     .inputs = "",
     .infer = infer_full,
     .host = run_full,
     .rule = [](const Call& call) { return detail::rule_from_nothing(call, call.as<FullAttributes>().shape); },
     .localize = localize_full,
     .cost = cost_of_creation,
     .traits = {.is_constant = true}});

// arange -------------------------------------------------------------------------------------------------------------

void infer_arange(const Call& call, std::span<OutputInfo> outputs) {
  const auto& attributes = call.as<ArangeAttributes>();
  outputs[0] = {Shape({attributes.size}), attributes.dtype};
}

void run_arange(const KernelCall& call) {
  const auto& attributes = call.as<ArangeAttributes>();
  detail::Places places(Shape({attributes.size}), Shape({0}), attributes.index);
  if (attributes.start.kind() == Scalar::Kind::kFloating || attributes.step.kind() == Scalar::Kind::kFloating) {
    const double start = attributes.start.as_double();
    const double step = attributes.step.as_double();
    detail::launch_fill<double>(call, std::move(places), [=](double* tile, std::uint64_t first, std::int64_t n) {
      for (std::int64_t i = 0; i < n; ++i) {
        tile[i] = std::fma(static_cast<double>(first + static_cast<std::uint64_t>(i)), step, start);
      }
    });
    return;
  }
  const std::int64_t start = attributes.start.as_int64();
  const std::int64_t step = attributes.step.as_int64();
  detail::launch_fill<std::int64_t>(call, std::move(places),
                                    [=](std::int64_t* tile, std::uint64_t first, std::int64_t n) {
                                      for (std::int64_t i = 0; i < n; ++i)
                                        tile[i] = start + (static_cast<std::int64_t>(first) + i) * step;
                                    });
}

Attributes localize_arange(const LocalizeCall& call) {
  ArangeAttributes local = call.global.as<ArangeAttributes>();
  local.size = call.outputs[0].shape[0];
  local.index = call.outputs[0].index;
  return Attributes(local);
}

const tensor::Operator kArange = tensor::register_op(
    {.name = "arange",
     .inputs = "",
     .infer = infer_arange,
     .host = run_arange,
     .rule =
         [](const Call& call) { return detail::rule_from_nothing(call, Shape({call.as<ArangeAttributes>().size})); },
     .localize = localize_arange,
     .cost = cost_of_creation,
     .traits = {.is_constant = true}});

// eye ----------------------------------------------------------------------------------------------------------------

// A global row stride of 2^31 keeps row and column separable for any number of columns up to it.
constexpr std::int64_t kEyeRow = std::int64_t{1} << 31;
constexpr std::int64_t kEyeRows = INT64_MAX / kEyeRow;

void infer_eye(const Call& call, std::span<OutputInfo> outputs) {
  const auto& attributes = call.as<EyeAttributes>();
  TESSERA_CHECK_CALL(call, attributes.shape.ndim() == 2, "shape must have 2 dimensions, got ", attributes.shape);
  TESSERA_CHECK_CALL(call, attributes.shape[0] <= kEyeRows && attributes.shape[1] <= kEyeRow,
                     "shape must have at most ", kEyeRows, " rows and ", kEyeRow, " columns, got ", attributes.shape);
  outputs[0] = {attributes.shape, attributes.dtype};
}

void run_eye(const KernelCall& call) {
  const auto& attributes = call.as<EyeAttributes>();
  std::vector<layout::IndexMap> index = attributes.index;
  if (index.empty()) {
    for (const std::int64_t size : attributes.shape) index.push_back({.offset = 0, .block = size, .levels = {}});
  }
  detail::Places places(attributes.shape, Shape({kEyeRow, kEyeRow}), index);
  detail::launch_fill<float>(call, std::move(places), [](float* tile, std::uint64_t first, std::int64_t n) {
    const auto row = static_cast<std::int64_t>(first) / kEyeRow;
    const auto column = static_cast<std::int64_t>(first) % kEyeRow;
    for (std::int64_t i = 0; i < n; ++i) tile[i] = column + i == row ? 1.0F : 0.0F;
  });
}

Attributes localize_eye(const LocalizeCall& call) {
  EyeAttributes local = call.global.as<EyeAttributes>();
  local.shape = call.outputs[0].shape;
  local.index = call.outputs[0].index;
  return Attributes(local);
}

const tensor::Operator kEye = tensor::register_op(
    {.name = "eye",
     .inputs = "",
     .infer = infer_eye,
     .host = run_eye,
     .rule = [](const Call& call) { return detail::rule_from_nothing(call, call.as<EyeAttributes>().shape); },
     .localize = localize_eye,
     .cost = cost_of_creation,
     .traits = {.is_constant = true}});

}  // namespace

namespace {

// Runs `op` on a new tensor of this shape. With a layout, each rank runs it on its shard.
template <class Each>
Tensor created(const tensor::Operator& op, const Shape& shape, const CreateOptions& options, const Each& attributes) {
  if (!options.layout) return tensor::call_on(device_of(options), op, attributes);
  return tensor::call_out(op, empty(shape, options), {}, attributes);
}

}  // namespace

Tensor empty(const Shape& shape, const CreateOptions& options) {
  const DType dtype = options.dtype.value_or(DType::kF32);
  const layout::Layout& layout = options.layout;
  if (!layout) return Tensor::allocate(shape, dtype, device_of(options));
  TESSERA_CHECK(layout.partials().empty(), "CreateOptions: layout must not be partial, got ", layout.text(),
                " for shape ", shape, "; create a replicated tensor, and redistribute() it");
  layout::check_fits(layout, shape);
  const Rank rank = current_place().rank;
  Tensor local;
  if (layout.mesh().contains(rank)) {
    local = Tensor::allocate(layout::local_shape(layout, shape, rank), dtype, device_of(options));
  }
  return Tensor::sharded(shape, dtype, layout, std::move(local));
}
Tensor full(const Shape& shape, const Scalar& value, const CreateOptions& options) {
  return created(kFull, shape, options, FullAttributes{shape, options.dtype.value_or(DType::kF32), value});
}
Tensor zeros(const Shape& shape, const CreateOptions& options) { return full(shape, 0, options); }
Tensor ones(const Shape& shape, const CreateOptions& options) { return full(shape, 1, options); }
std::int64_t arange_size(const Scalar& start, const Scalar& end, const Scalar& step) {
  TESSERA_CHECK(step.as_double() != 0, "arange: step must not be 0, got ", to_string(step));
  TESSERA_CHECK(std::max({start.kind(), end.kind(), step.kind()}) <= Scalar::Kind::kFloating,
                "arange: start, end and step must be real numbers, got a complex number");
  const bool is_whole = std::max({start.kind(), end.kind(), step.kind()}) <= Scalar::Kind::kInteger;
  if (is_whole) {
    std::int64_t length = 0;
    TESSERA_CHECK(!__builtin_sub_overflow(end.as_int64(), start.as_int64(), &length) && length != INT64_MIN,
                  "arange: range must have fewer than 2^63 elements, got start ", start.as_int64(), " and end ",
                  end.as_int64());
    const std::int64_t by = step.as_int64();
    if (length == 0 || (length > 0) != (by > 0)) return 0;
    return length / by + (length % by != 0 ? 1 : 0);
  }
  const double size = std::ceil((end.as_double() - start.as_double()) / step.as_double());
  TESSERA_CHECK(std::abs(size) < 9e15, "arange: range must have fewer than 9e15 elements, got start ",
                start.as_double(), ", end ", end.as_double(), " and step ", step.as_double());
  return std::max<std::int64_t>(0, static_cast<std::int64_t>(size));
}
Tensor arange(const Scalar& start, const Scalar& end, const Scalar& step, const CreateOptions& options) {
  CreateOptions chosen = options;
  const bool is_whole = std::max({start.kind(), end.kind(), step.kind()}) <= Scalar::Kind::kInteger;
  if (!chosen.dtype) chosen.dtype = is_whole ? DType::kI64 : DType::kF32;
  const std::int64_t size = arange_size(start, end, step);
  return created(kArange, Shape({size}), chosen, ArangeAttributes{size, *chosen.dtype, start, step, {}});
}
Tensor arange(const Scalar& start, const Scalar& end, const CreateOptions& options) {
  return arange(start, end, 1, options);
}
Tensor arange(const Scalar& end, const CreateOptions& options) { return arange(0, end, 1, options); }
Tensor eye(std::int64_t rows, std::int64_t columns, const CreateOptions& options) {
  const Shape shape({rows, columns});
  return created(kEye, shape, options, EyeAttributes{shape, options.dtype.value_or(DType::kF32), {}});
}
Tensor eye(std::int64_t size, const CreateOptions& options) { return eye(size, size, options); }

Tensor empty_like(const Tensor& x) {
  if (!x.has_layout()) return Tensor::allocate(x.shape(), x.dtype(), x.device());
  // Has the sharding of x; Partial placements become Replicate.
  const layout::Layout layout = layout::gradient_layout(x.layout());
  Tensor local;
  if (x.local()) {
    local = Tensor::allocate(layout::local_shape(layout, x.shape(), current_place().rank), x.dtype(), x.device());
  }
  return Tensor::sharded(x.shape(), x.dtype(), layout, std::move(local));
}
Tensor full_like(const Tensor& x, const Scalar& value) {
  if (!x.has_layout()) return full(x.shape(), value, {.dtype = x.dtype(), .device = x.device()});
  Tensor out = empty_like(x);
  fill_(out, value);
  return out;
}
Tensor zeros_like(const Tensor& x) { return full_like(x, 0); }
Tensor ones_like(const Tensor& x) { return full_like(x, 1); }

void fill_(const Tensor& x, const Scalar& value) {
  tensor::call_out(kFull, x, {}, FullAttributes{x.shape(), x.dtype(), value});
}
void zero_(const Tensor& x) { fill_(x, 0); }

}  // namespace tessera::ops
