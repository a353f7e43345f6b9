// The definition of a collective: its arguments and the transfers it consists of. Each file of this folder defines one
// (all_reduce.cpp, ...) and lists it in the table at the end of collective.cpp. The transfers run over peer memory
// (thread, shm) and over messages (mpi). A backend may have a faster implementation.
//
// One rank makes a transfer (a Transfer). It reads elements of one rank's input, or reduces the same elements of all
// inputs, and writes them to the output of one rank or of all. The transfers of an operation may run in any order and
// at the same time: none reads what another writes, even if input and output are the same memory. (Copies of elements
// onto themselves are skipped.)
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/comm/operation.h"

namespace tessera::comm {

/// All ranks of the group, as a rank of a Transfer.
inline constexpr int kEveryone = -1;
/// A Transfer offset or count that only the source rank knows; that rank provides it in an Offer.
inline constexpr std::int64_t kOffered = -1;

/// A transfer of consecutive elements from an input to an output.
struct Transfer {
  int from = 0;                  ///< source rank; kEveryone: a reduction over all inputs, in rank order
  std::int64_t from_offset = 0;  ///< first element in the input, or kOffered
  int to = 0;                    ///< target rank; kEveryone: all outputs
  std::int64_t to_offset = 0;    ///< first element in the output, or kOffered
  std::int64_t count = 0;        ///< number of elements, or kOffered
  /// Returns true if both are the same transfer.
  friend bool operator==(const Transfer&, const Transfer&) = default;
};

/// The transfers of a rank; usually few, since ranks share the work.
using Transfers = SmallVector<Transfer, 4>;

/// The values that a rank provides to a peer that reads its input, if the peer cannot compute them.
struct Offer {
  std::int64_t from_offset = 0;  ///< first element of the input for this peer
  std::int64_t to_offset = -1;   ///< first element in the peer's output; -1 if the peer decides
  std::int64_t count = 0;        ///< number of elements
};

/// Required sizes of this rank's buffers in elements, for checks and for the accesses that a launch declares.
struct Extents {
  std::int64_t in = 0;   ///< elements read by this rank or its peers
  std::int64_t out = 0;  ///< elements written
};

/// The definition of one collective.
struct CollectiveDef {
  std::string_view name;  ///< equal to to_string(OpKind)
  /// Throws InvalidArgument, which names the argument, if an argument is invalid on this rank.
  void (*check)(const Operation& operation, int rank, int size);
  /// Returns the required buffer sizes.
  Extents (*extents)(const Operation& operation, int rank, int size);
  /// Returns the transfers that `rank` makes.
  Transfers (*transfers)(const Operation& operation, int rank, int size);
  /// Returns the required offset of `out` from `in`, in elements, if both are the same memory. Null or nullopt if they
  /// must not be.
  std::optional<std::int64_t> (*in_place)(const Operation& operation, int rank, int size) = nullptr;
  /// Returns the offer of this rank to `peer`; called when the operation runs. Null if the collective has no offers.
  Offer (*offer)(const Operation& operation, int rank, int peer) = nullptr;
};

/// Returns the definition of a kind. send and recv have none, since not all ranks take part.
TESSERA_API const CollectiveDef& definition(OpKind kind);

/// Throws InvalidArgument if its definition rejects an argument, a buffer is missing, or buffers overlap in a way that
/// the definition does not allow.
TESSERA_API void check_arguments(const Operation& operation, int rank, int size);

/// Returns the range of `count` elements that `rank` processes, in even chunks of ceil(count / size) elements, for
/// collectives that share work.
TESSERA_API std::pair<std::int64_t, std::int64_t> share_of(std::int64_t count, int rank, int size);

}  // namespace tessera::comm
