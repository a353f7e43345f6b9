// What sharded calls on this thread may do, and how they are watched. Scopes nest, the innermost counts; calls of
// backward are under the scope that is in force where backward runs, and their errors name the forward operator.
#pragma once

#include <cstdint>

#include "tessera/base/export.h"

namespace tessera::shard {

/// What happens when the operands of a call would have to move.
enum class Moving : std::uint8_t {
  kRefused,    ///< an error that names the cheapest fixes; the default
  kAutomatic,  ///< the cheapest fix is taken, and the record says so
  kForbidden,  ///< an error, and so is any communication: cooperative operators, redistribute
};
/// In force on this thread.
TESSERA_API Moving moving();

/// Sets what is in force while it lives.
class TESSERA_API MovingScope {
 public:
  /// As said.
  explicit MovingScope(Moving moving);
  /// As before.
  ~MovingScope();
  MovingScope(const MovingScope&) = delete;
  MovingScope& operator=(const MovingScope&) = delete;

 private:
  Moving previous_;
};

/// Operands move as they must.
class AutoRedistribute : public MovingScope {
 public:
  /// On.
  AutoRedistribute() : MovingScope(Moving::kAutomatic) {}
};
/// Nothing is sent.
class ForbidCommunication : public MovingScope {
 public:
  /// On.
  ForbidCommunication() : MovingScope(Moving::kForbidden) {}
};

/// What sharded calls of this rank have done so far.
struct ShardCounts {
  std::uint64_t calls = 0;        ///< of operators on tensors with layouts
  std::uint64_t hits = 0;         ///< of these, known to the cache
  std::uint64_t evictions = 0;    ///< entries dropped for others
  std::uint64_t automatic = 0;    ///< operands moved automatically
  std::uint64_t collectives = 0;  ///< launches of groups: moves, cooperation, settling
  std::uint64_t nbytes = 0;       ///< that this rank received in them, by plan
};
/// Of the current rank.
TESSERA_API ShardCounts shard_counts();

}  // namespace tessera::shard
