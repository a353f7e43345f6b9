#include "tessera/ops/reduce/detail/reduction.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <numeric>

#include "tessera/ops/parallel.h"
#include "tessera/ops/reduce/detail/fold_tiles.h"

namespace tessera::ops::detail {
namespace {

constexpr std::int64_t kRun = 65536;      // elements that are added in f32, by at least 128 accumulators
constexpr std::int64_t kStretch = 65536;  // elements per chunk
constexpr std::int64_t kBuffer = 2048;    // elements converted at a time
constexpr std::int64_t kColumns = 1024;   // results per tile
constexpr std::int64_t kFewTiles = 64;    // below this number, the reduced indices are split too
constexpr std::int64_t kRowsInF32 = 64;   // rows of a tile of columns that are added in f32

template <class T>
inline constexpr bool kIsReal = std::is_floating_point_v<T>;

template <class T, class W>
class Engine {
 public:
  explicit Engine(const ReduceLoop& of)
      : of_(of), identity_(identity_of<W>(of.fold, of.map, integer_limit(of.out, of.fold == Fold::kMax))) {
    reduced_ = of.is_empty ? 0 : of.reduced.numel();
    const std::int64_t inner = of.kept.inner();
    columns_ = of.by_columns ? std::min(inner, kColumns)
                             : std::clamp<std::int64_t>(kStretch / 2 / std::max<std::int64_t>(reduced_, 1), 1,
                                                        std::min(inner, kColumns));
    tiles_per_row_ = (inner + columns_ - 1) / columns_;
    tiles_ = of.kept.rows() * tiles_per_row_;
    stretch_ = reduced_;
    const std::int64_t each = of.by_columns ? std::max<std::int64_t>(kStretch / columns_, 16) : kStretch;
    if (tiles_ < kFewTiles && reduced_ > 2 * each) stretch_ = each;
    stretches_ = stretch_ == 0 ? 1 : (reduced_ + stretch_ - 1) / stretch_;
  }

  void run() const {
    if (tiles_ == 0) return;
    if (stretches_ > 1) {
      run_cut();
      return;
    }
    const std::int64_t work = std::max<std::int64_t>(1, columns_ * reduced_);
    parallel_for(tiles_, std::max<std::int64_t>(1, kStretch / work), [&](std::int64_t begin, std::int64_t end) {
      std::vector<W> values(static_cast<std::size_t>(columns_));
      std::vector<W> centres(is_centred() ? values.size() : 0);
      for (std::int64_t t = begin; t < end; ++t) {
        if (is_centred()) {
          fold_tile(t, 0, reduced_, centre_step(), nullptr, centres.data());
          finish_centres(centres.data(), tile(t).n);
        }
        fold_tile(t, 0, reduced_, {of_.fold, of_.map}, centres.data(), values.data());
        store_tile(t, values.data(), centres.data());
      }
    });
  }

 private:
  struct Step {
    Fold fold;
    Map map;
  };
  struct Tile {
    std::array<std::int64_t, 2> at;  // offsets of its first result and of the first input of that result
    std::int64_t n;                  // results
  };

  [[nodiscard]] bool is_centred() const { return of_.map == Map::kSquaredDeviation || of_.map == Map::kExp; }
  [[nodiscard]] Step centre_step() const { return {of_.map == Map::kExp ? Fold::kMax : Fold::kSum, Map::kNone}; }

  [[nodiscard]] Tile tile(std::int64_t t) const {
    Tile found{};
    const std::int64_t column = t % tiles_per_row_ * columns_;
    of_.kept.for_rows(t / tiles_per_row_, t / tiles_per_row_ + 1, [&](const auto& at) { found.at = at; });
    found.at[0] += column * of_.kept.step(0);
    found.at[1] += column * of_.kept.step(1);
    found.n = std::min(columns_, of_.kept.inner() - column);
    return found;
  }

  // With few results, chunks of the reduced indices are reduced in parallel, then combined in order.
  void run_cut() const {
    const auto size = static_cast<std::size_t>(tiles_ * columns_);
    std::vector<W> partial(size * static_cast<std::size_t>(stretches_));
    std::vector<W> centres(is_centred() ? size : 0);
    if (is_centred()) {
      fold_all(centre_step(), nullptr, partial, centres.data());
      for (std::int64_t t = 0; t < tiles_; ++t) finish_centres(centres.data() + t * columns_, tile(t).n);
    }
    std::vector<W> values(size);
    fold_all({of_.fold, of_.map}, centres.data(), partial, values.data());
    for (std::int64_t t = 0; t < tiles_; ++t) {
      store_tile(t, values.data() + t * columns_, centres.data() + (is_centred() ? t * columns_ : 0));
    }
  }

  void fold_all(Step step, const W* centres, std::vector<W>& partial, W* values) const {
    parallel_for(tiles_ * stretches_, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t t = i / stretches_;
        const std::int64_t first = i % stretches_ * stretch_;
        fold_tile(t, first, std::min(first + stretch_, reduced_), step,
                  centres == nullptr ? nullptr : centres + t * columns_, partial.data() + i * columns_);
      }
    });
    for (std::int64_t t = 0; t < tiles_; ++t) {
      for (std::int64_t c = 0; c < tile(t).n; ++c) {
        const W* at = partial.data() + t * stretches_ * columns_ + c;
        W value = *at;
        for (std::int64_t s = 1; s < stretches_; ++s) value = combined(step.fold, value, at[s * columns_]);
        values[t * columns_ + c] = value;
      }
    }
  }

  void fold_tile(std::int64_t t, std::int64_t first, std::int64_t last, Step step, const W* centres, W* values) const {
    const Tile at = tile(t);
    const bool is_main = step.map == of_.map && step.fold == of_.fold;
    const W start = is_main ? identity_ : start_of_centre();
    std::fill_n(values, at.n, start);
    if (of_.by_columns) {
      fold_columns(at, first, last, step, centres, values);
      return;
    }
    for (std::int64_t c = 0; c < at.n; ++c) {
      const W centre = centres == nullptr ? W(0) : centres[c];
      values[c] = fold_rows(at.at[1] + c * of_.kept.step(1), first, last, step, centre, values[c]);
    }
  }

  [[nodiscard]] W start_of_centre() const {
    if constexpr (kIsReal<W>) {
      if (of_.map == Map::kExp) return -std::numeric_limits<W>::infinity();
    }
    return W(0);
  }

  W fold_rows(std::int64_t offset, std::int64_t first, std::int64_t last, Step step, W centre, W value) const {
    const bool is_direct = step.map == Map::kNone && of_.in == dtype_of(of_.compute) && of_.reduced.step(0) == 1;
    const std::int64_t most = is_direct ? kRun : kBuffer;
    T buffer[kBuffer];
    of_.reduced.for_runs(first, last, [&](const auto& at, std::int64_t n) {
      const std::byte* run = address(offset + at[0]);
      for (std::int64_t i = 0; i < n; i += most) {
        const std::int64_t count = std::min(most, n - i);
        const T* x = reinterpret_cast<const T*>(run) + i;
        if (!is_direct) {
          load(buffer, run + i * of_.reduced.step(0) * element_bytes(), of_.in, of_.reduced.step(0), count);
          map_tile(step.map, buffer, count, [&](std::int64_t) { return centre; });
          x = buffer;
        }
        value = combined(step.fold, value, folded(step.fold, x, count));
      }
    });
    return value;
  }

  void fold_columns(const Tile& tile_at, std::int64_t first, std::int64_t last, Step step, const W* centres,
                    W* values) const {
    const bool is_direct = step.map == Map::kNone && of_.in == dtype_of(of_.compute) && of_.kept.step(1) == 1;
    T buffer[kColumns];
    T part[kColumns];  // sums in the compute type so far
    std::int64_t rows = 0;
    of_.reduced.for_runs(first, last, [&](const auto& at, std::int64_t n) {
      for (std::int64_t i = 0; i < n; ++i) {
        const std::byte* row = address(tile_at.at[1] + at[0] + i * of_.reduced.step(0));
        const T* x = reinterpret_cast<const T*>(row);
        if (!is_direct) {
          load(buffer, row, of_.in, of_.kept.step(1), tile_at.n);
          map_tile(step.map, buffer, tile_at.n, [&](std::int64_t c) { return centres[c]; });
          x = buffer;
        }
        add_row(step.fold, x, tile_at.n, values, part, rows);
      }
    });
    for (std::int64_t c = 0; rows > 0 && c < tile_at.n; ++c) values[c] += W(part[c]);
  }

  static void add_row(Fold fold, const T* x, std::int64_t n, W* values, T* part, std::int64_t& rows) {
    if constexpr (std::is_same_v<T, float> && std::is_same_v<W, double>) {
      if (fold == Fold::kSum) {
        if (rows == 0) {
          std::copy_n(x, n, part);
        } else {
          add_columns(part, x, n);
        }
        if (++rows < kRowsInF32) return;
        for (std::int64_t c = 0; c < n; ++c) values[c] += W(part[c]);
        rows = 0;
        return;
      }
    }
    if constexpr (std::is_same_v<T, W> && kIsReal<T>) {
      if (fold == Fold::kSum) return add_columns(values, x, n);
      if (fold == Fold::kMax) return max_columns(values, x, n);
      if (fold == Fold::kMin) return min_columns(values, x, n);
    }
    for (std::int64_t c = 0; c < n; ++c) values[c] = combined(fold, values[c], W(x[c]));
  }

  static W folded(Fold fold, const T* x, std::int64_t n) {
    if constexpr (kIsReal<T>) {
      if (fold == Fold::kSum) return static_cast<W>(sum_run(x, n));
      if (fold == Fold::kMax) return static_cast<W>(max_run(x, n));
      if (fold == Fold::kMin) return static_cast<W>(min_run(x, n));
    }
    W value = W(x[0]);
    for (std::int64_t i = 1; i < n; ++i) value = combined(fold, value, W(x[i]));
    return value;
  }

  template <Map kMap>
  void map_all(T* x, std::int64_t n) const {
    for (std::int64_t i = 0; i < n; ++i) x[i] = detail::mapped<kMap>(x[i], of_.parameter);
  }

  template <class Centre>
  void map_tile(Map map, T* x, std::int64_t n, const Centre& centre) const {
    if constexpr (!kIsComplex<T>) {
      switch (map) {
        case Map::kNone: return;
        case Map::kAbs: return map_all<Map::kAbs>(x, n);
        case Map::kSquare: return map_all<Map::kSquare>(x, n);
        case Map::kPower: return map_all<Map::kPower>(x, n);
        case Map::kNonZero: return map_all<Map::kNonZero>(x, n);
        case Map::kDiffers: return map_all<Map::kDiffers>(x, n);
        default: break;
      }
    }
    if constexpr (kIsReal<T>) {
      switch (map) {
        case Map::kSquaredDeviation:
          for (std::int64_t i = 0; i < n; ++i) {
            const T deviation = x[i] - static_cast<T>(centre(i));
            x[i] = deviation * deviation;
          }
          return;
        case Map::kExp:
          for (std::int64_t i = 0; i < n; ++i) x[i] = std::exp(x[i] - static_cast<T>(centre(i)));
          return;
        default: break;
      }
    }
  }

  void finish_centres(W* centres, std::int64_t n) const {
    if constexpr (kIsReal<W>) {
      for (std::int64_t c = 0; c < n; ++c) {
        if (of_.map == Map::kExp) {
          if (!std::isfinite(centres[c])) centres[c] = 0;  // exp then yields 0, inf or nan
        } else {
          centres[c] /= static_cast<W>(reduced_);
        }
      }
    }
  }

  [[nodiscard]] W result_of(W value, W centre) const {
    if constexpr (kIsReal<W>) {
      if (of_.finish == Finish::kLogSumExp) return std::log(value) + static_cast<W>(static_cast<T>(centre));
      if (of_.finish == Finish::kVariance) {
        // Deviations refer to the center rounded to the compute type.
        const W off = centre - static_cast<W>(static_cast<T>(centre));
        const auto n = static_cast<W>(reduced_);
        return (value - n * off * off) / std::max<W>(0, n - static_cast<W>(of_.parameter));
      }
    }
    return finished(of_.finish, value, of_.parameter);
  }

  void store_tile(std::int64_t t, const W* values, const W* centres) const {
    const Tile at = tile(t);
    T results[kColumns];
    for (std::int64_t c = 0; c < at.n; ++c) {
      const W value = result_of(values[c], is_centred() ? centres[c] : W(0));
      if constexpr (kIsComplex<T>) {
        results[c] = T(static_cast<float>(value.real()), static_cast<float>(value.imag()));
      } else {
        results[c] = static_cast<T>(value);
      }
    }
    const auto bytes = static_cast<std::int64_t>(itemsize(of_.out));
    store(results, of_.to + at.at[0] * bytes, of_.out, of_.kept.step(0), at.n);
  }

  [[nodiscard]] std::int64_t element_bytes() const { return static_cast<std::int64_t>(itemsize(of_.in)); }
  [[nodiscard]] const std::byte* address(std::int64_t offset) const { return of_.from + offset * element_bytes(); }

  const ReduceLoop& of_;
  W identity_;
  std::int64_t reduced_;  // indices per result
  std::int64_t columns_;  // maximum results per tile
  std::int64_t tiles_per_row_;
  std::int64_t tiles_;
  std::int64_t stretch_;  // reduced indices per chunk
  std::int64_t stretches_;
};

// Sorts the dimensions of `order` by decreasing stride in the input.
void sort_by_stride(std::vector<std::size_t>& order, const Strides& strides) {
  std::ranges::stable_sort(order,
                           [&](std::size_t a, std::size_t b) { return std::abs(strides[a]) > std::abs(strides[b]); });
}

}  // namespace

std::int64_t integer_limit(DType dtype, bool is_lowest) {
  return with_element_type(dtype, [&](auto* type) -> std::int64_t {
    using T = std::remove_pointer_t<decltype(type)>;
    if constexpr (std::is_integral_v<T>) {
      return static_cast<std::int64_t>(is_lowest ? std::numeric_limits<T>::lowest() : std::numeric_limits<T>::max());
    }
    return 0;
  });
}

void ReduceLoop::set_operands(const Tensor& out_tensor, const Tensor& x, const std::vector<bool>& is_reduced) {
  const bool has_dims = out_tensor.ndim() == x.ndim();  // reduced ones are kept as 1
  std::vector<std::size_t> dims[2];
  std::vector<std::int64_t> out_steps(x.shape().size());
  std::size_t next = 0;
  for (std::size_t d = 0; d < x.shape().size(); ++d) {
    is_empty |= is_reduced[d] && x.shape()[d] == 0;
    if (!is_reduced[d]) out_steps[d] = out_tensor.strides()[has_dims ? d : next++];
    if (x.shape()[d] != 1) dims[is_reduced[d] ? 1 : 0].push_back(d);
  }
  for (auto& order : dims) sort_by_stride(order, x.strides());
  for (const std::size_t d : dims[0]) kept.add(x.shape()[d], {out_steps[d], x.strides()[d]});
  for (const std::size_t d : dims[1]) reduced.add(x.shape()[d], {x.strides()[d]});
  kept.collapse();
  reduced.collapse();
  by_columns = !is_empty && !dims[0].empty() && !dims[1].empty() &&
               std::abs(kept.step(1)) < std::abs(reduced.step(0)) && kept.inner() >= 4;
  from = x.data();
  to = out_tensor.data();
  in = x.dtype();
  out = out_tensor.dtype();
}

void ReduceLoop::run() const {
  if (kept.numel() == 0) return;
  const bool is_extreme = fold == Fold::kMax || fold == Fold::kMin;
  switch (compute) {
    case Compute::kF32:
      if (is_extreme) return Engine<float, float>(*this).run();
      return Engine<float, double>(*this).run();
    case Compute::kF64: return Engine<double, double>(*this).run();
    case Compute::kI64: return Engine<std::int64_t, std::int64_t>(*this).run();
    case Compute::kC64: return Engine<std::complex<float>, std::complex<double>>(*this).run();
  }
}

}  // namespace tessera::ops::detail
