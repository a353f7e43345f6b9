#include "tessera/ops/pointwise/convert.h"

#include <cstring>

#include "tessera/ops/detail/elements.h"
#include "tessera/ops/detail/enqueue.h"
#include "tessera/ops/detail/loops.h"
#include "tessera/ops/detail/tiles.h"
#include "tessera/ops/parallel.h"
#include "tessera/tensor/call.h"

namespace tessera::ops {
namespace {

using detail::kPiece;
using detail::kTile;
using detail::Loop;
using layout::Linearity;
using layout::Monotony;

// A copy of the second operand to the first, with conversion.
struct Move {
  Loop loop;
  std::byte* to;
  const std::byte* from;
  DType to_dtype;
  DType from_dtype;

  [[nodiscard]] std::byte* to_at(std::int64_t offset) const {
    return to + offset * static_cast<std::int64_t>(itemsize(to_dtype));
  }
  [[nodiscard]] const std::byte* from_at(std::int64_t offset) const {
    return from + offset * static_cast<std::int64_t>(itemsize(from_dtype));
  }
};

// Copies elements of `kItem` bytes without conversion.
template <std::size_t kItem>
void move_bytes(const Move& move) {
  struct Item {
    std::byte bytes[kItem];
  };
  const std::int64_t to_step = move.loop.step(0);
  const std::int64_t from_step = move.loop.step(1);
  detail::parallel_for(move.loop.numel(), kPiece, [&](std::int64_t begin, std::int64_t end) {
    move.loop.for_runs(begin, end, [&](const std::int64_t* offsets, std::int64_t n) {
      auto* to = reinterpret_cast<Item*>(move.to_at(offsets[0]));
      const auto* from = reinterpret_cast<const Item*>(move.from_at(offsets[1]));
      if (to_step == 1 && from_step == 1) {
        std::memcpy(static_cast<void*>(to), from, static_cast<std::size_t>(n) * kItem);
      } else {
        for (std::int64_t i = 0; i < n; ++i) to[i * to_step] = from[i * from_step];
      }
    });
  });
}

// Converts through tiles of T, which can hold every element of the source.
template <class T>
void move_through(const Move& move) {
  const bool is_read_in_place = move.from_dtype == tessera::dtype_of<T>() && move.loop.step(1) == 1;
  detail::parallel_for(move.loop.numel(), kPiece, [&](std::int64_t begin, std::int64_t end) {
    alignas(64) std::byte memory[kTile * sizeof(T)];
    T* tile = reinterpret_cast<T*>(memory);
    move.loop.for_runs(begin, end, [&](const std::int64_t* offsets, std::int64_t n) {
      for (std::int64_t i = 0; i < n; i += kTile) {
        const std::int64_t m = std::min(kTile, n - i);
        const std::byte* from = move.from_at(offsets[1] + i * move.loop.step(1));
        if (!is_read_in_place) detail::load(tile, from, move.from_dtype, move.loop.step(1), m);
        detail::store(is_read_in_place ? reinterpret_cast<const T*>(from) : tile,
                      move.to_at(offsets[0] + i * move.loop.step(0)), move.to_dtype, move.loop.step(0), m);
      }
    });
  });
}

// Converts u64, which fits no compute type, directly to the floating target and rounds once.
void move_u64(const Move& move) {
  detail::with_element_type(move.to_dtype, [&](auto* type) {
    using To = std::remove_pointer_t<decltype(type)>;
    detail::parallel_for(move.loop.numel(), kPiece, [&](std::int64_t begin, std::int64_t end) {
      move.loop.for_runs(begin, end, [&](const std::int64_t* offsets, std::int64_t n) {
        auto* to = reinterpret_cast<To*>(move.to_at(offsets[0]));
        const auto* from = reinterpret_cast<const std::uint64_t*>(move.from_at(offsets[1]));
        for (std::int64_t i = 0; i < n; ++i) {
          to[i * move.loop.step(0)] = detail::convert<To>(from[i * move.loop.step(1)]);
        }
      });
    });
  });
}

void run_move(const Move& move) {
  if (move.to_dtype == move.from_dtype) {
    switch (itemsize(move.to_dtype)) {
      case 1: return move_bytes<1>(move);
      case 2: return move_bytes<2>(move);
      case 4: return move_bytes<4>(move);
      case 8: return move_bytes<8>(move);
      default: return move_bytes<16>(move);
    }
  }
  if (move.to_dtype == DType::kC128 || move.from_dtype == DType::kC128) {
    return move_through<std::complex<double>>(move);
  }
  if (move.from_dtype == DType::kU64 && (is_floating(move.to_dtype) || is_complex(move.to_dtype))) {
    return move_u64(move);
  }
  switch (detail::compute_of(move.from_dtype)) {
    case detail::Compute::kF32: return move_through<float>(move);
    case detail::Compute::kF64: return move_through<double>(move);
    case detail::Compute::kI64: return move_through<std::int64_t>(move);
    case detail::Compute::kC64: return move_through<std::complex<float>>(move);
  }
}

void run_host(const tensor::KernelCall& call) {
  const Tensor& out = call.outputs[0];
  const Tensor& x = call.inputs[0];
  if (out.numel() == 0) return;
  detail::enqueue(call,
                  [move = Move{Loop({&out, &x}), out.data(), x.data(), out.dtype(), x.dtype()}] { run_move(move); });
}

void infer_cast(const tensor::Call& call, std::span<tensor::OutputInfo> outputs) {
  outputs[0] = {call.inputs[0].shape(), call.as<CastAttributes>().dtype};
}
void infer_copy(const tensor::Call& call, std::span<tensor::OutputInfo> outputs) {
  outputs[0] = {call.inputs[0].shape(), call.inputs[0].dtype()};
}

// Sums commute with a cast as with other operators of the result dtype, which round each partial value: a cast rounds
// no more often than an add in that dtype. From floating to integer, partial values lose their fractions; to bool, sums
// are meaningless. All casts keep the order, except those that wrap or take a part of a complex number.
layout::Algebra algebra_of_cast(DType from, DType to) {
  if (is_complex(from)) return {is_integral(to) || to == DType::kBool ? Linearity::kNone : Linearity::kJoint};
  if (to == DType::kBool || from == DType::kBool) return {};
  if (is_complex(to)) return {Linearity::kJoint, Monotony::kNone};
  if (is_floating(to)) return {Linearity::kJoint, Monotony::kUp};
  if (is_floating(from)) return {Linearity::kNone, Monotony::kUp};
  // Sums of the low bits are the low bits of the sums, but only towards fewer bits.
  return {itemsize(to) <= itemsize(from) ? Linearity::kJoint : Linearity::kNone, Monotony::kNone};
}

layout::FactorRule rule_of_cast(const tensor::Call& call) {
  const Shape shapes[] = {call.inputs[0].shape()};
  return layout::pointwise_rule("cast", shapes,
                                algebra_of_cast(call.inputs[0].dtype(), call.as<CastAttributes>().dtype));
}
layout::FactorRule rule_of_copy(const tensor::Call& call) {
  const Shape shapes[] = {call.inputs[0].shape()};
  return layout::pointwise_rule("copy", shapes, {Linearity::kJoint, Monotony::kUp});
}

tensor::Cost cost_of_move(const tensor::Call& call) {
  tensor::OutputInfo info;
  call.op->def.infer(call, std::span(&info, 1));
  const auto read = static_cast<double>(nbytes(call.inputs[0].shape(), call.inputs[0].dtype()));
  return {.nbytes = read + static_cast<double>(nbytes(info.shape, info.dtype))};
}

void cast_gradient(tensor::GradientCall& call) { call.set(0, cast(call.grad(), call.input_dtype(0))); }
void copy_gradient(tensor::GradientCall& call) { call.set(0, call.grad()); }

const tensor::Operator kCast = tensor::register_op({.name = "cast",
                                                    .inputs = "x",
                                                    .infer = infer_cast,
                                                    .host = run_host,
                                                    .gradient = cast_gradient,
                                                    .rule = rule_of_cast,
                                                    .cost = cost_of_move,
                                                    .traits = {.is_pointwise = true}});
const tensor::Operator kCopy = tensor::register_op({.name = "copy",
                                                    .inputs = "x",
                                                    .infer = infer_copy,
                                                    .host = run_host,
                                                    .gradient = copy_gradient,
                                                    .rule = rule_of_copy,
                                                    .cost = cost_of_move,
                                                    .traits = {.is_pointwise = true}});

// Returns `from` broadcast to `shape`.
Tensor broadcast_to(const Tensor& from, const Shape& shape) {
  bool fits = from.shape().size() <= shape.size();
  for (std::size_t d = 1; fits && d <= from.shape().size(); ++d) {
    const std::int64_t dim = from.shape()[from.shape().size() - d];
    fits = dim == 1 || dim == shape[shape.size() - d];
  }
  TESSERA_CHECK(fits, "copy_: source must broadcast to ", shape, ", got ", describe(from));
  TESSERA_CHECK(!from.is_tracked() || !tensor::is_grad_enabled(),
                "copy_: a source that requires a gradient must have shape ", shape, ", got ", describe(from),
                "; expand it first");
  std::vector<std::int64_t> strides(shape.size(), 0);
  const std::size_t lead = shape.size() - from.shape().size();
  for (std::size_t d = 0; d < from.shape().size(); ++d) {
    if (from.shape()[d] == shape[lead + d]) strides[lead + d] = from.strides()[d];
  }
  return from.as_strided(shape, Strides(strides), from.offset());
}

// Orders later work on `later` after the work on `earlier`, a stream of another device: events order only streams of
// one device. A host stream waits for the event itself. For other streams the caller waits: a host function on the
// stream would block the thread of the device for such functions, and thus other streams that the host may be waiting
// for.
void order(const device::Stream& earlier, const device::Stream& later, bool is_later_host) {
  const device::Event event = earlier.device().create_event();
  earlier.record(event);
  if (event.query()) return;
  if (is_later_host) {
    later.run([event] { event.synchronize(); }, {.label = "wait", .accesses = std::span<const device::Access>()});
  } else {
    event.synchronize();
  }
}

// Copies between contiguous tensors of one dtype and shape on two devices, on a stream of the device that is not the
// host.
void copy_between(const Tensor& to, const Tensor& from) {
  const device::Stream& of_to = tensor::current_stream(to.device());
  const device::Stream& of_from = tensor::current_stream(from.device());
  const bool on_source = from.device_kind() != tensor::kHostKind;
  const device::Stream& mover = on_source ? of_from : of_to;
  const device::Stream& other = on_source ? of_to : of_from;
  to.storage().use_on(of_to);
  from.storage().use_on(of_from);
  order(other, mover, false);
  mover.copy(to.address(), from.address(), from.nbytes(), "copy");
  order(mover, other, tensor::kHostKind == (on_source ? to : from).device_kind());
}

}  // namespace

Tensor cast(const Tensor& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  return tensor::call(kCast, {x}, CastAttributes{dtype});
}
Tensor clone(const Tensor& x) { return tensor::call(kCopy, {x}); }
Tensor contiguous(const Tensor& x) {
  const Tensor local = x.local();  // with a layout, each rank checks its shard; the copy does not communicate
  return !local || local.is_contiguous() ? x : clone(x);
}

void copy_(const Tensor& to_tensor, const Tensor& from_tensor) {
  const bool is_shaped = from_tensor.shape() == to_tensor.shape();
  const Tensor from = is_shaped ? from_tensor : broadcast_to(from_tensor, to_tensor.shape());
  if (to_tensor.has_layout() || from.has_layout() || to_tensor.device() == from.device()) {
    if (to_tensor.dtype() == from.dtype()) {
      tensor::call_out(kCopy, to_tensor, {from});
    } else {
      tensor::call_out(kCast, to_tensor, {from}, CastAttributes{to_tensor.dtype()});
    }
    return;
  }
  const Tensor packed = contiguous(cast(from, to_tensor.dtype()));
  if (to_tensor.is_contiguous()) {
    to_tensor.storage().bump_version();
    copy_between(to_tensor, packed);
  } else {
    tensor::call_out(kCopy, to_tensor, {to(packed, to_tensor.device())});
  }
}

Tensor to(const Tensor& x, const device::Device& device, DType dtype) {
  return itemsize(dtype) < itemsize(x.dtype()) ? to(cast(x, dtype), device) : cast(to(x, device), dtype);
}
Tensor to(const Tensor& x, const device::Device& device) {
  if (x.device() == device) return x;
  const Tensor packed = contiguous(x.detach());
  Tensor there = Tensor::allocate(x.shape(), x.dtype(), device);
  if (x.numel() > 0) copy_between(there, packed);
  return there;
}

}  // namespace tessera::ops
