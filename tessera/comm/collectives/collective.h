// What a collective is, in one place: the arguments it takes and the moves it is made of. A file of this folder defines
// one (all_reduce.cpp, ...) and names it in the table at the foot of collective.cpp; with its moves it runs over peer
// memory (thread, shm) and over messages (mpi) at once. Backends may have a faster way of their own.
//
// A move is made by one rank, its maker: it takes elements of one rank's input, or folds the same elements of all
// inputs, and puts them into the output of one rank or of all. All moves of one operation may be made in any order and
// at the same time: none reads what another writes, also when input and output are the same memory. (A copy of elements
// onto themselves, as in place, is not made.)
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/comm/operation.h"

namespace tessera::comm {

/// Every rank of the group, where a Move names one.
inline constexpr int kEveryone = -1;
/// Where a Move begins in the input, when only the rank that it is taken from knows: that rank offers it (Offer).
inline constexpr std::int64_t kOffered = -1;

/// A stretch of elements that goes from an input to an output.
struct Move {
  int from = 0;                  ///< whose input; kEveryone: a fold over all, in rank order
  std::int64_t from_offset = 0;  ///< first element there, or kOffered
  int to = 0;                    ///< whose output; kEveryone: all
  std::int64_t to_offset = 0;    ///< first element there, or kOffered
  std::int64_t count = 0;        ///< elements, or kOffered
  /// The same move.
  friend bool operator==(const Move&, const Move&) = default;
};

/// Those of a rank, which are few where ranks share work.
using Moves = SmallVector<Move, 4>;

/// What a rank tells a peer that takes from its input, where the peer cannot know.
struct Offer {
  std::int64_t from_offset = 0;  ///< first element of the input that is for this peer
  std::int64_t to_offset = -1;   ///< where it goes in the peer's output; -1: where the peer says
  std::int64_t count = 0;        ///< elements
};

/// Elements that this rank's buffers must have, for checks and for what a launch declares to touch.
struct Extents {
  std::int64_t in = 0;   ///< read by this rank or its peers
  std::int64_t out = 0;  ///< written
};

/// A collective.
struct CollectiveDef {
  std::string_view name;  ///< as in to_string(OpKind)
  /// Refuses arguments that make no sense on this rank, naming them.
  void (*check)(const Operation& operation, int rank, int size);
  /// What its buffers must have.
  Extents (*extents)(const Operation& operation, int rank, int size);
  /// The moves that `rank` makes.
  Moves (*moves)(const Operation& operation, int rank, int size);
  /// Where `out` may begin, in elements from `in`, when both are the same memory; nullopt or not given: they may not.
  std::optional<std::int64_t> (*in_place)(const Operation& operation, int rank, int size) = nullptr;
  /// Of collectives with offers: what this rank tells `peer`; called when it runs. Null: it has none.
  Offer (*offer)(const Operation& operation, int rank, int peer) = nullptr;
};

/// The definition of a kind; send and recv have none, since not all ranks take part.
TESSERA_API const CollectiveDef& definition(OpKind kind);

/// Refuses arguments that make no sense on this rank: those that its definition refuses, buffers that are missing, and
/// buffers that overlap in another way than it allows.
TESSERA_API void check_arguments(const Operation& operation, int rank, int size);

/// Part `rank` of `count` elements cut evenly by ceil(count / size), for collectives that share work.
TESSERA_API std::pair<std::int64_t, std::int64_t> share_of(std::int64_t count, int rank, int size);

}  // namespace tessera::comm
