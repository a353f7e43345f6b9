#include "tessera/base/half_floats.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tessera/base/half_floats.cpp"
#include <hwy/foreach_target.h>
// Included once per target, after foreach_target.h.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tessera::HWY_NAMESPACE {

// Each function converts complete vectors and returns the number of
// converted elements; the rest is converted one by one.
#if HWY_TARGET <= HWY_AVX2  // and better
namespace hn = hwy::HWY_NAMESPACE;
using Floats = hn::ScalableTag<float>;
using Words = hn::Rebind<std::uint32_t, Floats>;
using Halves = hn::Rebind<std::uint16_t, Floats>;
using Float16s = hn::Rebind<hwy::float16_t, Floats>;
constexpr auto kLanes = static_cast<std::int64_t>(hn::MaxLanes(Floats()));

std::int64_t widen_bf16(float* to, const bf16* from, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const auto bits = hn::LoadU(Halves(), reinterpret_cast<const std::uint16_t*>(from + i));
    hn::StoreU(hn::BitCast(Floats(), hn::ShiftLeft<16>(hn::PromoteTo(Words(), bits))), Floats(), to + i);
  }
  return i;
}
std::int64_t widen_f16(float* to, const f16* from, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const auto halves = hn::LoadU(Float16s(), reinterpret_cast<const hwy::float16_t*>(from + i));
    hn::StoreU(hn::PromoteTo(Floats(), halves), Floats(), to + i);
  }
  return i;
}
std::int64_t narrow_bf16(bf16* to, const float* from, std::int64_t n) {
  const Words d;
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const auto bits = hn::BitCast(d, hn::LoadU(Floats(), from + i));
    const auto is_odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 1));
    const auto rounded = hn::Add(bits, hn::Add(is_odd, hn::Set(d, 0x7fff)));
    const auto quiet = hn::Or(bits, hn::Set(d, 0x400000));
    const auto is_nan = hn::Gt(hn::BitCast(hn::RebindToSigned<Words>(), hn::And(bits, hn::Set(d, 0x7fffffff))),
                               hn::Set(hn::RebindToSigned<Words>(), 0x7f800000));
    const auto high = hn::ShiftRight<16>(hn::IfThenElse(hn::RebindMask(d, is_nan), quiet, rounded));
    const auto halves = hn::DemoteTo(Halves(), hn::BitCast(hn::RebindToSigned<Words>(), high));
    hn::StoreU(halves, Halves(), reinterpret_cast<std::uint16_t*>(to + i));
  }
  return i;
}
std::int64_t narrow_f16(f16* to, const float* from, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const auto halves = hn::DemoteTo(Float16s(), hn::LoadU(Floats(), from + i));
    hn::StoreU(halves, Float16s(), reinterpret_cast<hwy::float16_t*>(to + i));
  }
  return i;
}
#else
std::int64_t widen_bf16(float*, const bf16*, std::int64_t) { return 0; }
std::int64_t widen_f16(float*, const f16*, std::int64_t) { return 0; }
std::int64_t narrow_bf16(bf16*, const float*, std::int64_t) { return 0; }
std::int64_t narrow_f16(f16*, const float*, std::int64_t) { return 0; }
#endif

}  // namespace tessera::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera {
namespace {
HWY_EXPORT(widen_bf16);
HWY_EXPORT(widen_f16);
HWY_EXPORT(narrow_bf16);
HWY_EXPORT(narrow_f16);
}  // namespace

namespace detail {

void widen(float* to, const bf16* from, std::int64_t n) {
  for (std::int64_t i = HWY_DYNAMIC_DISPATCH(widen_bf16)(to, from, n); i < n; ++i) to[i] = from[i];
}
void widen(float* to, const f16* from, std::int64_t n) {
  for (std::int64_t i = HWY_DYNAMIC_DISPATCH(widen_f16)(to, from, n); i < n; ++i) to[i] = from[i];
}
void narrow(bf16* to, const float* from, std::int64_t n) {
  for (std::int64_t i = HWY_DYNAMIC_DISPATCH(narrow_bf16)(to, from, n); i < n; ++i) to[i] = bf16(from[i]);
}
void narrow(f16* to, const float* from, std::int64_t n) {
  for (std::int64_t i = HWY_DYNAMIC_DISPATCH(narrow_f16)(to, from, n); i < n; ++i) to[i] = f16(from[i]);
}

}  // namespace detail
}  // namespace tessera
#endif  // HWY_ONCE
