// Operations of process groups on tensors: they check the tensors and enqueue the operation on their buffers.
//
// The memory of the tensors outlives the operation, even if the caller drops them immediately. The operation, with all
// accesses of its peers, is work on the current stream, and Storage::use_on() declares it. The allocator therefore
// reuses the memory, and external memory is released, only after the operation has ended on that stream.
#include "tessera/base/error.h"
#include "tessera/comm/process_group.h"
#include "tessera/shard/detail/collective_axes.h"
#include "tessera/shard/detail/counts.h"
#include "tessera/shard/detail/geometry.h"
#include "tessera/shard/detail/tracing.h"
#include "tessera/shard/scopes.h"
#include "tessera/tensor/call.h"
#include "tessera/tensor/device_context.h"
#include "tessera/tensor/tensor.h"

namespace tessera::comm {
namespace {

using tensor::describe;

// Returns the fix for tensors that require gradients: the differentiable function, if one exists.
std::string_view differentiable(OpKind kind) {
  switch (kind) {
    case OpKind::kAllReduce:
    case OpKind::kReduce: return "shard::all_reduce(x, Along), which is differentiable, or NoGrad";
    case OpKind::kAllGather:
    case OpKind::kGather: return "shard::all_gather(x, dim, Along), which is differentiable, or NoGrad";
    case OpKind::kReduceScatter: return "shard::reduce_scatter(x, dim, Along), which is differentiable, or NoGrad";
    case OpKind::kAllToAll: return "shard::all_to_all(x, dim, dim, Along), which is differentiable, or NoGrad";
    case OpKind::kBroadcast: return "shard::broadcast(x, root, Along), which is differentiable, or NoGrad";
    case OpKind::kSend:
    case OpKind::kRecv: return "shard::permute(x, targets, Along), which is differentiable, or NoGrad";
    default: return "NoGrad";
  }
}

void check_tensor(OpKind kind, std::string_view argument, const Tensor& x) {
  const std::string_view name = to_string(kind);
  TESSERA_CHECK(x, name, ": ", argument, " must be a tensor, got an empty handle; allocate it with empty()");
  TESSERA_CHECK(!x.has_layout(), name, ": ", argument, " must be a plain tensor, got ", describe(x),
                "; use redistribute(), or local() for the local shard");
  TESSERA_CHECK(x.is_contiguous(), name, ": ", argument, " must be contiguous, got ", describe(x), " with strides ",
                x.strides(), "; use contiguous()");
  TESSERA_CHECK(!x.is_tracked() || !tensor::is_grad_enabled(), name, ": ", argument,
                " must not require gradients, got ", describe(x), ", which does; use ", differentiable(kind));
}

void check_tensors(OpKind kind, const Tensor& out, const Tensor& x) {
  check_tensor(kind, "out", out);
  check_tensor(kind, "x", x);
  TESSERA_CHECK(out.dtype() == x.dtype(), to_string(kind), ": out and x must have one dtype, got ", describe(out),
                " and ", describe(x), "; convert one of them with to()");
  TESSERA_CHECK(out.device() == x.device(), to_string(kind), ": out and x must be on one device, got ", describe(out),
                " and ", describe(x), "; copy one of them with to()");
}

void check_root(OpKind kind, int root, int size) {
  TESSERA_CHECK(root >= 0 && root < size, to_string(kind), ": root must be a group rank in [0, ", size, "), got ",
                root);
}

// Returns the shape of `ranks` tensors that are concatenated along dimension 0. A scalar is one row.
Shape concatenated(const Shape& shape, int ranks) {
  SmallVector<std::int64_t, 8> sizes;
  for (const std::int64_t size : shape) sizes.push_back(size);
  if (sizes.empty()) sizes.push_back(1);
  sizes[0] *= ranks;
  return Shape(std::span<const std::int64_t>(sizes));
}

// Throws unless `all` has the shape of one tensor like `each` per rank.
void check_concatenated(OpKind kind, std::string_view argument, const Tensor& all, std::string_view other,
                        const Tensor& each, int ranks) {
  const Shape required = concatenated(each.shape(), ranks);
  TESSERA_CHECK(all.shape() == required, to_string(kind), ": ", argument, " must have shape ", required, " for ", other,
                " of ", each.shape(), " on ", ranks, " ranks, got ", describe(all), "; allocate it with that shape");
}

// One call: the operation without buffers, and its tensors. At least one tensor is set.
struct TensorCall {
  OpKind kind;
  const Tensor* in = nullptr;
  const Tensor* out = nullptr;
  std::int64_t count = 0;
  Reduction reduction = Reduction::kSum;
  int root = 0;
  int peer = 0;
  Shape shape = {};                      // of the tensor across ranks, equal on all of them
  shard::detail::GeometryOf split = {};  // of that tensor
  std::int64_t received = 0;             // elements that the busiest rank receives
  bool is_written = true;                // false if `out` is in place and keeps its values
};

void count_and_trace(const TensorCall& call, const ProcessGroup& group) {
  const Tensor& from = call.in != nullptr ? *call.in : *call.out;
  const Tensor& to = call.out != nullptr ? *call.out : *call.in;
  const std::int64_t nbytes = call.received * static_cast<std::int64_t>(itemsize(from.dtype()));
  shard::detail::AtomicShardCounts& counts = shard::detail::counters();
  counts.collectives.fetch_add(1, std::memory_order_relaxed);
  counts.nbytes.fetch_add(static_cast<std::uint64_t>(nbytes), std::memory_order_relaxed);
  if (!shard::detail::is_tracing()) return;
  shard::detail::trace_collective(std::string(to_string(call.kind)), from, to, "group " + group.name(), nbytes);
}

Work run(const TensorCall& call, const ProcessGroup& group) {
  const Tensor& any = call.in != nullptr ? *call.in : *call.out;
  if (shard::redistribute_mode() == shard::RedistributeMode::kForbidden) {
    shard::detail::check_may_communicate(
        tessera::detail::concat(to_string(call.kind), " of ", describe(any), " in group ", group.name()));
  }
  shard::detail::CollectiveAxes::note_all();
  Operation operation{.kind = call.kind,
                      .dtype = any.dtype(),
                      .reduction = {call.reduction},
                      .root = call.root,
                      .peer = call.peer,
                      .count = call.count};
  if (!is_message(call.kind)) shard::detail::set_geometry(operation.geometry, call.shape, call.split);
  const device::Stream& stream = tensor::current_stream(any.device());
  if (call.in != nullptr) {
    operation.in = call.in->address();
    call.in->storage().use_on(stream);
  }
  if (call.out != nullptr) {
    operation.out = call.out->address();
    call.out->storage().use_on(stream);
  }
  Work work = group.launch(operation, stream);
  if (call.out != nullptr && call.is_written) call.out->storage().bump_version();
  // Also on ranks whose tensor is only read: constants must be the same tensors on all ranks.
  for (const Tensor* each : {call.in, call.out}) {
    if (each != nullptr) each->state()->is_constant = false;
  }
  count_and_trace(call, group);
  return work;
}

}  // namespace

Work ProcessGroup::all_reduce(const Tensor& x, Reduction reduction) const {
  check_tensor(OpKind::kAllReduce, "x", x);
  return run({.kind = OpKind::kAllReduce,
              .in = &x,
              .out = &x,
              .count = x.numel(),
              .reduction = reduction,
              .shape = x.shape(),
              .received = 2 * (size() - 1) * x.numel() / size()},
             *this);
}

Work ProcessGroup::all_gather(const Tensor& out, const Tensor& x) const {
  check_tensors(OpKind::kAllGather, out, x);
  check_concatenated(OpKind::kAllGather, "out", out, "x", x, size());
  return run({.kind = OpKind::kAllGather,
              .in = &x,
              .out = &out,
              .count = x.numel(),
              .shape = out.shape(),
              .split = {.concat = 0},
              .received = out.numel() - x.numel()},
             *this);
}

Work ProcessGroup::reduce_scatter(const Tensor& out, const Tensor& x, Reduction reduction) const {
  check_tensors(OpKind::kReduceScatter, out, x);
  check_concatenated(OpKind::kReduceScatter, "x", x, "out", out, size());
  return run({.kind = OpKind::kReduceScatter,
              .in = &x,
              .out = &out,
              .count = out.numel(),
              .reduction = reduction,
              .shape = x.shape(),
              .split = {.split = 0},
              .received = (size() - 1) * out.numel()},
             *this);
}

Work ProcessGroup::all_to_all(const Tensor& out, const Tensor& x) const {
  check_tensors(OpKind::kAllToAll, out, x);
  TESSERA_CHECK(out.shape() == x.shape(), "all_to_all: out must have the shape of x, ", x.shape(), ", got ",
                describe(out), "; allocate it with that shape");
  TESSERA_CHECK(x.ndim() > 0 && x.size(0) % size() == 0, "all_to_all: dimension 0 must be divisible by the ", size(),
                " ranks, got ", describe(x), "; pad it, or use shard::all_to_all() with sizes");
  return run({.kind = OpKind::kAllToAll,
              .in = &x,
              .out = &out,
              .count = x.numel() / size(),
              .shape = x.shape(),
              .split = {.split = 0, .concat = 0},
              .received = x.numel() - x.numel() / size()},
             *this);
}

Work ProcessGroup::broadcast(const Tensor& x, int root) const {
  check_tensor(OpKind::kBroadcast, "x", x);
  check_root(OpKind::kBroadcast, root, size());
  const bool is_root = rank() == root;
  return run({.kind = OpKind::kBroadcast,
              .in = is_root ? &x : nullptr,
              .out = &x,
              .count = x.numel(),
              .root = root,
              .shape = x.shape(),
              .received = x.numel(),
              .is_written = !is_root},
             *this);
}

Work ProcessGroup::reduce(const Tensor& x, int root, Reduction reduction) const {
  check_tensor(OpKind::kReduce, "x", x);
  check_root(OpKind::kReduce, root, size());
  return run({.kind = OpKind::kReduce,
              .in = &x,
              .out = rank() == root ? &x : nullptr,
              .count = x.numel(),
              .reduction = reduction,
              .root = root,
              .shape = x.shape(),
              .received = (size() - 1) * x.numel()},
             *this);
}

Work ProcessGroup::gather(const Tensor& out, const Tensor& x, int root) const {
  check_root(OpKind::kGather, root, size());
  const bool is_root = rank() == root;
  if (is_root) {
    check_tensors(OpKind::kGather, out, x);
    check_concatenated(OpKind::kGather, "out", out, "x", x, size());
  } else {
    check_tensor(OpKind::kGather, "x", x);
  }
  return run({.kind = OpKind::kGather,
              .in = &x,
              .out = is_root ? &out : nullptr,
              .count = x.numel(),
              .root = root,
              .shape = concatenated(x.shape(), size()),
              .split = {.concat = 0},
              .received = (size() - 1) * x.numel()},
             *this);
}

Work ProcessGroup::scatter(const Tensor& out, const Tensor& x, int root) const {
  check_root(OpKind::kScatter, root, size());
  const bool is_root = rank() == root;
  if (is_root) {
    check_tensors(OpKind::kScatter, out, x);
    check_concatenated(OpKind::kScatter, "x", x, "out", out, size());
  } else {
    check_tensor(OpKind::kScatter, "out", out);
  }
  return run({.kind = OpKind::kScatter,
              .in = is_root ? &x : nullptr,
              .out = &out,
              .count = out.numel(),
              .root = root,
              .shape = concatenated(out.shape(), size()),
              .split = {.split = 0},
              .received = out.numel()},
             *this);
}

Work ProcessGroup::send(const Tensor& x, int to) const {
  check_tensor(OpKind::kSend, "x", x);
  return run({.kind = OpKind::kSend, .in = &x, .count = x.numel(), .peer = to}, *this);
}

Work ProcessGroup::recv(const Tensor& x, int from) const {
  check_tensor(OpKind::kRecv, "x", x);
  return run({.kind = OpKind::kRecv, .out = &x, .count = x.numel(), .peer = from, .received = x.numel()}, *this);
}

}  // namespace tessera::comm
