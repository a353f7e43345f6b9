#include "tessera/ops/nn/detail/attention_kernels.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

// Products are compute-bound, so the widest vectors are used too.
#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tessera/ops/nn/detail/attention_kernels.cpp"  // NOLINT
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include "tessera/ops/nn/detail/attention_products-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::ops::detail::HWY_NAMESPACE {

// The key rows of a block that a vector of queries uses: complete tiles, counted in keys.
struct TileRange {
  std::int64_t begin, end;
};

template <class T>
TileRange TilesOf(const PanelMask& mask, std::int64_t vector, std::int64_t keys) {
  const std::int64_t begin = std::clamp<std::int64_t>(mask.begin_of(vector * kLanes<T>), 0, keys);
  const std::int64_t end = std::clamp<std::int64_t>(mask.end_of((vector + 1) * kLanes<T> - 1), begin, keys);
  if (begin == end) return {0, 0};
  return {begin / kRows<T> * kRows<T>, (end + kRows<T> - 1) / kRows<T> * kRows<T>};
}

// Returns true if every query of the vector attends to every key of the tile.
template <class T>
bool IsFull(const PanelMask& mask, std::int64_t vector, std::int64_t key) {
  return mask.begin_of((vector + 1) * kLanes<T> - 1) <= key && mask.end_of(vector * kLanes<T>) >= key + kRows<T>;
}

// Calls f(key, vector, count) for tiles of one or two adjacent vectors.
template <class T, class F>
HWY_INLINE void ForTiles(const PanelMask& mask, std::int64_t queries, std::int64_t keys, const F& f) {
  const std::int64_t vectors = (queries + kLanes<T> - 1) / kLanes<T>;
  for (std::int64_t vector = 0; vector < vectors; vector += 2) {
    const TileRange first = TilesOf<T>(mask, vector, keys);
    const TileRange second = vector + 1 < vectors ? TilesOf<T>(mask, vector + 1, keys) : TileRange{0, 0};
    const std::int64_t begin = first.begin == first.end ? second.begin : first.begin;
    for (std::int64_t key = begin; key < std::max(first.end, second.end); key += kRows<T>) {
      const bool has_first = key >= first.begin && key < first.end;
      const bool has_second = key >= second.begin && key < second.end;
      if (has_first && has_second) {
        f(key, vector, std::integral_constant<int, 2>());
      } else if (has_first || has_second) {
        f(key, has_first ? vector : vector + 1, std::integral_constant<int, 1>());
      }
    }
  }
}

// Lanes of a vector of queries whose mask includes `key`.
template <class T>
class LaneMask {
 public:
  LaneMask(const PanelMask& mask, std::int64_t vector, std::int64_t keys) {
    const Tag<T> d;
    HWY_ALIGN T from[kLanes<T>];
    HWY_ALIGN T to[kLanes<T>];
    for (std::int64_t i = 0; i < kLanes<T>; ++i) {
      from[i] = static_cast<T>(std::clamp<std::int64_t>(mask.begin_of(vector * kLanes<T> + i), 0, keys));
      to[i] = static_cast<T>(std::clamp<std::int64_t>(mask.end_of(vector * kLanes<T> + i), 0, keys));
    }
    begin_ = hn::Load(d, from);
    end_ = hn::Load(d, to);
  }
  HWY_INLINE hn::Mask<Tag<T>> operator()(std::int64_t key) const {
    const auto at = hn::Set(Tag<T>(), static_cast<T>(key));
    return hn::And(hn::Ge(at, begin_), hn::Lt(at, end_));
  }

 private:
  Vec<T> begin_, end_;
};

template <class T>
constexpr T kNone = -std::numeric_limits<T>::infinity();

// Computes the scores of a tile and their maximum. Masked keys score -infinity.
template <int kVectors, class T>
HWY_INLINE void ScoreTile(const ForwardStep<T>& step, std::int64_t key, std::int64_t vector, Vec<T>* most) {
  const Tag<T> d;
  Vec<T> c[kRows<T> * kVectors];
  Clear<kRows<T> * kVectors>(c);
  MultiplyAdd<kVectors>(step.d, RowPointers<T>(step.k, key, step.keys), step.q_columns + vector * kLanes<T>, kPanel<T>,
                        c);
  T* to = step.p + key * kPanel<T> + vector * kLanes<T>;
  Unrolled<kVectors>([&](auto v) TESSERA_UNROLLED {
    auto top = most[v];
    if (IsFull<T>(*step.mask, vector + v, key)) {
      Unrolled<kRows<T>>([&](auto i) TESSERA_UNROLLED {
        top = hn::Max(top, c[i * kVectors + v]);
        hn::StoreU(c[i * kVectors + v], d, to + i * kPanel<T> + v * kLanes<T>);
      });
    } else {
      const LaneMask<T> is_seen(*step.mask, vector + v, step.keys);
      Unrolled<kRows<T>>([&](auto i) TESSERA_UNROLLED {
        const auto score = hn::IfThenElse(is_seen(key + i), c[i * kVectors + v], hn::Set(d, kNone<T>));
        top = hn::Max(top, score);
        hn::StoreU(score, d, to + i * kPanel<T> + v * kLanes<T>);
      });
    }
    most[v] = top;
  });
}

// Rescales the sums to the new maximum, which is stored. Returns the shift of exponentials.
template <class T>
HWY_INLINE Vec<T> Rescale(const ForwardStep<T>& step, std::int64_t vector, Vec<T> most) {
  const Tag<T> d;
  const std::int64_t at = vector * kLanes<T>;
  const auto shift = hn::IfThenElse(hn::Eq(most, hn::Set(d, kNone<T>)), hn::Zero(d), most);
  if (!step.is_first) {
    const auto before = hn::LoadU(d, step.state.most + at);
    if (!hn::AllTrue(d, hn::Eq(before, most))) {
      const auto by = ExpOfUnits(d, hn::Sub(before, shift));
      hn::StoreU(hn::Mul(by, hn::LoadU(d, step.state.sum + at)), d, step.state.sum + at);
      HWY_ALIGN T factors[kLanes<T>];
      hn::Store(by, d, factors);
      for (std::int64_t i = 0; i < kLanes<T>; ++i) {
        T* row = step.state.out + (at + i) * step.e_padded;
        const auto factor = hn::Set(d, factors[i]);
        for (std::int64_t c = 0; c < step.e_padded; c += kLanes<T>) {
          hn::StoreU(hn::Mul(hn::LoadU(d, row + c), factor), d, row + c);
        }
      }
    }
  }
  hn::StoreU(most, d, step.state.most + at);
  return shift;
}

// Converts the scores of a vector of queries to exponentials and adds them to the sum.
template <class T>
HWY_INLINE void Exponentials(const ForwardStep<T>& step, std::int64_t vector, Vec<T> shift) {
  const Tag<T> d;
  const TileRange keys = TilesOf<T>(*step.mask, vector, step.keys);
  auto a = hn::Zero(d);
  auto b = a;
  for (std::int64_t key = keys.begin; key < keys.end; key += kRows<T>) {
    T* at = step.p + key * kPanel<T> + vector * kLanes<T>;
    Unrolled<kRows<T>>([&](auto i) TESSERA_UNROLLED {
      const auto value = ExpOfUnits(d, hn::Sub(hn::LoadU(d, at + i * kPanel<T>), shift));
      hn::StoreU(value, d, at + i * kPanel<T>);
      if constexpr (i % 2 == 0) {
        a = hn::Add(a, value);
      } else {
        b = hn::Add(b, value);
      }
    });
  }
  T* sum = step.state.sum + vector * kLanes<T>;
  const auto before = step.is_first ? hn::Zero(d) : hn::LoadU(d, sum);
  hn::StoreU(hn::Add(before, hn::Add(a, b)), d, sum);
}

// Computes to[query, :] (+)= sum over keys of p[key, query] by[key, :], for the tile of queries from `query` on.
template <class T>
void AddToQueries(const PanelMask& mask, std::int64_t query, std::int64_t keys, const T* p, AttentionRows<const T> by,
                  std::int64_t width, bool is_first, T* to) {
  const std::int64_t begin = std::clamp<std::int64_t>(mask.begin_of(query), 0, keys);
  const std::int64_t end = std::clamp<std::int64_t>(mask.end_of(query + kRows<T> - 1), begin, keys);
  if (begin == end && !is_first) return;
  AddProduct(end - begin, Fixed<T, 1, kPanel<T>>{p + begin * kPanel<T> + query},
             AttentionRows<const T>{by.data + begin * by.stride, by.stride}, width, !is_first, to + query * width);
}

template <class T>
void Forward(const ForwardStep<T>& step) {
  const Tag<T> d;
  const std::int64_t vectors = (step.queries + kLanes<T> - 1) / kLanes<T>;
  Vec<T> most[kPanelVectors];
  for (std::int64_t v = 0; v < vectors; ++v) {
    most[v] = step.is_first ? hn::Set(d, kNone<T>) : hn::LoadU(d, step.state.most + v * kLanes<T>);
  }
  ForTiles<T>(*step.mask, step.queries, step.keys, [&](std::int64_t key, std::int64_t vector, auto count) HWY_ATTR {
    ScoreTile<decltype(count)::value>(step, key, vector, most + vector);
  });
  for (std::int64_t v = 0; v < vectors; ++v) Exponentials(step, v, Rescale(step, v, most[v]));
  for (std::int64_t query = 0; query < step.queries; query += kRows<T>) {
    AddToQueries(*step.mask, query, step.keys, step.p, step.v, step.e_padded, step.is_first, step.state.out);
  }
}

template <class T>
void Finish(const PanelState<T>& state, std::int64_t queries, std::int64_t e_padded) {
  const Tag<T> d;
  HWY_ALIGN T inverse[kPanel<T>];
  for (std::int64_t at = 0; at < queries; at += kLanes<T>) {
    const auto sum = hn::LoadU(d, state.sum + at);
    const auto is_empty = hn::Eq(sum, hn::Zero(d));
    const auto one = hn::Set(d, T(1));
    hn::Store(hn::Div(one, hn::IfThenElse(is_empty, one, sum)), d, inverse + at);
    const auto most = hn::Mul(hn::LoadU(d, state.most + at), hn::Set(d, static_cast<T>(1 / kScoreUnit<T>)));
    const auto all = hn::Add(most, hn::Log(d, hn::IfThenElse(is_empty, one, sum)));
    hn::StoreU(hn::IfThenElse(is_empty, hn::Set(d, kNone<T>), all), d, state.most + at);
  }
  for (std::int64_t i = 0; i < queries; ++i) {
    T* const row = state.out + i * e_padded;
    const auto by = hn::Set(d, inverse[i]);
    for (std::int64_t c = 0; c < e_padded; c += kLanes<T>) hn::StoreU(hn::Mul(hn::LoadU(d, row + c), by), d, row + c);
  }
}

// Computes the probabilities of a tile and the gradients of its scores.
template <int kVectors, class T>
HWY_INLINE void GradientTile(const BackwardStep<T>& step, std::int64_t key, std::int64_t vector) {
  const Tag<T> d;
  const std::int64_t lane = vector * kLanes<T>;
  Vec<T> c[kRows<T> * kVectors];
  Clear<kRows<T> * kVectors>(c);
  MultiplyAdd<kVectors>(step.d, RowPointers<T>(step.k, key, step.keys), step.q_columns + lane, kPanel<T>, c);
  T* const p = step.p + key * kPanel<T> + lane;
  Unrolled<kVectors>([&](auto v) TESSERA_UNROLLED {
    const auto shift = hn::LoadU(d, step.logsumexp + lane + v * kLanes<T>);
    T* const to = p + v * kLanes<T>;
    Unrolled<kRows<T>>([&](auto i) TESSERA_UNROLLED {
      hn::StoreU(ExpOfUnits(d, hn::Sub(c[i * kVectors + v], shift)), d, to + i * kPanel<T>);
    });
    if (IsFull<T>(*step.mask, vector + v, key)) return;
    const LaneMask<T> is_seen(*step.mask, vector + v, step.keys);
    for (std::int64_t i = 0; i < kRows<T>; ++i) {
      T* const row = to + i * kPanel<T>;
      hn::StoreU(hn::IfThenElseZero(is_seen(key + i), hn::LoadU(d, row)), d, row);
    }
  });
  Clear<kRows<T> * kVectors>(c);
  MultiplyAdd<kVectors>(step.e, RowPointers<T>(step.v, key, step.keys), step.grad_columns + lane, kPanel<T>, c);
  T* const ds = step.ds + key * kPanel<T> + lane;
  Unrolled<kVectors>([&](auto v) TESSERA_UNROLLED {
    const auto delta = hn::LoadU(d, step.delta + lane + v * kLanes<T>);
    Unrolled<kRows<T>>([&](auto i) TESSERA_UNROLLED {
      const auto at = i * kPanel<T> + v * kLanes<T>;
      hn::StoreU(hn::Mul(hn::LoadU(d, p + at), hn::Sub(c[i * kVectors + v], delta)), d, ds + at);
    });
  });
}

// Adds the contributions of all queries that attend to the tile of keys from `key` on to its dk and dv.
template <class T>
void AddToKeys(const BackwardStep<T>& step, std::int64_t key) {
  const PanelMask& mask = *step.mask;
  std::int64_t begin = 0;
  std::int64_t end = step.queries;
  while (begin < end && mask.end_of(begin) <= key) ++begin;
  // Limited to existing keys: a query beyond all keys begins there and has no probabilities.
  const std::int64_t last = std::min(key + kRows<T>, step.keys);
  while (end > begin && mask.begin_of(end - 1) >= last) --end;
  if (begin == end) return;
  const std::int64_t at = key * kPanel<T> + begin;
  AddProduct(end - begin, Fixed<T, kPanel<T>, 1>{step.p + at},
             AttentionRows<const T>{step.grad.data + begin * step.grad.stride, step.grad.stride}, step.e_padded, true,
             step.dv + key * step.e_padded);
  AddProduct(end - begin, Fixed<T, kPanel<T>, 1>{step.ds + at},
             AttentionRows<const T>{step.q.data + begin * step.q.stride, step.q.stride}, step.d_padded, true,
             step.dk + key * step.d_padded);
}

template <class T>
void Backward(const BackwardStep<T>& step) {
  ForTiles<T>(*step.mask, step.queries, step.keys, [&](std::int64_t key, std::int64_t vector, auto count) HWY_ATTR {
    GradientTile<decltype(count)::value>(step, key, vector);
  });
  for (std::int64_t key = 0; key < step.keys; key += kRows<T>) AddToKeys(step, key);
  for (std::int64_t query = 0; query < step.queries; query += kRows<T>) {
    AddToQueries(*step.mask, query, step.keys, step.ds, step.k, step.d_padded, false, step.dq);
  }
}

template <class T>
const AttentionKernels<T>* Kernels() {
  static_assert(kPanel<T> <= kMaxPanel);
  static constexpr AttentionKernels<T> kAll = {
      .lanes = kLanes<T>,
      .panel = kPanel<T>,
      .rows = kRows<T>,
      .score_unit = kScoreUnit<T>,
      .pack_columns = &PackColumns<T>,
      .forward = &Forward<T>,
      .finish = &Finish<T>,
      .backward = &Backward<T>,
  };
  return &kAll;
}
const AttentionKernels<float>* FloatAttention() { return Kernels<float>(); }
const AttentionKernels<double>* DoubleAttention() { return Kernels<double>(); }

}  // namespace tessera::ops::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::ops::detail {

HWY_EXPORT(FloatAttention);
HWY_EXPORT(DoubleAttention);

template <>
const AttentionKernels<float>& attention_kernels<float>() {
  static const AttentionKernels<float>* const all = HWY_DYNAMIC_DISPATCH(FloatAttention)();
  return *all;
}
template <>
const AttentionKernels<double>& attention_kernels<double>() {
  static const AttentionKernels<double>* const all = HWY_DYNAMIC_DISPATCH(DoubleAttention)();
  return *all;
}

}  // namespace tessera::ops::detail
#endif
