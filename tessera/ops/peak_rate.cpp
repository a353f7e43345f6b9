#include "tessera/ops/peak_rate.h"

#include <cstdint>

// Compiles for all targets: the peak is that of the processor, whatever the other sources are compiled for.
#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tessera/ops/peak_rate.cpp"  // NOLINT
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tessera::ops::detail::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr int kRounds = 20000;
constexpr int kChains = 10;  // exceeds the latency of a multiply-add times the number of units

double Flops() { return 2.0 * kRounds * kChains * static_cast<double>(hn::Lanes(hn::ScalableTag<float>())); }

// Returns the result so that the compiler removes nothing.
float Run() {
  const hn::ScalableTag<float> d;
  const auto by = hn::Set(d, 0.999F);
  const auto add = hn::Set(d, 1e-3F);
  // Each chain has a different start, because equal chains would be computed once.
  auto a = hn::Iota(d, 0.1F), b = hn::Iota(d, 0.2F), c = hn::Iota(d, 0.3F), e = hn::Iota(d, 0.4F);
  auto f = hn::Iota(d, 0.5F), g = hn::Iota(d, 0.6F), h = hn::Iota(d, 0.7F), i = hn::Iota(d, 0.8F);
  auto j = hn::Iota(d, 0.9F), k = hn::Iota(d, 1.1F);
  for (int round = 0; round < kRounds; ++round) {
    a = hn::MulAdd(a, by, add);
    b = hn::MulAdd(b, by, add);
    c = hn::MulAdd(c, by, add);
    e = hn::MulAdd(e, by, add);
    f = hn::MulAdd(f, by, add);
    g = hn::MulAdd(g, by, add);
    h = hn::MulAdd(h, by, add);
    i = hn::MulAdd(i, by, add);
    j = hn::MulAdd(j, by, add);
    k = hn::MulAdd(k, by, add);
  }
  const auto sum =
      hn::Add(hn::Add(hn::Add(a, b), hn::Add(c, e)), hn::Add(hn::Add(f, g), hn::Add(hn::Add(h, i), hn::Add(j, k))));
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

const char* Target() { return hwy::TargetName(HWY_TARGET); }

}  // namespace tessera::ops::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::ops::detail {

HWY_EXPORT(Flops);
HWY_EXPORT(Run);
HWY_EXPORT(Target);

double peak_flops() { return HWY_DYNAMIC_DISPATCH(Flops)(); }
void run_peak() {
  [[maybe_unused]] static volatile float sink = 0;
  sink = HWY_DYNAMIC_DISPATCH(Run)();
}
std::string peak_target() { return HWY_DYNAMIC_DISPATCH(Target)(); }

}  // namespace tessera::ops::detail
#endif
