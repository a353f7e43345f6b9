#include "tessera/ops/shape/detail/copy_elements.h"

#include <cstring>

#include "tessera/ops/detail/elements.h"
#include "tessera/ops/detail/rows_per_piece.h"
#include "tessera/ops/parallel.h"

namespace tessera::ops::detail {
void copy_row(std::byte* to, std::int64_t to_step, const std::byte* from, std::int64_t from_step, std::size_t nbytes,
              std::int64_t n) {
  if (n <= 0) return;
  if (to_step == 1 && from_step == 1) {
    std::memcpy(to, from, static_cast<std::size_t>(n) * nbytes);
    return;
  }
  with_word(nbytes, [&](auto word) {
    using Word = decltype(word);
    auto* out = reinterpret_cast<Word*>(to);
    const auto* in = reinterpret_cast<const Word*>(from);
    for (std::int64_t i = 0; i < n; ++i) out[i * to_step] = in[i * from_step];
  });
}

void fill_row(std::byte* to, std::int64_t step, const std::byte* value, std::size_t nbytes, std::int64_t n) {
  with_word(nbytes, [&](auto word) {
    std::memcpy(&word, value, sizeof word);
    auto* out = reinterpret_cast<decltype(word)*>(to);
    for (std::int64_t i = 0; i < n; ++i) out[i * step] = word;
  });
}

ElementsCopy whole_copy(const Tensor& to, const Tensor& from) {
  ElementsCopy copy;
  for (std::size_t d = 0; d < to.shape().size(); ++d) {
    copy.loop.add(to.shape()[d], {to.strides()[d], from.strides()[d]});
  }
  copy.loop.collapse();
  copy.to = to.data();
  copy.from = from.data();
  copy.nbytes = itemsize(to.dtype());
  return copy;
}

std::array<std::byte, 16> element_of(const Scalar& value, DType dtype) {
  std::array<std::byte, 16> element{};
  with_element_type(dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    T converted{};
    if (value.kind() == Scalar::Kind::kComplex) {
      converted = convert<T>(value.as_complex());
    } else if (value.kind() == Scalar::Kind::kFloating) {
      converted = convert<T>(value.as_double());
    } else {
      converted = convert<T>(value.as_int64());
    }
    std::memcpy(element.data(), &converted, sizeof converted);
  });
  return element;
}

void ElementsCopy::fill(const std::byte* value) const {
  const auto bytes = static_cast<std::int64_t>(nbytes);
  const std::int64_t inner = loop.inner();
  if (inner == 0) return;
  parallel_for(loop.rows(), rows_per_piece(inner), [&](std::int64_t begin, std::int64_t end) {
    loop.for_rows(begin, end,
                  [&](const auto& at) { fill_row(to + at[0] * bytes, loop.step(0), value, nbytes, inner); });
  });
}

void ElementsCopy::run() const {
  const auto bytes = static_cast<std::int64_t>(nbytes);
  const std::int64_t inner = loop.inner();
  if (inner == 0) return;  // the memory may be null, and an empty flip would start before it
  parallel_for(loop.rows(), rows_per_piece(inner), [&](std::int64_t begin, std::int64_t end) {
    loop.for_rows(begin, end, [&](const auto& at) {
      copy_row(to + at[0] * bytes, loop.step(0), from + at[1] * bytes, loop.step(1), nbytes, inner);
    });
  });
}

}  // namespace tessera::ops::detail
