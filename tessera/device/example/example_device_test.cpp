#include "tessera/device/example/example_device.h"

#include <gtest/gtest.h>

#include <cstring>
#include <stdexcept>

#include "tessera/base/error.h"

namespace tessera::device::example {
namespace {

TEST(ExampleDevice, RunsWorkInOrder) {
  const Device device = make_example_device();
  const Stream stream = device.create_stream();
  PinnedMemory memory = device.allocate_pinned(64);
  stream.fill(memory.data(), 0x5a, 1, 64);
  int seen = 0;
  stream.run([&] { seen = std::to_integer<int>(memory.data()[63]); });
  stream.synchronize();
  EXPECT_EQ(seen, 0x5a);
}

TEST(ExampleDevice, ParksErrorsUntilTheNextWait) {
  const Device device = make_example_device();
  const Stream stream = device.create_stream();
  stream.run([] { throw std::runtime_error("broken"); });
  EXPECT_THROW(stream.synchronize(), std::runtime_error);
  EXPECT_THROW(stream.synchronize(), std::runtime_error);
  stream.reset_error();
  stream.synchronize();
}

TEST(ExampleDevice, OrdersByTheCommonClocks) {
  const Device device = make_example_device();
  const Stream one = device.create_stream();
  const Stream two = device.create_stream();
  const Event event = device.create_event();
  const Tick before = one.stamp();
  one.record(event);
  const Tick after = one.stamp();
  two.wait(event);
  EXPECT_TRUE(two.covers(one.id(), before));
  EXPECT_FALSE(two.covers(one.id(), after));
}

TEST(ExampleDevice, SaysWhatItCannotDo) {
  const Device device = make_example_device();
  EXPECT_THROW(device.create_stream().begin_capture(), NotSupported);
  EXPECT_THROW(static_cast<void>(device.create_memory(4096)), NotSupported);
}

}  // namespace
}  // namespace tessera::device::example
