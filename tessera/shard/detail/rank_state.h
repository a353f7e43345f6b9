// Per-rank state with a thread-local shortcut: a thread caches the pointer for as long as it works for the same rank.
#pragma once

#include <cstdint>
#include <memory>

#include "tessera/base/rank.h"

namespace tessera::shard::detail {

/// Returns the T of the current rank, which is default-constructed on first use.
template <class T>
T& rank_state() {
  struct Remembered {
    std::uint64_t rank_changes = 0;
    T* part = nullptr;
  };
  static constinit thread_local Remembered known = {};
  if (known.part == nullptr || known.rank_changes != tessera::detail::rank_changes) [[unlikely]] {
    T& part = current_rank()->part<T>([] { return std::make_shared<T>(); });
    known = {tessera::detail::rank_changes, &part};
  }
  return *known.part;
}

}  // namespace tessera::shard::detail
