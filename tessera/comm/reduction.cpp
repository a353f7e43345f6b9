// A tile at a time: the first input is loaded into the accumulator, each further one is folded in, the result is
// rounded into every output. Loops over tiles have a constant length, which is what makes the compiler use vectors.
#include "tessera/comm/reduction.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "tessera/base/detail/half_floats.h"
#include "tessera/base/error.h"

namespace tessera::comm {
namespace {

constexpr std::int64_t kTile = 1024;

template <class T>
inline constexpr bool kIsHalf = std::is_same_v<T, bf16> || std::is_same_v<T, f16>;

// Integers are accumulated in 64 bits, which keeps the low bits exact and avg from overflowing early.
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

// Sums and products of integers wrap, also signed ones.
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

template <ReduceKind kind, class A>
A combine(A a, A b) {
  if constexpr (kind == ReduceKind::kProd) return wrapped(a, b, true);
  // A nan compares false with everything, so that it takes the place of a number and keeps it.
  if constexpr (kind == ReduceKind::kMin) return b < a || b != b ? b : a;
  if constexpr (kind == ReduceKind::kMax) return b > a || b != b ? b : a;
  if constexpr (std::is_integral_v<A>) {
    if constexpr (kind == ReduceKind::kBitAnd) return a & b;
    if constexpr (kind == ReduceKind::kBitOr) return a | b;
    if constexpr (kind == ReduceKind::kBitXor) return a ^ b;
  }
  return wrapped(a, b, false);
}

template <class T, ReduceKind kind>
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
    if constexpr (kind == ReduceKind::kPremultiply) {
      for (A& value : sum) value *= by;
    }
    for (const std::byte* input : inputs.subspan(1)) {
      load<T>(next, reinterpret_cast<const T*>(input) + at, n);
      for (std::int64_t i = 0; i < kTile; ++i) {
        A value = next[i];
        if constexpr (kind == ReduceKind::kPremultiply) value *= by;
        sum[i] = combine<kind>(sum[i], value);
      }
    }
    if constexpr (kind == ReduceKind::kAvg) {
      for (A& value : sum) value /= ranks;
    }
    for (std::byte* output : outputs) store<T>(reinterpret_cast<T*>(output) + at, sum, n);
  }
}

using FoldFn = void (*)(double, std::span<const std::byte* const>, std::span<std::byte* const>, std::int64_t);

template <class T>
FoldFn fold_of(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::kSum: return fold_tiles<T, ReduceKind::kSum>;
    case ReduceKind::kAvg: return fold_tiles<T, ReduceKind::kAvg>;
    case ReduceKind::kMin: return fold_tiles<T, ReduceKind::kMin>;
    case ReduceKind::kMax: return fold_tiles<T, ReduceKind::kMax>;
    case ReduceKind::kProd: return fold_tiles<T, ReduceKind::kProd>;
    case ReduceKind::kPremultiply: return fold_tiles<T, ReduceKind::kPremultiply>;
    case ReduceKind::kBitAnd: return fold_tiles<T, ReduceKind::kBitAnd>;
    case ReduceKind::kBitOr: return fold_tiles<T, ReduceKind::kBitOr>;
    case ReduceKind::kBitXor: return fold_tiles<T, ReduceKind::kBitXor>;
  }
  return nullptr;
}

FoldFn fold_of(DType dtype, ReduceKind kind) {
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

bool is_bitwise(ReduceKind kind) {
  return kind == ReduceKind::kBitAnd || kind == ReduceKind::kBitOr || kind == ReduceKind::kBitXor;
}

}  // namespace

std::string_view to_string(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::kSum: return "sum";
    case ReduceKind::kAvg: return "avg";
    case ReduceKind::kMin: return "min";
    case ReduceKind::kMax: return "max";
    case ReduceKind::kProd: return "prod";
    case ReduceKind::kBitAnd: return "band";
    case ReduceKind::kBitOr: return "bor";
    case ReduceKind::kBitXor: return "bxor";
    case ReduceKind::kPremultiply: return "premultiplied sum";
  }
  return "no reduction";
}

bool can_reduce(DType dtype, ReduceKind kind) {
  if (dtype == DType::kF8E4M3 || dtype == DType::kF8E5M2) return false;
  if (is_complex(dtype)) return kind == ReduceKind::kSum || kind == ReduceKind::kAvg;
  if (is_floating(dtype)) return !is_bitwise(kind);
  if (dtype == DType::kBool) {
    return is_bitwise(kind) || kind == ReduceKind::kMin || kind == ReduceKind::kMax || kind == ReduceKind::kProd;
  }
  return kind != ReduceKind::kPremultiply;
}

void fold(DType dtype, const Reduction& reduction, std::span<const std::byte* const> inputs,
          std::span<std::byte* const> outputs, std::int64_t count) {
  TESSERA_CHECK(can_reduce(dtype, reduction.kind), "values of ", to_string(dtype), " have no ",
                to_string(reduction.kind));
  TESSERA_CHECK(!inputs.empty() && count >= 0, "a fold of ", inputs.size(), " inputs of ", count, " elements");
  const std::int64_t parts = is_complex(dtype) ? 2 : 1;
  fold_of(dtype, reduction.kind)(reduction.factor, inputs, outputs, count * parts);
}

}  // namespace tessera::comm
