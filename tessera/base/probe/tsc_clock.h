// The recorder's clock. Ticks are the processor's time-stamp counter where it runs at one rate on all cores and never
// stops (12 ns to read on a virtual machine, no system call), else nanoseconds of CLOCK_MONOTONIC.
//
// A calibration is two samples that pair ticks with wall time: one from the start, one renewed as time passes, so that
// the rate gets better the longer a recorder lives. Wall time is taken from the later sample: should somebody set the
// clock, all times are told in its latest terms.
#pragma once

#include <cstdint>
#include <ctime>

#include "tessera/base/export.h"

namespace tessera::probe {

/// Where ticks come from. The numbers are part of the file format.
enum class ClockSource : std::uint32_t {
  kTsc = 1,     ///< time-stamp counter
  kSystem = 2,  ///< nanoseconds of CLOCK_MONOTONIC
};

/// The time-stamp counter if it is fit for telling time on this machine, else the system's clock.
TESSERA_API ClockSource best_clock_source();

/// The current tick of a source.
inline std::uint64_t read_ticks(ClockSource source) {
#if defined(__x86_64__)
  if (source == ClockSource::kTsc) [[likely]]
    return __builtin_ia32_rdtsc();
#else
  (void)source;
#endif
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(now.tv_nsec);
}

/// One moment in ticks, wall time and monotonic time.
struct ClockSample {
  std::uint64_t ticks = 0;        ///< of the source
  std::int64_t wall_ns = 0;       ///< since 1970, UTC
  std::int64_t monotonic_ns = 0;  ///< CLOCK_MONOTONIC
};

/// Reads all clocks at (nearly) one moment: the best of a few tries.
TESSERA_API ClockSample sample_clock(ClockSource source);

/// Ticks a second of the source, measured once a process (a millisecond) and remembered.
TESSERA_API std::uint64_t ticks_per_second(ClockSource source);

/// Turns ticks into wall time.
struct TESSERA_API ClockCalibration {
  ClockSource source = ClockSource::kSystem;  ///< where the ticks come from
  std::uint64_t ticks_per_second =
      1'000'000'000;  ///< the rate, used while the samples are too close to tell a better one
  ClockSample first;  ///< taken at the start
  ClockSample last;   ///< taken last; the same as first until there is another

  /// Whether the samples stand far enough apart (10 ms) to give the rate.
  [[nodiscard]] bool is_refined() const;
  /// Nanoseconds since 1970 (UTC) of a tick, before the samples as well as after them.
  [[nodiscard]] std::int64_t wall_ns(std::uint64_t ticks) const;
  /// Length of a number of ticks in nanoseconds.
  [[nodiscard]] std::int64_t duration_ns(std::int64_t ticks) const;
};

}  // namespace tessera::probe
