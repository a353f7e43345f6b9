#include "tessera/ops/detail/draws.h"

#include <algorithm>
#include <cstring>

#include "tessera/ops/detail/philox.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tessera/ops/detail/draws.cpp"
#include <hwy/foreach_target.h>
// Included once per target, after foreach_target.h.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tessera::ops::HWY_NAMESPACE {

#if HWY_TARGET <= HWY_AVX2  // and better
namespace hn = hwy::HWY_NAMESPACE;
#include "tessera/ops/detail/philox_steps.inc"

/// Arithmetic of vectors. Each lane computes as detail::OneByOne does.
struct Lanes {
  using DF = hn::ScalableTag<float>;
  using DU = hn::ScalableTag<std::uint32_t>;
  using DI = hn::ScalableTag<std::int32_t>;
  using F = hn::Vec<DF>;
  using U = hn::Vec<DU>;
  static HWY_INLINE F number(float value) { return hn::Set(DF(), value); }
  static HWY_INLINE U word(std::uint32_t value) { return hn::Set(DU(), value); }
  static HWY_INLINE F fma(F a, F b, F c) { return hn::MulAdd(a, b, c); }
  static HWY_INLINE F mul(F a, F b) { return hn::Mul(a, b); }
  static HWY_INLINE F sub(F a, F b) { return hn::Sub(a, b); }
  static HWY_INLINE F sqrt(F a) { return hn::Sqrt(a); }
  static HWY_INLINE U bits(F a) { return hn::BitCast(DU(), a); }
  static HWY_INLINE F from_bits(U a) { return hn::BitCast(DF(), a); }
  static HWY_INLINE F to_float(U a) { return hn::ConvertTo(DF(), hn::BitCast(DI(), a)); }
  template <int kBy>
  static HWY_INLINE U right(U a) {
    return hn::ShiftRight<kBy>(a);
  }
  template <int kBy>
  static HWY_INLINE U left(U a) {
    return hn::ShiftLeft<kBy>(a);
  }
  static HWY_INLINE U add(U a, U b) { return hn::Add(a, b); }
  static HWY_INLINE U less(U a, U b) { return hn::Sub(a, b); }
  static HWY_INLINE U both(U a, U b) { return hn::And(a, b); }
  static HWY_INLINE U differing(U a, U b) { return hn::Xor(a, b); }
  static HWY_INLINE F choose(U choice, F a, F b) {
    return hn::IfThenElse(hn::RebindMask(DF(), hn::Ne(choice, hn::Zero(DU()))), a, b);
  }
  static HWY_INLINE void product(U a, std::uint32_t b, U& high, U& low) {
    const hn::Repartition<std::uint64_t, DU> d64;
    const U times = hn::Set(DU(), b);
    const auto even = hn::MulEven(a, times);
    const auto odd = hn::MulEven(hn::BitCast(DU(), hn::ShiftRight<32>(hn::BitCast(d64, a))), times);
    high = hn::OddEven(hn::BitCast(DU(), odd), hn::BitCast(DU(), hn::ShiftRight<32>(even)));
    low = hn::OddEven(hn::BitCast(DU(), hn::ShiftLeft<32>(odd)), hn::BitCast(DU(), even));
  }
};

constexpr std::size_t kLanes = hn::MaxLanes(Lanes::DU());
constexpr std::size_t kBatch = 4 * kLanes;  // one block of four elements per lane

// Computes the words of the blocks from `block` on, one block per lane.
HWY_INLINE void words_of_blocks(detail::DrawKey key, std::uint64_t block, Lanes::U (&words)[4]) {
  alignas(64) std::uint32_t low[kLanes];
  alignas(64) std::uint32_t high[kLanes];
  for (std::size_t i = 0; i < kLanes; ++i) {
    low[i] = static_cast<std::uint32_t>(block + i);
    high[i] = static_cast<std::uint32_t>((block + i) >> 32);
  }
  words[0] = hn::Load(Lanes::DU(), low);
  words[1] = hn::Load(Lanes::DU(), high);
  words[2] = Lanes::word(static_cast<std::uint32_t>(key.call));
  words[3] = Lanes::word(static_cast<std::uint32_t>(key.call >> 32));
  philox<Lanes>(words, key.seed);
}

struct Words {
  using Type = std::uint32_t;
  static HWY_INLINE void store(const Lanes::U (&words)[4], Type* to) {
    hn::StoreInterleaved4(words[0], words[1], words[2], words[3], Lanes::DU(), to);
  }
};
struct Uniform {
  using Type = float;
  static HWY_INLINE void store(const Lanes::U (&words)[4], Type* to) {
    hn::StoreInterleaved4(uniform_of<Lanes>(words[0]), uniform_of<Lanes>(words[1]), uniform_of<Lanes>(words[2]),
                          uniform_of<Lanes>(words[3]), Lanes::DF(), to);
  }
};
struct Normal {
  using Type = float;
  static HWY_INLINE void store(const Lanes::U (&words)[4], Type* to) {
    Lanes::F a;
    Lanes::F b;
    Lanes::F c;
    Lanes::F d;
    normals_of<Lanes>(words[0], words[1], a, b);
    normals_of<Lanes>(words[2], words[3], c, d);
    hn::StoreInterleaved4(a, b, c, d, Lanes::DF(), to);
  }
};

// Draws batches of full vectors. Partial batches at either end use a buffer.
template <class Kind>
HWY_INLINE void draw(typename Kind::Type* to, detail::DrawKey key, std::uint64_t first, std::int64_t count) {
  auto n = static_cast<std::size_t>(count);
  while (n > 0) {
    Lanes::U words[4];
    words_of_blocks(key, first / 4, words);
    const std::size_t skip = first % 4;
    const std::size_t taken = std::min(n, kBatch - skip);
    if (taken == kBatch) {
      Kind::store(words, to);
    } else {
      typename Kind::Type batch[kBatch];
      Kind::store(words, batch);
      std::memcpy(to, batch + skip, taken * sizeof *to);
    }
    to += taken;
    first += taken;
    n -= taken;
  }
}

#else  // no fused multiply-add: one at a time with std::fma, which produces the same bits

struct Words {
  using Type = std::uint32_t;
  static Type of(const std::uint32_t (&words)[4], std::size_t i) { return words[i]; }
};
struct Uniform {
  using Type = float;
  static Type of(const std::uint32_t (&words)[4], std::size_t i) {
    return detail::uniform_of<detail::OneByOne>(words[i]);
  }
};
struct Normal {
  using Type = float;
  static Type of(const std::uint32_t (&words)[4], std::size_t i) {
    float both[2];
    detail::normals_of<detail::OneByOne>(words[i / 2 * 2], words[i / 2 * 2 + 1], both[0], both[1]);
    return both[i % 2];
  }
};

template <class Kind>
void draw(typename Kind::Type* to, detail::DrawKey key, std::uint64_t first, std::int64_t count) {
  std::uint32_t words[4];
  for (std::int64_t i = 0; i < count; ++i, ++first) {
    if (i == 0 || first % 4 == 0) detail::words_of_block(key.seed, key.call, first / 4, words);
    to[i] = Kind::of(words, first % 4);
  }
}

#endif

void words(std::uint32_t* to, detail::DrawKey key, std::uint64_t first, std::int64_t n) {
  draw<Words>(to, key, first, n);
}
void uniform(float* to, detail::DrawKey key, std::uint64_t first, std::int64_t n) { draw<Uniform>(to, key, first, n); }
void normal(float* to, detail::DrawKey key, std::uint64_t first, std::int64_t n) { draw<Normal>(to, key, first, n); }

}  // namespace tessera::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::ops {
namespace {
HWY_EXPORT(words);
HWY_EXPORT(uniform);
HWY_EXPORT(normal);
}  // namespace

namespace detail {

void draw_words(std::uint32_t* to, DrawKey key, std::uint64_t first, std::int64_t n) {
  HWY_DYNAMIC_DISPATCH(words)(to, key, first, n);
}
void draw_uniform(float* to, DrawKey key, std::uint64_t first, std::int64_t n) {
  HWY_DYNAMIC_DISPATCH(uniform)(to, key, first, n);
}
void draw_normal(float* to, DrawKey key, std::uint64_t first, std::int64_t n) {
  HWY_DYNAMIC_DISPATCH(normal)(to, key, first, n);
}

}  // namespace detail
}  // namespace tessera::ops
#endif  // HWY_ONCE
