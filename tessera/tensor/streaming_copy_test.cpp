// Every start, end and size: copies exactly the requested bytes.
#include "tessera/tensor/detail/streaming_copy.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace tessera::tensor::detail {
namespace {

TEST(StreamingCopy, CopiesExactlyTheBytesAskedFor) {
  constexpr std::size_t kMax = (std::size_t{1} << 20) + 300;
  std::mt19937 random(1);
  std::vector<unsigned char> from(kMax + 200);
  for (auto& byte : from) byte = static_cast<unsigned char>(random());
  for (const std::size_t nbytes : {std::size_t{0}, std::size_t{1}, std::size_t{100}, kMax - 301, kMax - 300, kMax}) {
    for (const std::size_t out : {0, 1, 17, 63}) {
      const std::size_t in = random() % 100;
      std::vector<unsigned char> to(kMax + 200, 7);
      std::vector<unsigned char> expected = to;
      std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(in), nbytes,
                  expected.begin() + static_cast<std::ptrdiff_t>(out));
      streaming_copy(to.data() + out, from.data() + in, nbytes);
      EXPECT_TRUE(to == expected) << nbytes << " bytes from " << in << " to " << out;
    }
  }
}

}  // namespace
}  // namespace tessera::tensor::detail
