// Every start, end and size: copies exactly the requested bytes.
#include "tessera/base/streaming_copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace tessera::detail {
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

TEST(StreamingCopy, StreamsFromTheSizeAskedFor) {
  std::vector<unsigned char> from(300);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<unsigned char>(i);
  for (std::size_t nbytes = 0; nbytes <= 250; ++nbytes) {
    std::vector<unsigned char> to(300, 255);
    streaming_copy(to.data() + 3, from.data() + 1, nbytes, 0);
    EXPECT_TRUE(std::equal(to.begin() + 3, to.begin() + 3 + static_cast<std::ptrdiff_t>(nbytes), from.begin() + 1));
    EXPECT_EQ(to[2], 255);
    EXPECT_EQ(to[3 + nbytes], 255);
  }
}

}  // namespace
}  // namespace tessera::detail
