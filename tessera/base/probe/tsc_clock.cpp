#include "tessera/base/probe/tsc_clock.h"

#include <limits>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace tessera::probe {
namespace {

std::int64_t read_ns(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

bool tsc_is_invariant() {
#if defined(__x86_64__)
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid(0x80000007, &a, &b, &c, &d) != 0 && (d & (1U << 8)) != 0;
#else
  return false;
#endif
}

std::uint64_t measure_tsc_rate() {
  constexpr std::int64_t kWindow = 1'000'000;
  const ClockSample begin = sample_clock(ClockSource::kTsc);
  while (read_ns(CLOCK_MONOTONIC) - begin.monotonic_ns < kWindow) {
  }
  const ClockSample end = sample_clock(ClockSource::kTsc);
  const double ns = static_cast<double>(end.monotonic_ns - begin.monotonic_ns);
  return static_cast<std::uint64_t>(static_cast<double>(end.ticks - begin.ticks) * 1e9 / ns);
}

__extension__ typedef __int128 Wide;  // NOLINT(modernize-use-using): __extension__ takes no using

}  // namespace

ClockSource best_clock_source() {
  static const ClockSource best = tsc_is_invariant() ? ClockSource::kTsc : ClockSource::kSystem;
  return best;
}

ClockSample sample_clock(ClockSource source) {
  ClockSample best;
  std::uint64_t best_gap = std::numeric_limits<std::uint64_t>::max();
  for (int i = 0; i < 5; ++i) {
    const std::uint64_t before = read_ticks(source);
    const std::int64_t monotonic = read_ns(CLOCK_MONOTONIC);
    const std::int64_t wall = read_ns(CLOCK_REALTIME);
    const std::uint64_t gap = read_ticks(source) - before;
    if (gap < best_gap) {
      best_gap = gap;
      best = {before + gap / 2, wall, monotonic};
    }
  }
  return best;
}

std::uint64_t ticks_per_second(ClockSource source) {
  if (source != ClockSource::kTsc) return 1'000'000'000;
  static const std::uint64_t rate = measure_tsc_rate();
  return rate;
}

bool ClockCalibration::is_refined() const {
  return last.ticks > first.ticks && last.ticks - first.ticks >= ticks_per_second / 100 &&
         last.monotonic_ns > first.monotonic_ns;
}

std::int64_t ClockCalibration::duration_ns(std::int64_t ticks) const {
  const Wide numerator = is_refined() ? Wide{last.monotonic_ns} - first.monotonic_ns : Wide{1'000'000'000};
  const Wide denominator = is_refined() ? Wide{last.ticks - first.ticks} : Wide{ticks_per_second};
  if (denominator == 0) return 0;
  const Wide ns = Wide{ticks} * numerator / denominator;
  constexpr Wide kMax = std::numeric_limits<std::int64_t>::max();
  return static_cast<std::int64_t>(ns > kMax ? kMax : ns < -kMax ? -kMax : ns);
}

std::int64_t ClockCalibration::wall_ns(std::uint64_t ticks) const {
  const std::int64_t since = duration_ns(static_cast<std::int64_t>(ticks - last.ticks));
  std::int64_t wall = 0;  // a corrupt file may hold any numbers
  if (__builtin_add_overflow(last.wall_ns, since, &wall))
    return since < 0 ? std::numeric_limits<std::int64_t>::min() : std::numeric_limits<std::int64_t>::max();
  return wall;
}

}  // namespace tessera::probe
