// What ranks of a group do together, as data: an Operation is what one rank asks for. It names buffers and keeps
// nothing alive. Ranks of a group are counted 0 to size - 1 here, wherever they stand in the world.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "tessera/base/dtype.h"
#include "tessera/base/export.h"
#include "tessera/base/small_vector.h"
#include "tessera/comm/reduction.h"

namespace tessera::comm {

/// What is done. The numbers are part of the record's format: new ones go to the end.
enum class OpKind : std::uint8_t {
  kAllReduce,       ///< all get the reduction of all inputs
  kAllGather,       ///< all get all inputs, in rank order
  kReduceScatter,   ///< rank r gets part r of the reduction
  kAllToAll,        ///< rank r gets part r of each input, in rank order
  kRaggedAllToAll,  ///< likewise, sizes and places read from device memory when it runs
  kBroadcast,       ///< all get the root's input
  kReduce,          ///< the root gets the reduction
  kScatter,         ///< rank r gets part r of the root's input
  kGather,          ///< the root gets all inputs
  kBarrier,         ///< nobody goes on before all have come
  kSend,            ///< to one peer
  kRecv,            ///< from one peer
  kPermute,         ///< each rank sends to at most one and receives from at most one
  kRendezvous,      ///< an all_gather of few bytes by which symmetric memory comes to be (symmetric.h)
};
/// How many kinds there are.
inline constexpr int kOpKinds = 14;
/// "all_reduce", ...
TESSERA_API std::string_view to_string(OpKind kind);
/// Whether it is between two ranks: the others take no part.
constexpr bool is_message(OpKind kind) { return kind == OpKind::kSend || kind == OpKind::kRecv; }

/// Rows that a rank sends, as arrays of device memory with an entry for each peer, in rows.
struct RaggedRows {
  const std::int64_t* in_offsets = nullptr;   ///< where the rows for a peer begin in `in`
  const std::int64_t* in_sizes = nullptr;     ///< how many
  const std::int64_t* out_offsets = nullptr;  ///< where they go in the peer's `out`
  const std::int64_t* out_sizes = nullptr;    ///< how many come from a peer: a check
};

/// The tensor whose elements an operation communicates: all of it must be the same on all ranks of the group. An
/// operation on plain buffers states none.
struct Geometry {
  bool is_stated = false;                   ///< false: the other fields are ignored
  std::int8_t split = -1;                   ///< dimension that is split into messages; -1: none
  std::int8_t concat = -1;                  ///< dimension along which messages are concatenated; -1: none
  std::uint64_t layouts = 0;                ///< digest of the layouts before and after; 0: the tensor has none
  SmallVector<std::int64_t, 8> sizes = {};  ///< of the dimensions; -1: this size may differ between ranks
};

/// What one rank asks for.
struct Operation {
  OpKind kind = OpKind::kBarrier;  ///< what
  DType dtype = DType::kU8;        ///< of the elements
  Reduction reduction = {};        ///< of those that reduce
  int root = 0;                    ///< of those that have one
  int peer = 0;                    ///< of send and recv
  const std::byte* in = nullptr;   ///< what this rank gives
  std::byte* out = nullptr;        ///< where its result goes
  /// Elements: of the whole buffer (all_reduce, broadcast, reduce, send, recv, permute), or of each rank's part (the
  /// others, when the parts are even); of a row (ragged_all_to_all).
  std::int64_t count = 0;
  /// Uneven parts, an entry a rank: of `in` (reduce_scatter, scatter, all_to_all).
  SmallVector<std::int64_t, 8> in_counts = {};
  /// Likewise of `out` (all_gather, gather, all_to_all).
  SmallVector<std::int64_t, 8> out_counts = {};
  /// Of permute: where each rank sends to; -1: nowhere.
  SmallVector<int, 8> targets = {};
  RaggedRows rows = {};       ///< of ragged_all_to_all
  std::int64_t in_rows = 0;   ///< rows that `in` has room for
  std::int64_t out_rows = 0;  ///< likewise `out`
  /// Of rendezvous: the number of the registration that it is for; 0: it is for a pool. The same on all ranks.
  std::uint64_t registration = 0;
  Geometry geometry = {};  ///< of the tensor that is communicated
};

/// 128 bits over what must be the same on all ranks: group, kind, dtype, sizes, root, reduction, uneven parts, targets,
/// and the geometry of the tensor.
struct Fingerprint {
  std::uint64_t low = 0;   ///< half
  std::uint64_t high = 0;  ///< half
  /// The same.
  friend bool operator==(const Fingerprint&, const Fingerprint&) = default;
};
/// Of an operation of the group with this digest (of its name).
TESSERA_API Fingerprint fingerprint(const Operation& operation, std::uint64_t group = 0);
/// 64 bits over uneven parts and targets; 0: it has none.
TESSERA_API std::uint64_t digest_of_parts(const Operation& operation);
/// "all_reduce(f32[1048576], sum)", for errors and records.
TESSERA_API std::string text_of(const Operation& operation);
/// "shape [4, 4], dimension 1"; empty if no tensor is stated.
TESSERA_API std::string text_of(const Geometry& geometry);

}  // namespace tessera::comm
