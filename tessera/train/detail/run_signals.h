// What signals ask of a run: SIGTERM, and SIGINT once, to end at the next step; SIGUSR1 for a profile. While a run goes
// on they are noted, and looked at between steps (agreement.h). A second SIGINT ends the process. Signals that the
// program has a handler of its own for, or ignores, are left alone. Ranks that are threads of one process share them.
#pragma once

#include <cstdint>

namespace tessera::train::detail {

/// Notes signals while there is one. Thread-safe.
class RunSignals {
 public:
  RunSignals();
  ~RunSignals();
  RunSignals(const RunSignals&) = delete;
  RunSignals& operator=(const RunSignals&) = delete;

  /// Whether the process was asked to end since the first of those there are was made.
  [[nodiscard]] static bool is_stop_asked();
  /// How often a profile was asked for, ever.
  [[nodiscard]] static std::uint64_t profiles_asked();
};

}  // namespace tessera::train::detail
