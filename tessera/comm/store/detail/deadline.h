// Deadlines of waits, and the error of a missed deadline.
#pragma once

#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/error.h"

namespace tessera::comm::detail {

using Clock = std::chrono::steady_clock;

/// Returns the time `timeout` from now. Very long timeouts do not overflow.
inline Clock::time_point deadline_after(std::chrono::nanoseconds timeout) {
  constexpr std::chrono::nanoseconds kLongest = std::chrono::hours(24 * 365);
  return Clock::now() + std::clamp(timeout, std::chrono::nanoseconds(0), kLongest);
}

/// Throws the TimeoutError of a wait for `wanted` keys; the keys of `missing` have no value.
[[noreturn]] inline void throw_timeout(std::string_view store, std::size_t wanted,
                                       const std::vector<std::string>& missing, std::chrono::nanoseconds timeout) {
  constexpr std::size_t kMaxNamed = 8;
  std::string named;
  for (std::size_t i = 0; i < std::min(missing.size(), kMaxNamed); ++i)
    named += (i == 0 ? "'" : ", '") + missing[i] + "'";
  if (missing.size() > kMaxNamed) named += tessera::detail::concat(" and ", missing.size() - kMaxNamed, " more");
  TESSERA_THROW(TimeoutError, store, ": ", missing.size(), " of ", wanted, wanted == 1 ? " key" : " keys",
                " had no value after ", timeout, ": ", named);
}

}  // namespace tessera::comm::detail
