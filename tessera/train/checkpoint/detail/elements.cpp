#include "tessera/train/checkpoint/detail/elements.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "tessera/base/error.h"
#include "tessera/base/half_floats.h"

namespace tessera::train::detail {
namespace {

constexpr std::int64_t kBlock = 2048;  // elements that are converted by way of f32, in the cache

// Reads elements of a float type from bytes of any alignment.
void to_f32(float* to, const std::byte* from, DType dtype, std::int64_t count) {
  switch (dtype) {
    case DType::kF32: std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(float)); return;
    case DType::kF16: tessera::detail::widen(to, reinterpret_cast<const f16*>(from), count); return;
    case DType::kBF16: tessera::detail::widen(to, reinterpret_cast<const bf16*>(from), count); return;
    case DType::kF64:
      for (std::int64_t i = 0; i < count; ++i) {
        double value = 0;
        std::memcpy(&value, from + i * 8, sizeof value);
        to[i] = static_cast<float>(value);
      }
      return;
    default: TESSERA_THROW(InvalidArgument, "convert: dtype must be f64, f32, f16 or bf16, got ", dtype);
  }
}

void from_f32(std::byte* to, DType dtype, const float* from, std::int64_t count) {
  switch (dtype) {
    case DType::kF32: std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(float)); return;
    case DType::kF16: tessera::detail::narrow(reinterpret_cast<f16*>(to), from, count); return;
    case DType::kBF16: tessera::detail::narrow(reinterpret_cast<bf16*>(to), from, count); return;
    case DType::kF64:
      for (std::int64_t i = 0; i < count; ++i) {
        const double value = from[i];
        std::memcpy(to + i * 8, &value, sizeof value);
      }
      return;
    default: TESSERA_THROW(InvalidArgument, "convert: dtype must be f64, f32, f16 or bf16, got ", dtype);
  }
}

// Calls `move(index in the tensor, index in the parameter, run)` for the runs of elements first to first + count of the
// parameter. A transposed run has one element.
template <class Move>
void for_each_run(const ShareOfTensor& share, std::int64_t last, std::int64_t first, std::int64_t count,
                  const Move& move) {
  const std::int64_t columns = last / share.count;
  const std::int64_t begin = share.index * columns;
  if (!share.is_transposed) {
    for (std::int64_t at = first; at < first + count;) {
      const std::int64_t row = at / columns;
      const std::int64_t column = at % columns;
      const std::int64_t run = std::min(columns - column, first + count - at);
      move(row * last + begin + column, at, run);
      at += run;
    }
    return;
  }
  const std::int64_t rows = share.shape[0];  // length of a row of the parameter
  for (std::int64_t at = first; at < first + count; ++at) move(at % rows * last + begin + at / rows, at, 1);
}

}  // namespace

bool is_convertible(DType dtype) {
  return dtype == DType::kF64 || dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
}

void convert(std::byte* to, DType to_dtype, const std::byte* from, DType from_dtype, std::int64_t count) {
  if (to_dtype == from_dtype) {
    std::memcpy(to, from, static_cast<std::size_t>(count) * itemsize(to_dtype));
    return;
  }
  if (to_dtype == DType::kF32) return to_f32(reinterpret_cast<float*>(to), from, from_dtype, count);
  std::array<float, kBlock> block;
  for (std::int64_t at = 0; at < count; at += kBlock) {
    const std::int64_t size = std::min(kBlock, count - at);
    to_f32(block.data(), from + static_cast<std::size_t>(at) * itemsize(from_dtype), from_dtype, size);
    from_f32(to + static_cast<std::size_t>(at) * itemsize(to_dtype), to_dtype, block.data(), size);
  }
}

ShareReader::ShareReader(ShareOfTensor share, const std::byte* elements, DType dtype, DType to)
    : share_(std::move(share)), elements_(elements), dtype_(dtype), to_(to) {
  if (share_.shape.ndim() > 0) last_ = share_.shape.dim(-1);
  columns_ = last_ / share_.count;
}

// Returns elements of the parameter, dense: those of the tensor if they are dense there.
const std::byte* ShareReader::gathered(std::int64_t first, std::int64_t count) {
  const std::size_t item = itemsize(dtype_);
  if (!share_.is_transposed && (share_.count == 1 || share_.shape.ndim() <= 1))
    return elements_ + static_cast<std::size_t>(share_.index * columns_ + first) * item;
  gathered_.resize(static_cast<std::size_t>(count) * item);
  for_each_run(share_, last_, first, count, [&](std::int64_t from, std::int64_t to, std::int64_t run) {
    std::memcpy(gathered_.data() + static_cast<std::size_t>(to - first) * item,
                elements_ + static_cast<std::size_t>(from) * item, static_cast<std::size_t>(run) * item);
  });
  return gathered_.data();
}

std::span<const std::byte> ShareReader::read(std::uint64_t offset, std::size_t nbytes) {
  const std::size_t item = itemsize(to_);
  const auto first = static_cast<std::int64_t>(offset / item);
  const auto count = static_cast<std::int64_t>(nbytes / item);
  const std::byte* elements = gathered(first, count);
  if (to_ == dtype_) return {elements, nbytes};
  converted_.resize(nbytes);
  convert(converted_.data(), to_, elements, dtype_, count);
  return converted_;
}

void put_share(const ShareOfTensor& share, std::byte* tensor, const std::byte* parameter, std::size_t item) {
  const std::int64_t last = share.shape.ndim() > 0 ? share.shape.dim(-1) : 1;
  for_each_run(share, last, 0, share.shape.numel() / share.count,
               [&](std::int64_t to, std::int64_t from, std::int64_t run) {
                 std::memcpy(tensor + static_cast<std::size_t>(to) * item,
                             parameter + static_cast<std::size_t>(from) * item, static_cast<std::size_t>(run) * item);
               });
}

}  // namespace tessera::train::detail
