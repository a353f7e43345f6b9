// Copies in every direction, strided copies, fills.
#include <numeric>

#include "tessera/device/suite/device_suite.h"

namespace tessera::device::suite {

namespace {

std::vector<int> counting(int count, int from = 0) {
  std::vector<int> made(static_cast<std::size_t>(count));
  std::iota(made.begin(), made.end(), from);
  return made;
}

}  // namespace

TEST_P(DeviceSuite, CopiesFromPlainHostMemoryToTheDeviceAndBack) {
  const DeviceInts a = ints(1000);
  const std::vector<int> source = counting(1000, 7);
  std::vector<int> back(1000);
  stream.copy(a.data, source.data(), a.nbytes());
  stream.copy(back.data(), a.data, a.nbytes());
  finish(stream);
  EXPECT_EQ(back, source);
}

TEST_P(DeviceSuite, CopiesFromPinnedMemoryToTheDeviceAndBack) {
  const DeviceInts a = ints(1000);
  int* source = pinned_ints(1000);
  int* back = pinned_ints(1000);
  std::iota(source, source + 1000, 3);
  stream.copy(a.data, source, a.nbytes());
  stream.copy(back, a.data, a.nbytes());
  finish(stream);
  EXPECT_TRUE(std::equal(source, source + 1000, back));
}

TEST_P(DeviceSuite, CopiesWithinTheDevice) {
  const DeviceInts a = ints(777, 5), b = ints(777);
  stream.copy(b.data, a.data, a.nbytes());
  finish(stream);
  EXPECT_EQ(read(b), all(777, 5));
}

TEST_P(DeviceSuite, CopiesBetweenHostPlaces) {
  const std::vector<int> source = counting(100);
  int* pinned = pinned_ints(100);
  std::vector<int> back(100);
  stream.copy(pinned, source.data(), 400);
  stream.copy(back.data(), pinned, 400);
  finish(stream);
  EXPECT_EQ(back, source);
}

TEST_P(DeviceSuite, CopiesTouchExactlyTheirBytes) {
  const DeviceInts a = ints(8, 1), b = ints(8, 2);
  stream.copy(b.data + 2, a.data + 2, 3 * sizeof(int));
  finish(stream);
  EXPECT_EQ(read(b), (std::vector<int>{2, 2, 1, 1, 1, 2, 2, 2}));
}

TEST_P(DeviceSuite, CopiesMayStartAtAnyByte) {
  const DeviceInts a = ints(4), b = ints(4);
  auto* from = reinterpret_cast<std::uint8_t*>(pinned_ints(4));
  for (int i = 0; i < 16; ++i) from[i] = static_cast<std::uint8_t>(i);
  stream.copy(a.data, from, 16);
  stream.copy(reinterpret_cast<std::byte*>(b.data) + 1, reinterpret_cast<std::byte*>(a.data) + 3, 5);
  finish(stream);
  const std::vector<int> got = read(b);
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(got.data());
  EXPECT_EQ(std::vector<int>(bytes, bytes + 7), (std::vector<int>{0, 3, 4, 5, 6, 7, 0}));
}

TEST_P(DeviceSuite, CopiesOfManyMegabytesArrive) {
  const std::size_t granule = device.properties().granularity;
  const std::size_t nbytes = (std::size_t{8 << 20} + granule - 1) / granule * granule;
  AddressRange range = device.reserve(nbytes);
  range.map(0, device.create_memory(nbytes));
  std::vector<int> source = counting(static_cast<int>(nbytes / sizeof(int))), back(source.size());
  stream.copy(range.data(), source.data(), nbytes);
  stream.copy(back.data(), range.data(), nbytes);
  finish(stream);
  EXPECT_TRUE(back == source);
}

TEST_P(DeviceSuite, CopyingNothingDoesNothing) {
  const DeviceInts a = ints(4, 1), b = ints(4, 2);
  stream.copy(b.data, a.data, 0);
  stream.copy_2d(b.data, 8, a.data, 8, 8, 0);
  stream.copy_2d(b.data, 8, a.data, 8, 0, 2);
  stream.fill(b.data, 9, 4, 0);
  finish(stream);
  EXPECT_EQ(read(b), all(4, 2));
}

TEST_P(DeviceSuite, CopiesWaitForTheWorkBeforeThem) {
  const DeviceInts a = ints(64);
  int* back = pinned_ints(64);
  const Hold held = hold(stream);
  fill(stream, a, 3);
  stream.copy(back, a.data, a.nbytes());
  add(stream, a, 1);
  EXPECT_TRUE(is_stuck(stream));
  EXPECT_EQ(back[0], 0);
  held.release();
  finish(stream);
  EXPECT_EQ(back[0], 3);
  EXPECT_EQ(back[63], 3);
}

TEST_P(DeviceSuite, StridedCopiesLeaveThePaddingAlone) {
  const DeviceInts a = ints(24), b = ints(30, -1);
  const std::vector<int> source = counting(24);
  stream.copy(a.data, source.data(), a.nbytes());
  // 4 rows of 3, out of rows of 6 into rows of 7
  stream.copy_2d(b.data, 7 * sizeof(int), a.data, 6 * sizeof(int), 3 * sizeof(int), 4);
  finish(stream);
  std::vector<int> expected = all(30, -1);
  for (std::size_t row = 0; row < 4; ++row)
    for (std::size_t column = 0; column < 3; ++column) expected[row * 7 + column] = static_cast<int>(row * 6 + column);
  EXPECT_EQ(read(b), expected);
}

TEST_P(DeviceSuite, StridedCopiesGoBetweenHostAndDevice) {
  const DeviceInts a = ints(16, -1);
  int* source = pinned_ints(8);
  int* back = pinned_ints(8);
  std::iota(source, source + 8, 0);
  stream.copy_2d(a.data, 4 * sizeof(int), source, 2 * sizeof(int), 2 * sizeof(int), 4);
  stream.copy_2d(back, 2 * sizeof(int), a.data, 4 * sizeof(int), 2 * sizeof(int), 4);
  finish(stream);
  EXPECT_TRUE(std::equal(source, source + 8, back));
  EXPECT_EQ(read(a), (std::vector<int>{0, 1, -1, -1, 2, 3, -1, -1, 4, 5, -1, -1, 6, 7, -1, -1}));
}

TEST_P(DeviceSuite, FillsWriteItemsOfOneTwoAndFourBytes) {
  const DeviceInts a = ints(3);
  auto* bytes = reinterpret_cast<std::uint8_t*>(a.data);
  stream.fill(bytes, 0xAB, 1, 4);
  stream.fill(bytes + 4, 0x1234, 2, 2);
  stream.fill(bytes + 8, 0x89ABCDEF, 4, 1);
  finish(stream);
  EXPECT_EQ(read(a), (std::vector<int>{static_cast<int>(0xABABABAB), 0x12341234, static_cast<int>(0x89ABCDEF)}));
}

TEST_P(DeviceSuite, FillsUseTheLowBytesOfThePattern) {
  const DeviceInts a = ints(2);
  stream.fill(a.data, 0x12345678, 1, 4);
  stream.fill(a.data + 1, 0x12345678, 2, 2);
  finish(stream);
  EXPECT_EQ(read(a), (std::vector<int>{0x78787878, 0x56785678}));
}

TEST_P(DeviceSuite, FillsTouchExactlyTheirItems) {
  const DeviceInts a = ints(6, 1);
  stream.fill(a.data + 1, 9, 4, 3);
  finish(stream);
  EXPECT_EQ(read(a), (std::vector<int>{1, 9, 9, 9, 1, 1}));
}

TEST_P(DeviceSuite, FillsWaitForTheWorkBeforeThem) {
  const DeviceInts a = ints(4, 1), b = ints(4);
  const Hold held = hold(stream);
  copy(stream, b, a);
  stream.fill(a.data, 5, 4, 4);
  EXPECT_TRUE(is_stuck(stream));
  EXPECT_EQ(read(a), all(4, 1));
  held.release();
  finish(stream);
  EXPECT_EQ(read(a), all(4, 5));
  EXPECT_EQ(read(b), all(4, 1));
}

}  // namespace tessera::device::suite
