#include "tessera/ops/shape/detail/copy_elements.h"

#include <cstring>

#include "tessera/ops/detail/parallel.h"

namespace tessera::ops::detail {
namespace {

struct Bytes16 {
  std::uint64_t word[2];
};

// Calls body with a value of the unsigned type of this size.
template <class F>
void with_word(std::size_t nbytes, const F& body) {
  switch (nbytes) {
    case 1: return body(std::uint8_t{});
    case 2: return body(std::uint16_t{});
    case 4: return body(std::uint32_t{});
    case 8: return body(std::uint64_t{});
    default: return body(Bytes16{});
  }
}

}  // namespace

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

void ElementsCopy::run() const {
  const auto bytes = static_cast<std::int64_t>(nbytes);
  const std::int64_t inner = loop.inner();
  parallel_for(loop.rows(), rows_per_piece(inner), [&](std::int64_t begin, std::int64_t end) {
    loop.for_rows(begin, end, [&](const auto& at) {
      copy_row(to + at[0] * bytes, loop.step(0), from + at[1] * bytes, loop.step(1), nbytes, inner);
    });
  });
}

}  // namespace tessera::ops::detail
