// The clock of the recorder. Ticks are those of the time-stamp counter if it runs at one rate on all cores and never
// stops (12 ns per read on a virtual machine, no system call), otherwise nanoseconds of CLOCK_MONOTONIC.
//
// A calibration is two samples that pair ticks with wall time: one from the start, one renewed
// over time, so that the rate becomes more precise. Wall time is relative to the later sample: if
// the system clock is set, all times follow its latest value.
#pragma once

#include <cstdint>
#include <ctime>

#include "tessera/base/export.h"

namespace tessera::probe {

/// Source of ticks. The values are part of the file format.
enum class ClockSource : std::uint32_t {
  kTsc = 1,     ///< Time-stamp counter.
  kSystem = 2,  ///< Nanoseconds of CLOCK_MONOTONIC.
};

/// Returns the time-stamp counter if it is a reliable clock on this machine, otherwise the system clock.
TESSERA_API ClockSource best_clock_source();

/// Returns the current tick of a source.
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

/// One point in time in ticks, wall time and monotonic time.
struct ClockSample {
  std::uint64_t ticks = 0;        ///< Ticks of the source.
  std::int64_t wall_ns = 0;       ///< Nanoseconds since 1970, UTC.
  std::int64_t monotonic_ns = 0;  ///< CLOCK_MONOTONIC.
};

/// Reads all clocks at nearly the same time: the best of several attempts.
TESSERA_API ClockSample sample_clock(ClockSource source);

/// Returns the ticks per second of the source, measured once per process (1 ms).
TESSERA_API std::uint64_t ticks_per_second(ClockSource source);

/// Converts ticks to wall time.
struct TESSERA_API ClockCalibration {
  ClockSource source = ClockSource::kSystem;  ///< Source of the ticks.
  /// Rate to use while the samples are too close to compute a better one.
  std::uint64_t ticks_per_second = 1'000'000'000;
  ClockSample first;  ///< Taken at the start.
  ClockSample last;   ///< Taken last; equal to `first` until there is another.

  /// Returns true if the samples are far enough apart (10 ms) to compute the rate.
  [[nodiscard]] bool is_refined() const;
  /// Returns the nanoseconds since 1970 (UTC) of a tick, before or after the samples.
  [[nodiscard]] std::int64_t wall_ns(std::uint64_t ticks) const;
  /// Returns a number of ticks in nanoseconds.
  [[nodiscard]] std::int64_t duration_ns(std::int64_t ticks) const;
};

}  // namespace tessera::probe
