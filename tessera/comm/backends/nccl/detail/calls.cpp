#include "tessera/comm/backends/nccl/detail/calls.h"

#include <optional>

#include "tessera/base/error.h"
#include "tessera/comm/backends/nccl/detail/library.h"
#include "tessera/comm/collectives/arguments.h"

#define TESSERA_NCCL(function, ...) check(library().function(__VA_ARGS__), #function, target.comm)

namespace tessera::comm::nccl {
namespace {

// The type that NCCL reduces, and its number per element.
struct Type {
  ncclDataType_t type;
  int parts;
};
std::optional<Type> type_of(DType dtype) {
  switch (dtype) {
    case DType::kF64: return Type{ncclFloat64, 1};
    case DType::kF32: return Type{ncclFloat32, 1};
    case DType::kF16: return Type{ncclFloat16, 1};
    case DType::kBF16: return Type{ncclBfloat16, 1};
    case DType::kI64: return Type{ncclInt64, 1};
    case DType::kI32: return Type{ncclInt32, 1};
    case DType::kI8: return Type{ncclInt8, 1};
    case DType::kU64: return Type{ncclUint64, 1};
    case DType::kU32: return Type{ncclUint32, 1};
    case DType::kU8:
    case DType::kBool: return Type{ncclUint8, 1};
    case DType::kC64: return Type{ncclFloat32, 2};
    case DType::kC128: return Type{ncclFloat64, 2};
    case DType::kI16:
    case DType::kU16:
    case DType::kF8E4M3:
    case DType::kF8E5M2: break;
  }
  return std::nullopt;
}

std::optional<ncclRedOp_t> reduction_of(Reduction kind) {
  switch (kind) {
    case Reduction::kSum: return ncclSum;
    case Reduction::kAvg: return ncclAvg;
    case Reduction::kMin: return ncclMin;
    case Reduction::kMax: return ncclMax;
    case Reduction::kProd: return ncclProd;
    case Reduction::kPremultiply: return ncclSum;  // created for each operation
    case Reduction::kBitAnd:
    case Reduction::kBitOr:
    case Reduction::kBitXor: break;
  }
  return std::nullopt;
}

// Elements as bytes, for operations that only transfer.
struct Bytes {
  explicit Bytes(const Operation& operation) : item(itemsize(operation.dtype)) {}
  std::size_t item;
  [[nodiscard]] std::size_t of(std::int64_t count) const { return static_cast<std::size_t>(count) * item; }
};

void send(const Operation& operation, const BufferChunk& part, int peer, const NcclTarget& target) {
  const Bytes bytes(operation);
  TESSERA_NCCL(ncclSend, operation.in + bytes.of(part.first), bytes.of(part.count), ncclUint8, peer, target.comm,
               target.stream);
}
void receive(const Operation& operation, const BufferChunk& part, int peer, const NcclTarget& target) {
  const Bytes bytes(operation);
  TESSERA_NCCL(ncclRecv, operation.out + bytes.of(part.first), bytes.of(part.count), ncclUint8, peer, target.comm,
               target.stream);
}

void all_gather(const Operation& operation, const NcclTarget& target) {
  const Bytes bytes(operation);
  if (operation.out_counts.empty()) {
    TESSERA_NCCL(ncclAllGather, operation.in, operation.out, bytes.of(operation.count), ncclUint8, target.comm,
                 target.stream);
    return;
  }
  for (int root = 0; root < target.size; ++root) {
    const BufferChunk part = chunk_of(operation.out_counts, operation.count, root);
    std::byte* const out = operation.out + bytes.of(part.first);
    TESSERA_NCCL(ncclBroadcast, root == target.rank ? operation.in : out, out, bytes.of(part.count), ncclUint8, root,
                 target.comm, target.stream);
  }
}

void reduce_scatter(const Operation& operation, const Type& type, ncclRedOp_t reduction, const NcclTarget& target) {
  const auto parts = static_cast<std::size_t>(type.parts);
  if (operation.in_counts.empty()) {
    TESSERA_NCCL(ncclReduceScatter, operation.in, operation.out, static_cast<std::size_t>(operation.count) * parts,
                 type.type, reduction, target.comm, target.stream);
    return;
  }
  for (int root = 0; root < target.size; ++root) {
    const BufferChunk part = chunk_of(operation.in_counts, operation.count, root);
    TESSERA_NCCL(ncclReduce, operation.in + Bytes(operation).of(part.first),
                 root == target.rank ? operation.out : nullptr, static_cast<std::size_t>(part.count) * parts, type.type,
                 reduction, root, target.comm, target.stream);
  }
}

void all_to_all(const Operation& operation, const NcclTarget& target) {
  for (int step = 0; step < target.size; ++step) {
    const int peer = (target.rank + step) % target.size;
    send(operation, chunk_of(operation.in_counts, operation.count, peer), peer, target);
    receive(operation, chunk_of(operation.out_counts, operation.count, peer), peer, target);
  }
}

void scatter(const Operation& operation, const NcclTarget& target) {
  for (int peer = 0; peer < target.size && target.rank == operation.root; ++peer) {
    send(operation, chunk_of(operation.in_counts, operation.count, peer), peer, target);
  }
  receive(operation, {0, chunk_of(operation.in_counts, operation.count, target.rank).count}, operation.root, target);
}

void gather(const Operation& operation, const NcclTarget& target) {
  send(operation, {0, chunk_of(operation.out_counts, operation.count, target.rank).count}, operation.root, target);
  for (int peer = 0; peer < target.size && target.rank == operation.root; ++peer) {
    receive(operation, chunk_of(operation.out_counts, operation.count, peer), peer, target);
  }
}

void permute(const Operation& operation, const NcclTarget& target) {
  const int to = operation.targets[static_cast<std::size_t>(target.rank)];
  if (to != -1) send(operation, {0, operation.count}, to, target);
  for (int from = 0; from < target.size; ++from) {
    if (operation.targets[static_cast<std::size_t>(from)] != target.rank) continue;
    receive(operation, {0, operation.count}, from, target);
  }
}

template <class T>
ncclRedOp_t premultiplied(double factor, ncclDataType_t type, ncclComm_t comm) {
  T scalar = static_cast<T>(static_cast<std::conditional_t<(sizeof(T) > 4), double, float>>(factor));
  ncclRedOp_t reduction = ncclSum;
  check(library().ncclRedOpCreatePreMulSum(&reduction, &scalar, type, ncclScalarHostImmediate, comm),
        "ncclRedOpCreatePreMulSum", comm);
  return reduction;
}

}  // namespace

void check_supported(const Operation& operation) {
  if (!reduces(operation.kind)) return;
  TESSERA_CHECK_AS(NotSupported, type_of(operation.dtype), text_of(operation), ": NCCL does not reduce ",
                   to_string(operation.dtype));
  TESSERA_CHECK_AS(NotSupported, reduction_of(operation.reduction.kind), text_of(operation), ": NCCL has no ",
                   to_string(operation.reduction.kind));
}

ncclRedOp_t make_reduction(const Operation& operation, ncclComm_t comm) {
  if (!reduces(operation.kind)) return ncclSum;
  if (operation.reduction.kind != Reduction::kPremultiply) return *reduction_of(operation.reduction.kind);
  const double factor = operation.reduction.factor;
  switch (operation.dtype) {
    case DType::kF64: return premultiplied<double>(factor, ncclFloat64, comm);
    case DType::kF16: return premultiplied<f16>(factor, ncclFloat16, comm);
    case DType::kBF16: return premultiplied<bf16>(factor, ncclBfloat16, comm);
    default: return premultiplied<float>(factor, ncclFloat32, comm);
  }
}

void destroy_reduction(const Operation& operation, ncclRedOp_t reduction, ncclComm_t comm) {
  if (!reduces(operation.kind) || operation.reduction.kind != Reduction::kPremultiply) return;
  check(library().ncclRedOpDestroy(reduction, comm), "ncclRedOpDestroy", comm);
}

void issue(const Operation& operation, ncclRedOp_t reduction, const NcclTarget& target) {
  const Bytes bytes(operation);
  const Type type = type_of(operation.dtype).value_or(Type{ncclUint8, 1});
  const auto count = static_cast<std::size_t>(operation.count) * static_cast<std::size_t>(type.parts);
  switch (operation.kind) {
    case OpKind::kAllReduce:
      TESSERA_NCCL(ncclAllReduce, operation.in, operation.out, count, type.type, reduction, target.comm, target.stream);
      return;
    case OpKind::kReduce:
      TESSERA_NCCL(ncclReduce, operation.in, operation.out, count, type.type, reduction, operation.root, target.comm,
                   target.stream);
      return;
    case OpKind::kBroadcast:
      TESSERA_NCCL(ncclBroadcast, operation.in, operation.out, bytes.of(operation.count), ncclUint8, operation.root,
                   target.comm, target.stream);
      return;
    case OpKind::kBarrier:
      TESSERA_NCCL(ncclAllReduce, target.scratch, target.scratch, 1, ncclUint8, ncclSum, target.comm, target.stream);
      return;
    case OpKind::kAllGather: return all_gather(operation, target);
    case OpKind::kReduceScatter: return reduce_scatter(operation, type, reduction, target);
    case OpKind::kAllToAll: return all_to_all(operation, target);
    case OpKind::kScatter: return scatter(operation, target);
    case OpKind::kGather: return gather(operation, target);
    case OpKind::kPermute: return permute(operation, target);
    case OpKind::kSend: return send(operation, {0, operation.count}, operation.peer, target);
    case OpKind::kRecv: return receive(operation, {0, operation.count}, operation.peer, target);
    case OpKind::kRaggedAllToAll:
    case OpKind::kRendezvous: break;
  }
  TESSERA_THROW(NotSupported, "NCCL has no ", to_string(operation.kind));
}

}  // namespace tessera::comm::nccl
