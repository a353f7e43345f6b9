// Scopes that control the communication of sharded calls on this thread, and counters of it.
//
//   AutoRedistribute scope;                 // operands are redistributed as needed
//   Tensor y = ops::mm(x, w);
//
// Scopes nest, and the innermost one applies. Calls of backward use the scope of the thread that runs backward. Their
// errors name the forward operator.
#pragma once

#include <cstdint>

#include "tessera/base/export.h"

namespace tessera::shard {

/// Reaction to a call whose operands must be redistributed.
enum class RedistributeMode : std::uint8_t {
  kRefused,    ///< Throws an error with the cheapest fixes. The default.
  kAutomatic,  ///< Applies the cheapest fix and records it.
  kForbidden,  ///< Throws, as does any communication: cooperative operators, redistribute.
};
/// Returns the mode in force on this thread.
TESSERA_API RedistributeMode redistribute_mode();

/// Sets the mode of this thread for the lifetime of the scope.
class TESSERA_API RedistributeModeScope {
 public:
  /// Sets the mode.
  explicit RedistributeModeScope(RedistributeMode mode);
  /// Restores the previous mode.
  ~RedistributeModeScope();
  RedistributeModeScope(const RedistributeModeScope&) = delete;
  RedistributeModeScope& operator=(const RedistributeModeScope&) = delete;

 private:
  RedistributeMode previous_;
};

/// Scope in which operands are redistributed as needed.
class AutoRedistribute : public RedistributeModeScope {
 public:
  /// Starts the scope.
  AutoRedistribute() : RedistributeModeScope(RedistributeMode::kAutomatic) {}
};
/// Scope in which any communication throws.
class ForbidCommunication : public RedistributeModeScope {
 public:
  /// Starts the scope.
  ForbidCommunication() : RedistributeModeScope(RedistributeMode::kForbidden) {}
};

/// Counters of the sharded calls of this rank.
struct ShardCounts {
  std::uint64_t calls = 0;        ///< Calls of operators on tensors with layouts.
  std::uint64_t hits = 0;         ///< Calls whose plan was in the cache.
  std::uint64_t evictions = 0;    ///< Cache entries evicted for others.
  std::uint64_t automatic = 0;    ///< Operands redistributed automatically.
  std::uint64_t collectives = 0;  ///< Group launches of redistributions, cooperative operators and reductions.
  std::uint64_t nbytes = 0;       ///< Planned bytes that this rank received in these launches.
};
/// Returns the counters of the current rank.
TESSERA_API ShardCounts shard_counts();

}  // namespace tessera::shard
