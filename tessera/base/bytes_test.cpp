// Parsing and formatting of sizes in bytes.
#include "tessera/base/bytes.h"

#include <gtest/gtest.h>

#include <limits>

#include "tessera/base/error.h"

namespace tessera {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();

TEST(Bytes, ReadsNumbersWithAndWithoutUnits) {
  EXPECT_EQ(parse_bytes("0"), 0u);
  EXPECT_EQ(parse_bytes("4096"), 4096u);
  EXPECT_EQ(parse_bytes("17B"), 17u);
  EXPECT_EQ(parse_bytes("32MiB"), 32 * kMiB);
  EXPECT_EQ(parse_bytes("32 MiB"), 32 * kMiB);
  EXPECT_EQ(parse_bytes("32m"), 32 * kMiB);
  EXPECT_EQ(parse_bytes("32MB"), 32'000'000u);
  EXPECT_EQ(parse_bytes("1kB"), 1000u);
  EXPECT_EQ(parse_bytes("1EiB"), std::uint64_t{1} << 60);
}

TEST(Bytes, ReadsFractionsExactlyAndCutsBytes) {
  EXPECT_EQ(parse_bytes("1.5GiB"), 1536 * kMiB);
  EXPECT_EQ(parse_bytes(".5K"), 512u);
  EXPECT_EQ(parse_bytes("2."), 2u);
  EXPECT_EQ(parse_bytes("1.999B"), 1u);
  EXPECT_EQ(parse_bytes("0.1MB"), 100'000u);  // not 99999, as a conversion through double might give
  EXPECT_EQ(parse_bytes("0.00000000000000000000001EiB"), 0u);
  EXPECT_EQ(parse_bytes("15.99999999999999999999999EiB"), kMax);
}

TEST(Bytes, RefusesWhatIsNoSize) {
  for (const char* text : {"", "MiB", ".", "-1", "+1", " 1", "1XiB", "1MiBs", "1.2.3", "0x10", "1i", "1e3", "nan"}) {
    EXPECT_THROW(parse_bytes(text), InvalidArgument) << text;
  }
}

TEST(Bytes, RefusesWhatDoesNotFit) {
  EXPECT_EQ(parse_bytes("18446744073709551615"), kMax);
  EXPECT_THROW(parse_bytes("18446744073709551616"), InvalidArgument);
  EXPECT_THROW(parse_bytes("16EiB"), InvalidArgument);
  EXPECT_THROW(parse_bytes("99999999999GiB"), InvalidArgument);
  EXPECT_THROW(parse_bytes("18446744073709551615.9KiB"), InvalidArgument);
}

TEST(Bytes, WritesTheLargestUnitWithTwoDecimals) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1 KiB");
  EXPECT_EQ(format_bytes(1536 * kMiB), "1.5 GiB");
  EXPECT_EQ(format_bytes(1280 * kMiB), "1.25 GiB");
  EXPECT_EQ(format_bytes(1024 * kMiB - 1), "1023.99 MiB");
  EXPECT_EQ(format_bytes(kMiB + kMiB / 20), "1.04 MiB");
  EXPECT_EQ(format_bytes(kMax), "15.99 EiB");
}

TEST(Bytes, ReadsBackWhatItWroteWhenThatWasExact) {
  for (std::uint64_t quarter = 1; quarter < 4096; ++quarter) {
    for (const int shift : {10, 20, 30, 40, 50}) {
      const std::uint64_t size = quarter << (shift - 2);
      EXPECT_EQ(parse_bytes(format_bytes(size)), size);
    }
  }
}

}  // namespace
}  // namespace tessera
