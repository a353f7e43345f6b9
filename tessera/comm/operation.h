// An Operation describes one rank's part in a collective or point-to-point operation as plain data. It refers to
// buffers and does not own them. Ranks are group ranks, in [0, size).
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

/// Kinds of operations. The values are part of the record format: append new ones at the end. The files of collectives/
/// register the collectives by kind. Programs use the kinds from kFirstCustomOpKind on for their own.
enum class OpKind : std::uint8_t {
  kAllReduce,       ///< each rank gets the reduction of all inputs
  kAllGather,       ///< each rank gets all inputs, in rank order
  kReduceScatter,   ///< rank r gets chunk r of the reduction
  kAllToAll,        ///< rank r gets chunk r of each input, in rank order
  kRaggedAllToAll,  ///< all_to_all with sizes and offsets that are read from device memory when it runs
  kBroadcast,       ///< each rank gets the root's input
  kReduce,          ///< the root gets the reduction
  kScatter,         ///< rank r gets chunk r of the root's input
  kGather,          ///< the root gets all inputs
  kBarrier,         ///< no rank continues until all have arrived
  kSend,            ///< sends to one peer
  kRecv,            ///< receives from one peer
  kPermute,         ///< each rank sends to at most one rank and receives from at most one
  kRendezvous,      ///< an all_gather of a few bytes that sets up symmetric memory (symmetric.h)
};
/// Kinds are in [0, kMaxOpKinds).
inline constexpr int kMaxOpKinds = 32;
/// First kind for collectives that a program defines: static_cast<OpKind>(kFirstCustomOpKind).
inline constexpr int kFirstCustomOpKind = 24;
/// Returns the name: "all_reduce", ...; "no operation" for a kind that is not registered.
TESSERA_API std::string_view to_string(OpKind kind);
/// Returns true if operations of this kind reduce, so that Operation::reduction applies.
TESSERA_API bool reduces(OpKind kind);
/// Returns true if operations of this kind have a root, so that Operation::root applies.
TESSERA_API bool has_root(OpKind kind);
/// Returns true for point-to-point operations (send and recv).
constexpr bool is_message(OpKind kind) { return kind == OpKind::kSend || kind == OpKind::kRecv; }

/// Rows that a rank sends, as arrays in device memory with one entry per peer. Units are rows.
struct RaggedRows {
  const std::int64_t* in_offsets = nullptr;   ///< first row for the peer in `in`
  const std::int64_t* in_sizes = nullptr;     ///< number of rows for the peer
  const std::int64_t* out_offsets = nullptr;  ///< first row in the peer's `out`
  const std::int64_t* out_sizes = nullptr;    ///< number of rows from the peer, for checks
};

/// The tensor whose elements an operation communicates. All fields must be equal on all ranks of the group. An
/// operation on plain buffers has no geometry.
struct Geometry {
  bool is_stated = false;                   ///< if false, the other fields are ignored
  std::int8_t split = -1;                   ///< dimension that is split into messages; -1 if none
  std::int8_t concat = -1;                  ///< dimension along which messages are concatenated; -1 if none
  std::uint64_t layouts = 0;                ///< digest of the layouts before and after; 0 if the tensor has none
  SmallVector<std::int64_t, 8> sizes = {};  ///< size of each dimension; -1 if it may differ between ranks
};

/// One operation, as one rank enqueues it.
struct Operation {
  OpKind kind = OpKind::kBarrier;  ///< kind of the operation
  DType dtype = DType::kU8;        ///< dtype of the elements
  ReduceOp reduction = {};         ///< used by operations that reduce
  int root = 0;                    ///< group rank of the root, for rooted operations
  int peer = 0;                    ///< group rank of the peer, for send and recv
  const std::byte* in = nullptr;   ///< input of this rank
  std::byte* out = nullptr;        ///< output of this rank
  /// Number of elements: of the complete buffer (all_reduce, broadcast, reduce, send, recv, permute), of a row
  /// (ragged_all_to_all), or of the chunk of each rank (all others, if the chunks are even).
  std::int64_t count = 0;
  /// Sizes of uneven chunks of `in`, one per rank (reduce_scatter, scatter, all_to_all).
  SmallVector<std::int64_t, 8> in_counts = {};
  /// Sizes of uneven chunks of `out`, one per rank (all_gather, gather, all_to_all).
  SmallVector<std::int64_t, 8> out_counts = {};
  /// The rank that each rank sends to, or -1 (permute).
  SmallVector<int, 8> targets = {};
  RaggedRows rows = {};       ///< used by ragged_all_to_all
  std::int64_t in_rows = 0;   ///< capacity of `in` in rows
  std::int64_t out_rows = 0;  ///< capacity of `out` in rows
  /// Number of the registration that a rendezvous serves, equal on all ranks; 0 if it serves a pool.
  std::uint64_t registration = 0;
  Geometry geometry = {};  ///< geometry of the communicated tensor
};

/// A 128-bit digest of everything that must be equal on all ranks: group, kind, dtype, sizes, root, reduction, uneven
/// counts, targets, and the geometry of the tensor.
struct Fingerprint {
  std::uint64_t low = 0;   ///< low 64 bits
  std::uint64_t high = 0;  ///< high 64 bits
  /// Returns true if both halves are equal.
  friend bool operator==(const Fingerprint&, const Fingerprint&) = default;
};
/// Returns the fingerprint of an operation. `group` is the digest of the group name.
TESSERA_API Fingerprint fingerprint(const Operation& operation, std::uint64_t group = 0);
/// Returns a 64-bit digest of the uneven counts and targets; 0 if the operation has no such lists.
TESSERA_API std::uint64_t digest_of_parts(const Operation& operation);
/// Formats an operation for errors and records: "all_reduce(f32[1048576], sum)".
TESSERA_API std::string text_of(const Operation& operation);
/// Formats a geometry: "shape [4, 4], dimension 1". Returns an empty string if it is not stated.
TESSERA_API std::string text_of(const Geometry& geometry);

}  // namespace tessera::comm
