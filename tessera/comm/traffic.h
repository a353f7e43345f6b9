// One rank of a world that does not exist: a program runs as any rank of a world of any size, alone, on the device
// "meta", whose tensors have no values. Its communication completes at once and is listed:
//
//   comm::run_as({.rank = Rank(3), .world_size = 256}, [&] {
//     tensor::DeviceScope meta("meta");
//     train_a_step();
//     for (const comm::Traffic& each : comm::traffic()) print(each);
//   });
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/base/ids.h"
#include "tessera/comm/operation.h"

namespace tessera::comm {

/// Operations of one kind in one group.
struct Traffic {
  OpKind kind = OpKind::kBarrier;  ///< Kind of the operations.
  std::vector<Rank> ranks = {};    ///< World ranks of the group, by group rank.
  std::int64_t count = 0;          ///< Number of operations.
  /// Bytes of the buffers of this rank: for each operation, the larger one of input and output.
  std::int64_t nbytes = 0;
};

/// The rank that a program runs as.
struct AloneRank {
  Rank rank{0};        ///< In [0, world_size).
  int world_size = 1;  ///< Number of ranks in the world.
};

/// Runs `body` on this thread as one rank of a world whose other ranks do not exist. The rank is a new one, with its
/// own allocators, random generator and groups, and it records nothing. Communication of tensors without values
/// completes at once; other communication throws NotSupported.
TESSERA_API void run_as(const AloneRank& rank, const std::function<void()>& body);

/// Returns the operations of this rank since the last reset_traffic(), by group and kind, in the order of their first
/// use. An operation in a capture counts once, and not at replays. Throws InvalidArgument outside of run_as().
TESSERA_API std::vector<Traffic> traffic();
/// Empties the list of traffic().
TESSERA_API void reset_traffic();

}  // namespace tessera::comm
