// The definition of a collective: its arguments and the transfers it consists of. Each file of this folder defines one
// (all_reduce.cpp, ...) and registers it at its end; programs register their own (docs/adding_a_collective.md).
// Backends run the transfers over peer memory or over messages. A backend may have a faster implementation.
//
//   const CollectiveRegistration kBarrier{{.kind = OpKind::kBarrier, .name = "barrier", ...}};
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

/// The list of an Operation that is equal on all ranks. Errors about differing ranks show it.
enum class SharedList : std::uint8_t {
  kNone,       ///< no list, or lists that differ between ranks
  kInCounts,   ///< Operation::in_counts
  kOutCounts,  ///< Operation::out_counts
  kTargets,    ///< Operation::targets
};

/// The definition of one collective.
struct CollectiveDef {
  OpKind kind = OpKind::kBarrier;              ///< kind of its operations
  std::string_view name = {};                  ///< name in errors and records, for example "all_reduce"
  bool reduces = false;                        ///< Operation::reduction applies
  bool has_root = false;                       ///< Operation::root applies
  SharedList shared_list = SharedList::kNone;  ///< list that is equal on all ranks
  /// Throws InvalidArgument, which names the argument, if an argument is invalid on this rank.
  void (*check)(const Operation& operation, int rank, int size) = nullptr;
  /// Returns the required buffer sizes.
  Extents (*extents)(const Operation& operation, int rank, int size) = nullptr;
  /// Returns the transfers that `rank` makes.
  Transfers (*transfers)(const Operation& operation, int rank, int size) = nullptr;
  /// Returns the maximum of Extents::in over all ranks, or kOffered if a rank cannot know it. Null: Operation::count.
  std::int64_t (*max_input)(const Operation& operation, int size) = nullptr;
  /// Returns the required offset of `out` from `in`, in elements, if both are the same memory. Null or nullopt if they
  /// must not be.
  std::optional<std::int64_t> (*in_place)(const Operation& operation, int rank, int size) = nullptr;
  /// Returns the offer of this rank to `peer`; called when the operation runs. Null if the collective has no offers.
  /// With offers, counts may differ between ranks.
  Offer (*offer)(const Operation& operation, int rank, int peer) = nullptr;
};

/// Registers a collective for the lifetime of the process. Construct it before main. An incomplete definition, a kind
/// outside of [0, kMaxOpKinds), and a kind or name that is registered twice end the process.
struct TESSERA_API CollectiveRegistration {
  /// Registers the collective.
  explicit CollectiveRegistration(const CollectiveDef& def);
};

/// Returns the definition of a kind, or null. send and recv have none, since not all ranks take part.
TESSERA_API const CollectiveDef* find_definition(OpKind kind) noexcept;
/// Returns the definition of a kind. Throws InvalidArgument if no collective of this kind is registered.
TESSERA_API const CollectiveDef& definition(OpKind kind);
/// Returns all collectives, sorted by kind.
TESSERA_API std::vector<CollectiveDef> all_collectives();

/// Throws InvalidArgument if its definition rejects an argument, a buffer is missing, or buffers overlap in a way that
/// the definition does not allow.
TESSERA_API void check_arguments(const Operation& operation, int rank, int size);

/// Returns the range of `count` elements that `rank` processes, in even chunks of ceil(count / size) elements, for
/// collectives that share work.
TESSERA_API std::pair<std::int64_t, std::int64_t> share_of(std::int64_t count, int rank, int size);

/// Returns the maximum number of elements that one rank sends, or kOffered if the ranks do not know it.
TESSERA_API std::int64_t max_input_of(const Operation& operation, int size);

}  // namespace tessera::comm
