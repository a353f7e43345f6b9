// Physical memory, reserved addresses, and mappings of memory at addresses.
#include <unistd.h>

#include <cstdlib>

#include "tessera/device/suite/device_suite.h"

namespace tessera::device::suite {

namespace {

DeviceInts first_ints(const AddressRange& range, std::size_t offset, int count = 16) {
  return {reinterpret_cast<int*>(range.data() + offset), count};
}

}  // namespace

TEST_P(DeviceSuite, MappedMemoryKeepsWhatIsWritten) {
  const std::size_t granule = device.properties().granularity;
  AddressRange range = device.reserve(4 * granule);
  EXPECT_EQ(range.nbytes(), 4 * granule);
  range.map(granule, device.create_memory(2 * granule));
  const DeviceInts low = first_ints(range, granule), high = first_ints(range, 3 * granule - 64);
  fill(stream, low, 1);
  fill(stream, high, 2);
  finish(stream);
  EXPECT_EQ(read(low), all(16, 1));
  EXPECT_EQ(read(high), all(16, 2));
}

TEST_P(DeviceSuite, MappedBytesAreCounted) {
  const std::size_t granule = device.properties().granularity;
  AddressRange range = device.reserve(4 * granule);
  EXPECT_EQ(range.mapped_nbytes(), 0U);
  range.map(0, device.create_memory(granule));
  range.map(2 * granule, device.create_memory(2 * granule));
  EXPECT_EQ(range.mapped_nbytes(), 3 * granule);
  range.unmap(0, granule);
  EXPECT_EQ(range.mapped_nbytes(), 2 * granule);
}

TEST_P(DeviceSuite, OneMemoryMappedAtTwoPlacesIsOne) {
  const std::size_t granule = device.properties().granularity;
  AddressRange range = device.reserve(2 * granule);
  const Memory memory = device.create_memory(granule);
  range.map(0, memory);
  range.map(granule, memory);
  fill(stream, first_ints(range, 0), 4);
  finish(stream);
  EXPECT_EQ(read(first_ints(range, granule)), all(16, 4));
}

TEST_P(DeviceSuite, MemoryMappedElsewhereKeepsItsContent) {
  const std::size_t granule = device.properties().granularity;
  AddressRange first = device.reserve(granule), second = device.reserve(2 * granule);
  const Memory memory = device.create_memory(granule);
  first.map(0, memory);
  fill(stream, first_ints(first, 0), 8);
  finish(stream);
  first.unmap(0, granule);
  second.map(granule, memory);
  EXPECT_EQ(read(first_ints(second, granule)), all(16, 8));
  EXPECT_EQ(first.mapped_nbytes(), 0U);
}

TEST_P(DeviceSuite, UnmappedAddressesCanTakeOtherMemory) {
  const std::size_t granule = device.properties().granularity;
  AddressRange range = device.reserve(granule);
  const Memory one = device.create_memory(granule), two = device.create_memory(granule);
  range.map(0, one);
  fill(stream, first_ints(range, 0), 1);
  finish(stream);
  range.unmap(0, granule);
  range.map(0, two);
  fill(stream, first_ints(range, 0), 2);
  finish(stream);
  range.unmap(0, granule);
  range.map(0, one);
  EXPECT_EQ(read(first_ints(range, 0)), all(16, 1));
}

TEST_P(DeviceSuite, MappingOverAMappingIsRefusedAndChangesNothing) {
  const std::size_t granule = device.properties().granularity;
  AddressRange range = device.reserve(4 * granule);
  range.map(granule, device.create_memory(granule));
  fill(stream, first_ints(range, granule), 5);
  finish(stream);
  expect_refused([&] { range.map(granule, device.create_memory(granule)); }, {"mapped"});
  expect_refused([&] { range.map(0, device.create_memory(2 * granule)); }, {"mapped"});
  EXPECT_EQ(range.mapped_nbytes(), granule);
  EXPECT_EQ(read(first_ints(range, granule)), all(16, 5));
}

TEST_P(DeviceSuite, UnalignedOffsetsAndSizesAreRefused) {
  const std::size_t granule = device.properties().granularity;
  AddressRange range = device.reserve(2 * granule);
  expect_refused([&] { range.map(granule / 2, device.create_memory(granule)); }, {std::to_string(granule)});
  expect_refused([&] { (void)device.create_memory(granule + 1); }, {std::to_string(granule)});
  expect_refused([&] { (void)device.reserve(granule - 1); }, {std::to_string(granule)});
  range.map(0, device.create_memory(granule));
  expect_refused([&] { range.unmap(1, granule); });
  expect_refused([&] { range.protect(0, granule / 2, Protection::kRead); });
  EXPECT_EQ(range.mapped_nbytes(), granule);
}

TEST_P(DeviceSuite, SizeZeroIsRefused) {
  expect_refused([&] { (void)device.create_memory(0); });
  expect_refused([&] { (void)device.reserve(0); });
  expect_refused([&] { (void)device.allocate_pinned(0); });
}

TEST_P(DeviceSuite, MappingOutsideTheReservationIsRefused) {
  const std::size_t granule = device.properties().granularity;
  AddressRange range = device.reserve(2 * granule);
  expect_refused([&] { range.map(2 * granule, device.create_memory(granule)); });
  expect_refused([&] { range.map(granule, device.create_memory(2 * granule)); });
  const std::size_t wraps = ~std::size_t{0} - granule + 1;
  expect_refused([&] { range.map(wraps, device.create_memory(2 * granule)); });
  expect_refused([&] { range.unmap(0, 4 * granule); });
  EXPECT_EQ(range.mapped_nbytes(), 0U);
}

TEST_P(DeviceSuite, UnmappingPartOfAMappingIsRefusedAndChangesNothing) {
  const std::size_t granule = device.properties().granularity;
  AddressRange range = device.reserve(4 * granule);
  range.map(0, device.create_memory(2 * granule));
  fill(stream, first_ints(range, 0), 3);
  finish(stream);
  expect_refused([&] { range.unmap(0, granule); }, {"complete mappings"});
  expect_refused([&] { range.unmap(granule, granule); }, {"complete mappings"});
  EXPECT_EQ(range.mapped_nbytes(), 2 * granule);
  EXPECT_EQ(read(first_ints(range, 0)), all(16, 3));
}

TEST_P(DeviceSuite, UnmappingWhatIsNotMappedIsRefused) {
  const std::size_t granule = device.properties().granularity;
  AddressRange range = device.reserve(3 * granule);
  expect_refused([&] { range.unmap(0, granule); });
  range.map(0, device.create_memory(granule));
  range.map(2 * granule, device.create_memory(granule));
  expect_refused([&] { range.unmap(0, 3 * granule); });  // a hole in the middle
  EXPECT_EQ(range.mapped_nbytes(), 2 * granule);
}

TEST_P(DeviceSuite, SeveralWholeMappingsAreUnmappedInOneCall) {
  const std::size_t granule = device.properties().granularity;
  AddressRange range = device.reserve(4 * granule);
  range.map(0, device.create_memory(granule));
  range.map(granule, device.create_memory(2 * granule));
  range.map(3 * granule, device.create_memory(granule));
  range.unmap(0, 3 * granule);
  EXPECT_EQ(range.mapped_nbytes(), granule);
  range.map(0, device.create_memory(3 * granule));
  EXPECT_EQ(range.mapped_nbytes(), 4 * granule);
}

TEST_P(DeviceSuite, MemoryLivesWhileItIsMapped) {
  const std::size_t granule = device.properties().granularity;
  const std::size_t own = device.memory_use().own_nbytes;
  AddressRange range = device.reserve(granule);
  Memory memory = device.create_memory(granule);
  range.map(0, memory);
  memory.reset();
  EXPECT_EQ(device.memory_use().own_nbytes, own + granule);
  fill(stream, first_ints(range, 0), 6);
  finish(stream);
  EXPECT_EQ(read(first_ints(range, 0)), all(16, 6));
  range.unmap(0, granule);
  EXPECT_EQ(device.memory_use().own_nbytes, own);
}

TEST_P(DeviceSuite, MemoryGoesBackWithItsLastHandle) {
  const std::size_t granule = device.properties().granularity;
  const MemoryUse before = device.memory_use();
  {
    const Memory memory = device.create_memory(3 * granule);
    EXPECT_EQ(memory.nbytes(), 3 * granule);
    EXPECT_EQ(device.memory_use().own_nbytes, before.own_nbytes + 3 * granule);
    EXPECT_LE(device.memory_use().free_nbytes, device.memory_use().total_nbytes);
    const MemoryUse use = device.memory_use();
    EXPECT_GE(use.process_nbytes.value_or(use.own_nbytes), use.own_nbytes);
  }
  EXPECT_EQ(device.memory_use().own_nbytes, before.own_nbytes);
}

TEST_P(DeviceSuite, TheEndOfARangeUnmapsWhatIsMapped) {
  const std::size_t granule = device.properties().granularity;
  const std::size_t own = device.memory_use().own_nbytes;
  {
    AddressRange range = device.reserve(2 * granule);
    range.map(0, device.create_memory(granule));
    range.map(granule, device.create_memory(granule));
  }
  EXPECT_EQ(device.memory_use().own_nbytes, own);
}

TEST_P(DeviceSuite, AMovedRangeKeepsItsMappings) {
  const std::size_t granule = device.properties().granularity;
  AddressRange first = device.reserve(granule);
  first.map(0, device.create_memory(granule));
  std::byte* address = first.data();
  AddressRange second = std::move(first);
  EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): what a moved-from range is, is the point
  EXPECT_EQ(second.data(), address);
  EXPECT_EQ(second.mapped_nbytes(), granule);
  fill(stream, first_ints(second, 0), 2);
  finish(stream);
}

TEST_P(DeviceSuite, ReservationsHonourTheirAlignment) {
  const std::size_t granule = device.properties().granularity;
  for (std::size_t alignment : {std::size_t{0}, granule, 4 * granule, 16 * granule}) {
    const AddressRange range = device.reserve(granule, alignment);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(range.data()) % std::max(alignment, granule), 0U);
  }
  expect_refused([&] { (void)device.reserve(granule, 3 * granule); }, {"power of two"});
  expect_refused([&] { (void)device.reserve(granule, granule / 2); });
}

TEST_P(DeviceSuite, ReservationsDoNotOverlap) {
  const std::size_t granule = device.properties().granularity;
  const AddressRange first = device.reserve(4 * granule), second = device.reserve(4 * granule);
  const std::byte *a = first.data(), *b = second.data();
  EXPECT_TRUE(a + 4 * granule <= b || b + 4 * granule <= a);
}

TEST_P(DeviceSuite, ReservingAddressesTakesNoMemory) {
  const std::size_t granule = device.properties().granularity;
  const MemoryUse before = device.memory_use();
  const AddressRange range = device.reserve(1024 * granule);
  EXPECT_EQ(device.memory_use().own_nbytes, before.own_nbytes);
}

TEST_P(DeviceSuite, OutOfMemorySaysHowMuchAndLeavesTheDeviceUsable) {
  const std::size_t granule = device.properties().granularity;
  const MemoryUse before = device.memory_use();
  const std::size_t too_much = (before.total_nbytes / granule + 1) * granule;
  expect_error<OutOfMemory>([&] { (void)device.create_memory(too_much); }, {std::to_string(too_much)});
  EXPECT_EQ(device.memory_use().own_nbytes, before.own_nbytes);
  const Memory memory = device.create_memory(granule);
  EXPECT_EQ(memory.nbytes(), granule);
}

TEST_P(DeviceSuite, ALimitIsReachedExactly) {
  const std::size_t granule = device.properties().granularity;
  const Device limited = subject().limited_device(4 * granule);
  if (!limited) GTEST_SKIP() << "devices of this kind have no limit to set";
  EXPECT_EQ(limited.memory_use().total_nbytes, 4 * granule);
  const Memory most = limited.create_memory(3 * granule);
  EXPECT_EQ(limited.memory_use().free_nbytes, granule);
  expect_error<OutOfMemory>([&] { (void)limited.create_memory(2 * granule); }, {std::to_string(2 * granule)});
  Memory last = limited.create_memory(granule);
  EXPECT_EQ(limited.memory_use().free_nbytes, 0U);
  expect_error<OutOfMemory>([&] { (void)limited.create_memory(granule); });
  last.reset();
  EXPECT_EQ(limited.create_memory(granule).nbytes(), granule);
}

TEST_P(DeviceSuite, NewMemoryHoldsZerosWhereThatIsPromised) {
  if (!traits().zeroes_memory) GTEST_SKIP() << "new memory of this device holds anything";
  const std::size_t granule = device.properties().granularity;
  for (int i = 0; i < 3; ++i) {
    AddressRange range = device.reserve(granule);
    range.map(0, device.create_memory(granule));
    EXPECT_EQ(read(first_ints(range, 0)), all(16, 0));
    fill(stream, first_ints(range, 0), 9);
    finish(stream);
  }
}

TEST_P(DeviceSuite, ProtectionCanBeTakenBack) {
  const std::size_t granule = device.properties().granularity;
  AddressRange range = device.reserve(2 * granule);
  range.map(0, device.create_memory(granule));
  range.map(granule, device.create_memory(granule));
  const DeviceInts low = first_ints(range, 0), high = first_ints(range, granule);
  fill(stream, low, 1);
  finish(stream);
  range.protect(0, granule, Protection::kRead);
  EXPECT_EQ(read(low), all(16, 1));
  fill(stream, high, 2);  // the other mapping is unchanged
  finish(stream);
  range.protect(0, granule, Protection::kNone);
  range.protect(0, granule, Protection::kReadWrite);
  add(stream, low, 1);
  finish(stream);
  EXPECT_EQ(read(low), all(16, 2));
  EXPECT_EQ(read(high), all(16, 2));
}

TEST_P(DeviceSuite, ProtectingPartOfAMappingIsRefused) {
  const std::size_t granule = device.properties().granularity;
  AddressRange range = device.reserve(3 * granule);
  range.map(0, device.create_memory(2 * granule));
  expect_refused([&] { range.protect(0, granule, Protection::kRead); }, {"complete mappings"});
  expect_refused([&] { range.protect(2 * granule, granule, Protection::kRead); });
  fill(stream, first_ints(range, 0), 1);
  finish(stream);
}

namespace {

// Exit codes of the children below. They access memory without permission, so they end by a signal or report an error.
constexpr int kRefused = 70;
constexpr int kSurvived = 71;
constexpr int kWrongBefore = 72;

void expect_died(const ChildEnd& end) {
  EXPECT_NE(end.exit_code, 0) << end.output;
  EXPECT_NE(end.exit_code, kSurvived) << "the forbidden access went through\n" << end.output;
  EXPECT_NE(end.exit_code, kWrongBefore) << end.output;
  EXPECT_NE(end.exit_code, 127) << "the child did not start";
}

}  // namespace

TEST_P(DeviceSuite, WritingToReadOnlyMemoryIsAFault) {
  if (!is_child()) return expect_died(run_child());
  const std::size_t granule = device.properties().granularity;
  AddressRange range = device.reserve(granule);
  range.map(0, device.create_memory(granule));
  const DeviceInts values = first_ints(range, 0), target = ints(16);
  fill(stream, values, 1);
  finish(stream);
  range.protect(0, granule, Protection::kRead);
  copy(stream, target, values);
  finish(stream);
  if (read(target) != all(16, 1)) ::_exit(kWrongBefore);
  try {
    fill(stream, values, 2);
    finish(stream);
  } catch (const std::exception&) {
    ::_exit(kRefused);
  }
  ::_exit(kSurvived);
}

TEST_P(DeviceSuite, TouchingUnmappedMemoryIsAFault) {
  if (!is_child()) return expect_died(run_child());
  const std::size_t granule = device.properties().granularity;
  AddressRange range = device.reserve(granule);
  const Memory memory = device.create_memory(granule);
  range.map(0, memory);
  const DeviceInts values = first_ints(range, 0);
  fill(stream, values, 1);
  finish(stream);
  range.unmap(0, granule);
  try {
    fill(stream, values, 2);
    finish(stream);
  } catch (const std::exception&) {
    ::_exit(kRefused);
  }
  ::_exit(kSurvived);
}

TEST_P(DeviceSuite, PinnedMemoryIsSeenByHostAndDevice) {
  PinnedMemory pinned = device.allocate_pinned(100);
  EXPECT_EQ(pinned.nbytes(), 100U);
  auto* data = reinterpret_cast<int*>(pinned.data());
  data[0] = 20;
  add(stream, {data, 1}, 22);
  finish(stream);
  EXPECT_EQ(data[0], 42);
  PinnedMemory moved = std::move(pinned);
  EXPECT_FALSE(pinned);  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(reinterpret_cast<int*>(moved.data())[0], 42);
}

TEST_P(DeviceSuite, MemoryOfAnotherDeviceIsNotMapped) {
  const Device peer = subject().peer();
  if (!peer) GTEST_SKIP() << "one device of this kind";
  const std::size_t granule = device.properties().granularity;
  AddressRange range = device.reserve(granule);
  expect_refused([&] { range.map(0, peer.create_memory(granule)); }, {"device"});
  EXPECT_EQ(range.mapped_nbytes(), 0U);
}

TEST_P(DeviceSuite, MappedAndPinnedMemoryIsCapturable) {
  const std::size_t granule = device.properties().granularity;
  AddressRange range = device.reserve(granule);
  range.map(0, device.create_memory(granule));
  EXPECT_TRUE(device.is_capturable(range.data()));
  EXPECT_TRUE(device.is_capturable(device.allocate_pinned(8).data()));
  EXPECT_EQ(device.is_capturable(&granule), device.properties().kind != "cuda") << "pageable memory";
}

TEST_P(DeviceSuite, APeerCanBeGivenAccess) {
  EXPECT_TRUE(device.can_share_with(device));
  const Device peer = subject().peer();
  if (!peer || !device.can_share_with(peer)) GTEST_SKIP() << "no device to share with";
  const std::size_t granule = device.properties().granularity;
  AddressRange range = device.reserve(granule);
  range.map(0, device.create_memory(granule));
  expect_refused([&] { range.share_with(peer, 0, 2 * granule, Protection::kReadWrite); });
  range.share_with(peer, 0, granule, Protection::kReadWrite);
  const Stream there = peer.create_stream();
  there.fill(range.data(), 9, 4, 16);
  finish(there);
  EXPECT_EQ(read(first_ints(range, 0)), all(16, 9));
}

}  // namespace tessera::device::suite
