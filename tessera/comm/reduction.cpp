// f32 and f64, which are their own accumulators, are reduced a cache line at a time, from memory to memory. Other types
// are reduced a tile at a time: the first input is loaded into the accumulator, the others are combined with it, and
// the result is rounded into each output. Loops over tiles have a constant length, so that the compiler vectorizes
// them.
#include "tessera/comm/reduction.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "tessera/base/error.h"
#include "tessera/base/half_floats.h"
#include "tessera/base/small_vector.h"
#include "tessera/comm/detail/streaming.h"

namespace tessera::comm {
namespace {

constexpr std::int64_t kTile = 1024;
constexpr std::size_t kLineBytes = tessera::detail::kLineNbytes;
constexpr auto kStreamedBytes = static_cast<std::int64_t>(detail::kStreamedNbytes);

template <class T>
inline constexpr bool kIsHalf = std::is_same_v<T, bf16> || std::is_same_v<T, f16>;

// Integers are accumulated in 64 bits, which keeps the low bits exact and avoids early overflow of avg.
template <class T>
using Accumulator =
    std::conditional_t<kIsHalf<T>, float,
                       std::conditional_t<std::is_floating_point_v<T>, T,
                                          std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>>>;

template <class T>
void load(Accumulator<T>* to, const T* from, std::int64_t n) {
  if constexpr (kIsHalf<T>) {
    tessera::detail::widen(to, from, n);
  } else if constexpr (std::is_same_v<T, Accumulator<T>>) {
    std::memcpy(to, from, static_cast<std::size_t>(n) * sizeof(T));
  } else {
    std::copy_n(from, n, to);
  }
}
template <class T>
void store(T* to, const Accumulator<T>* from, std::int64_t n) {
  if constexpr (kIsHalf<T>) {
    tessera::detail::narrow(to, from, n);
  } else if constexpr (std::is_same_v<T, Accumulator<T>>) {
    std::memcpy(to, from, static_cast<std::size_t>(n) * sizeof(T));
  } else {
    std::transform(from, from + n, to, [](Accumulator<T> value) { return static_cast<T>(value); });
  }
}

// Sums and products of integers wrap, including signed ones.
template <class A>
A wrapped(A a, A b, bool is_product) {
  if constexpr (std::is_integral_v<A>) {
    const auto x = static_cast<std::uint64_t>(a);
    const auto y = static_cast<std::uint64_t>(b);
    return static_cast<A>(is_product ? x * y : x + y);
  } else {
    return is_product ? a * b : a + b;
  }
}

template <Reduction kind, class A>
A combine(A a, A b) {
  if constexpr (kind == Reduction::kProd) return wrapped(a, b, true);
  // A nan compares false with every value, so it replaces a number and stays.
  if constexpr (kind == Reduction::kMin) return b < a || b != b ? b : a;
  if constexpr (kind == Reduction::kMax) return b > a || b != b ? b : a;
  if constexpr (std::is_integral_v<A>) {
    if constexpr (kind == Reduction::kBitAnd) return a & b;
    if constexpr (kind == Reduction::kBitOr) return a | b;
    if constexpr (kind == Reduction::kBitXor) return a ^ b;
  }
  return wrapped(a, b, false);
}

template <class T, Reduction kind>
void fold_tiles(double factor, std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs,
                std::int64_t count) {
  using A = Accumulator<T>;
  alignas(64) A sum[kTile] = {};
  alignas(64) A next[kTile] = {};
  const auto ranks = static_cast<A>(inputs.size());
  const auto by = static_cast<A>(factor);
  for (std::int64_t at = 0; at < count; at += kTile) {
    const std::int64_t n = std::min(kTile, count - at);
    load<T>(sum, reinterpret_cast<const T*>(inputs[0]) + at, n);
    if constexpr (kind == Reduction::kPremultiply) {
      for (A& value : sum) value *= by;
    }
    for (const std::byte* input : inputs.subspan(1)) {
      load<T>(next, reinterpret_cast<const T*>(input) + at, n);
      for (std::int64_t i = 0; i < kTile; ++i) {
        A value = next[i];
        if constexpr (kind == Reduction::kPremultiply) value *= by;
        sum[i] = combine<kind>(sum[i], value);
      }
    }
    if constexpr (kind == Reduction::kAvg) {
      for (A& value : sum) value /= ranks;
    }
    for (std::byte* output : outputs) store<T>(reinterpret_cast<T*>(output) + at, sum, n);
  }
}

// Inputs and outputs at one element.
struct Streams {
  std::span<const std::byte* const> inputs;
  std::span<std::byte* const> outputs;
};

template <class T, Reduction kind>
void fold_elements(T factor, const Streams& streams, std::int64_t first, std::int64_t end) {
  const auto ranks = static_cast<T>(streams.inputs.size());
  for (std::int64_t at = first; at < end; ++at) {
    T sum = reinterpret_cast<const T*>(streams.inputs[0])[at];
    if constexpr (kind == Reduction::kPremultiply) sum *= factor;
    for (const std::byte* input : streams.inputs.subspan(1)) {
      T value = reinterpret_cast<const T*>(input)[at];
      if constexpr (kind == Reduction::kPremultiply) value *= factor;
      sum = combine<kind>(sum, value);
    }
    if constexpr (kind == Reduction::kAvg) sum /= ranks;
    for (std::byte* output : streams.outputs) reinterpret_cast<T*>(output)[at] = sum;
  }
}

// Sixteen bytes of values; a line has four of them, as separate members, so that they stay in registers.
template <class T>
struct Line {
  using Vector [[gnu::vector_size(16)]] = T;
  Vector a, b, c, d;

  // Uses memcpy(), since values are aligned only to their own size. One vector at a time, so that they stay in
  // registers.
  static Line load(const std::byte* from) {
    Line line;
    std::memcpy(&line.a, from, 16);
    std::memcpy(&line.b, from + 16, 16);
    std::memcpy(&line.c, from + 32, 16);
    std::memcpy(&line.d, from + 48, 16);
    return line;
  }
  void store(std::byte* to) const {
    std::memcpy(to, &a, 16);
    std::memcpy(to + 16, &b, 16);
    std::memcpy(to + 32, &c, 16);
    std::memcpy(to + 48, &d, 16);
  }
  void stream(std::byte* to) const {
    using tessera::detail::stream_bytes;
    using tessera::detail::StreamedBytes;
    stream_bytes(to, StreamedBytes(a));
    stream_bytes(to + 16, StreamedBytes(b));
    stream_bytes(to + 32, StreamedBytes(c));
    stream_bytes(to + 48, StreamedBytes(d));
  }
  template <class F>
  void each(const Line& other, F&& combined) {
    a = combined(a, other.a);
    b = combined(b, other.b);
    c = combined(c, other.c);
    d = combined(d, other.d);
  }
};

// Like combine(), lane by lane.
template <Reduction kind, class Vector>
Vector combine_lanes(Vector a, Vector b) {
  if constexpr (kind == Reduction::kProd) return a * b;
  if constexpr (kind == Reduction::kMin) return ((b < a) | (b != b)) ? b : a;
  if constexpr (kind == Reduction::kMax) return ((b > a) | (b != b)) ? b : a;
  return a + b;
}

// Reduces a cache line at a time from memory to memory, for values that are their own accumulators. If `is_streamed`,
// bypasses the caches, so that lines of an output are not read before they are written and cached data stays.
template <class T, Reduction kind, bool is_streamed>
void fold_lines(T factor, const Streams& streams, std::int64_t first, std::int64_t end) {
  using Vector = typename Line<T>::Vector;
  const auto ranks = static_cast<T>(streams.inputs.size());
  const auto item = static_cast<std::int64_t>(sizeof(T));
  const auto scaled = [factor](Vector value, Vector) { return value * factor; };
  for (std::int64_t at = first * item; at < end * item; at += static_cast<std::int64_t>(kLineBytes)) {
    Line<T> sum = Line<T>::load(streams.inputs[0] + at);
    if constexpr (kind == Reduction::kPremultiply) sum.each(sum, scaled);
    for (const std::byte* input : streams.inputs.subspan(1)) {
      Line<T> next = Line<T>::load(input + at);
      if constexpr (kind == Reduction::kPremultiply) next.each(next, scaled);
      sum.each(next, [](Vector a, Vector b) { return combine_lanes<kind>(a, b); });
    }
    if constexpr (kind == Reduction::kAvg) sum.each(sum, [ranks](Vector value, Vector) { return value / ranks; });
    for (std::byte* output : streams.outputs) {
      if constexpr (is_streamed) {
        sum.stream(output + at);
      } else {
        sum.store(output + at);
      }
    }
  }
}

// For outputs in the caches of other cores: a line that is overwritten completely need not be fetched first. memcpy()
// of several lines makes use of that; single stores do not.
template <class T, Reduction kind>
void fold_cached(T factor, const Streams& streams, std::int64_t first, std::int64_t end) {
  alignas(kLineBytes) T sum[kTile];
  auto* const tile = reinterpret_cast<std::byte*>(sum);
  SmallVector<const std::byte*, 16> inputs;
  for (std::int64_t at = first; at < end; at += kTile) {
    const std::int64_t n = std::min(kTile, end - at);
    const auto skipped = at * static_cast<std::int64_t>(sizeof(T));
    inputs.clear();
    for (const std::byte* input : streams.inputs) inputs.push_back(input + skipped);
    fold_lines<T, kind, false>(factor, {inputs, std::span(&tile, 1)}, 0, n);
    for (std::byte* output : streams.outputs)
      std::memcpy(output + skipped, sum, static_cast<std::size_t>(n) * sizeof(T));
  }
}

// Returns true if outputs are too large for the caches, have the same alignment to lines, and are not inputs, whose
// lines are in the caches anyway.
bool can_stream(const Streams& streams, std::int64_t nbytes) {
  if (nbytes < kStreamedBytes) return false;
  for (const std::byte* output : streams.outputs) {
    for (const std::byte* input : streams.inputs) {
      if (input == output) return false;
    }
    const auto offset = reinterpret_cast<std::uintptr_t>(output) - reinterpret_cast<std::uintptr_t>(streams.outputs[0]);
    if (offset % kLineBytes != 0) return false;
  }
  return true;
}

// A single output up to this size is in the caches of this core, if in any.
constexpr std::int64_t kOwnBytes = std::int64_t{16} << 10;

template <class T, Reduction kind>
void fold_direct(double factor, std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs,
                 std::int64_t count) {
  constexpr auto kLine = static_cast<std::int64_t>(kLineBytes / sizeof(T));
  const Streams streams{inputs, outputs};
  const auto by = static_cast<T>(factor);
  // The first lines begin at a line boundary of the first output.
  const std::uintptr_t over = outputs.empty() ? 0 : reinterpret_cast<std::uintptr_t>(outputs[0]) % kLineBytes;
  const auto head =
      std::min<std::int64_t>(count, over == 0 ? 0 : static_cast<std::int64_t>((kLineBytes - over) / sizeof(T)));
  const std::int64_t lines_end = head + (count - head) / kLine * kLine;
  fold_elements<T, kind>(by, streams, 0, head);
  const auto nbytes = count * static_cast<std::int64_t>(sizeof(T));
  if (can_stream(streams, nbytes)) {
    fold_lines<T, kind, true>(by, streams, head, lines_end);
    tessera::detail::end_stream();
  } else if (nbytes >= kStreamedBytes || (outputs.size() == 1 && nbytes <= kOwnBytes)) {
    fold_lines<T, kind, false>(by, streams, head, lines_end);
  } else {
    fold_cached<T, kind>(by, streams, head, lines_end);
  }
  fold_elements<T, kind>(by, streams, lines_end, count);
}

template <class T, Reduction kind>
void fold_all(double factor, std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs,
              std::int64_t count) {
  if constexpr (std::is_floating_point_v<T>) {
    fold_direct<T, kind>(factor, inputs, outputs, count);
  } else {
    fold_tiles<T, kind>(factor, inputs, outputs, count);
  }
}

using FoldFn = void (*)(double, std::span<const std::byte* const>, std::span<std::byte* const>, std::int64_t);

template <class T>
FoldFn fold_of(Reduction kind) {
  switch (kind) {
    case Reduction::kSum: return fold_all<T, Reduction::kSum>;
    case Reduction::kAvg: return fold_all<T, Reduction::kAvg>;
    case Reduction::kMin: return fold_all<T, Reduction::kMin>;
    case Reduction::kMax: return fold_all<T, Reduction::kMax>;
    case Reduction::kProd: return fold_all<T, Reduction::kProd>;
    case Reduction::kPremultiply: return fold_all<T, Reduction::kPremultiply>;
    case Reduction::kBitAnd: return fold_all<T, Reduction::kBitAnd>;
    case Reduction::kBitOr: return fold_all<T, Reduction::kBitOr>;
    case Reduction::kBitXor: return fold_all<T, Reduction::kBitXor>;
  }
  return nullptr;
}

FoldFn fold_of(DType dtype, Reduction kind) {
  switch (dtype) {
    case DType::kF64:
    case DType::kC128: return fold_of<double>(kind);
    case DType::kF32:
    case DType::kC64: return fold_of<float>(kind);
    case DType::kF16: return fold_of<f16>(kind);
    case DType::kBF16: return fold_of<bf16>(kind);
    case DType::kI64: return fold_of<std::int64_t>(kind);
    case DType::kI32: return fold_of<std::int32_t>(kind);
    case DType::kI16: return fold_of<std::int16_t>(kind);
    case DType::kI8: return fold_of<std::int8_t>(kind);
    case DType::kU64: return fold_of<std::uint64_t>(kind);
    case DType::kU32: return fold_of<std::uint32_t>(kind);
    case DType::kU16: return fold_of<std::uint16_t>(kind);
    case DType::kU8:
    case DType::kBool: return fold_of<std::uint8_t>(kind);
    case DType::kF8E4M3:
    case DType::kF8E5M2: break;
  }
  return nullptr;
}

bool is_bitwise(Reduction kind) {
  return kind == Reduction::kBitAnd || kind == Reduction::kBitOr || kind == Reduction::kBitXor;
}

}  // namespace

bool can_reduce(DType dtype, Reduction kind) {
  if (dtype == DType::kF8E4M3 || dtype == DType::kF8E5M2) return false;
  if (is_complex(dtype)) return kind == Reduction::kSum || kind == Reduction::kAvg;
  if (is_floating(dtype)) return !is_bitwise(kind);
  if (dtype == DType::kBool) {
    return is_bitwise(kind) || kind == Reduction::kMin || kind == Reduction::kMax || kind == Reduction::kProd;
  }
  return kind != Reduction::kPremultiply;
}

void fold(DType dtype, const ReduceOp& reduction, std::span<const std::byte* const> inputs,
          std::span<std::byte* const> outputs, std::int64_t count) {
  TESSERA_CHECK(can_reduce(dtype, reduction.kind), "fold: dtype must be one that ", to_string(reduction.kind),
                " is defined for, got ", to_string(dtype));
  TESSERA_CHECK(!inputs.empty() && count >= 0, "fold: requires at least one input and count >= 0, got ", inputs.size(),
                " inputs of ", count, " elements");
  const std::int64_t parts = is_complex(dtype) ? 2 : 1;
  fold_of(dtype, reduction.kind)(reduction.factor, inputs, outputs, count * parts);
}

}  // namespace tessera::comm
