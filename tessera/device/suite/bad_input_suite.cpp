// Bad input causes a clear error and changes nothing.
#include <array>

#include "tessera/device/host/host_device.h"
#include "tessera/device/suite/device_suite.h"

namespace tessera::device::suite {

namespace {

Device stranger() { return host::make_host_device({.mode = host::Mode::kThreaded, .name = "stranger"}); }

}  // namespace

TEST_P(DeviceSuite, AnUnknownDeviceListsThoseThereAre) {
  expect_refused([] { (void)Device::get("abacus"); }, {"abacus", "host"});
  expect_refused([] { (void)Device::get("host:77"); }, {"host:77", "devices: host"});
  expect_refused([] { (void)Device::get(""); }, {"host"});
}

TEST_P(DeviceSuite, TheDeviceSaysWhatItIs) {
  const DeviceProperties& properties = device.properties();
  EXPECT_FALSE(device.name().empty());
  EXPECT_FALSE(properties.kind.empty());
  EXPECT_FALSE(properties.description.empty());
  EXPECT_GT(properties.memory_nbytes, 0U);
  EXPECT_GT(properties.granularity, 0U);
  EXPECT_EQ(properties.granularity & (properties.granularity - 1), 0U);
  EXPECT_GT(properties.multiprocessors, 0);
  EXPECT_EQ(Device::all().front().properties().kind, "host");
}

TEST_P(DeviceSuite, CallsOnAnEmptyStreamAreRefused) {
  const Stream none;
  EXPECT_FALSE(none);
  int value = 0;
  expect_refused([&] { none.run([] {}); }, {"Stream must not be empty", "create_stream"});
  expect_refused([&] { none.copy(&value, &value, 4); }, {"Stream must not be empty"});
  expect_refused([&] { none.synchronize(); }, {"Stream must not be empty"});
  expect_refused([&] { none.record(device.create_event()); }, {"Stream must not be empty"});
  expect_refused([&] { none.begin_capture(); }, {"Stream must not be empty"});
  expect_refused([&] { (void)none.stamp(); }, {"Stream must not be empty"});
}

TEST_P(DeviceSuite, EmptyEventsAreRefused) {
  const Event none;
  expect_refused([&] { stream.record(none); }, {"Event must not be empty"});
  expect_refused([&] { stream.wait(none); }, {"Event must not be empty"});
  expect_refused([&] { stream.note_wait(none); }, {"Event must not be empty"});
  expect_refused([&] { none.synchronize(); }, {"Event must not be empty"});
  expect_refused([&] { (void)none.query(); }, {"Event must not be empty"});
  finish(stream);
}

TEST_P(DeviceSuite, EmptyKernelsFunctionsAndGraphsAreRefused) {
  expect_refused([&] { stream.launch(Kernel(), {}, KernelArgs()); }, {"Kernel must not be empty"});
  expect_refused([&] { stream.run(HostFunction()); }, {"function must not be empty"});
  expect_refused([&] { GraphExec().launch(stream); }, {"GraphExec must not be empty"});
  expect_refused([&] { (void)Graph().instantiate(); }, {"Graph must not be empty"});
  expect_refused([&] { (void)Module().kernel("x"); }, {"Module must not be empty"});
  finish(stream);
}

TEST_P(DeviceSuite, EmptyDevicesAndMemoryAreRefused) {
  const Device none;
  expect_refused([&] { (void)none.create_stream(); }, {"Device must not be empty"});
  expect_refused([&] { (void)none.create_memory(4096); }, {"Device must not be empty"});
  expect_refused([&] { (void)Memory().export_handle(); }, {"Memory must not be empty"});
  AddressRange range = device.reserve(device.properties().granularity);
  expect_refused([&] { range.map(0, Memory()); }, {"Memory must not be empty"});
  AddressRange empty;
  expect_refused([&] { empty.unmap(0, 4096); }, {"AddressRange must not be empty"});
}

TEST_P(DeviceSuite, AnEventOfAnotherDeviceIsRefused) {
  const Device other = stranger();
  const Event event = other.create_event();
  expect_refused([&] { stream.wait(event); }, {"stranger", device.name()});
  expect_refused([&] { stream.record(event); }, {"stranger", device.name()});
  expect_refused([&] { stream.note_wait(event); }, {"stranger"});
  EXPECT_EQ(event.point().second, Tick(0));
  finish(stream);
}

TEST_P(DeviceSuite, AKernelOfAnotherDeviceIsRefused) {
  const Device other = stranger();
  const Kernel kernel = other.host_kernel("foreign kernel", [](const LaunchConfig&, void* const*) {});
  expect_refused([&] { stream.launch(kernel, {}, KernelArgs()); }, {"foreign kernel", "stranger", device.name()});
  finish(stream);
}

TEST_P(DeviceSuite, AGraphOfAnotherDeviceIsRefused) {
  const Device other = stranger();
  const Stream there = other.create_stream();
  there.begin_capture();
  const Graph graph = there.end_capture();
  const GraphExec exec = graph.instantiate();
  expect_refused([&] { exec.launch(stream); }, {"stranger", device.name()});
  stream.begin_capture();
  expect_refused([&] { exec.launch(stream); }, {"stranger"});
  const GraphExec own = stream.end_capture().instantiate();
  expect_refused([&] { (void)own.update(graph); }, {"stranger"});
}

TEST_P(DeviceSuite, AnEmptyGridIsRefused) {
  LaunchConfig config;
  config.grid[1] = 0;
  const DeviceInts a = ints(4);
  const int value = 1;
  auto launch = [&] { stream.launch(subject().kernel("fill_ints"), config, KernelArgs(a.data, a.count, value)); };
  expect_refused(launch, {"fill_ints", "at least 1"});
  finish(stream);
  EXPECT_EQ(read(a), all(4, 0));
}

TEST_P(DeviceSuite, NullAddressesAreRefused) {
  const DeviceInts a = ints(4, 1);
  expect_refused([&] { stream.copy(nullptr, a.data, 4); }, {"null"});
  expect_refused([&] { stream.copy(a.data, nullptr, 4); }, {"null"});
  expect_refused([&] { stream.fill(nullptr, 0, 4, 1); }, {"null"});
  expect_refused([&] { stream.write_value(nullptr, 0); }, {"null"});
  expect_refused([&] { stream.wait_value(nullptr, 0); }, {"null"});
  expect_refused([&] { stream.copy_2d(nullptr, 8, a.data, 8, 8, 1); }, {"null"});
  finish(stream);
  EXPECT_EQ(read(a), all(4, 1));
}

TEST_P(DeviceSuite, UnalignedWordsAndItemsAreRefused) {
  const DeviceInts a = ints(8);
  auto* odd = reinterpret_cast<std::uint64_t*>(reinterpret_cast<std::byte*>(a.data) + 4);
  expect_refused([&] { stream.write_value(odd, 1); }, {"multiple of 8"});
  expect_refused([&] { stream.wait_value(odd, 1); }, {"multiple of 8"});
  expect_refused([&] { stream.fill(reinterpret_cast<std::byte*>(a.data) + 2, 1, 4, 1); }, {"multiple of 4"});
  finish(stream);
  EXPECT_FALSE(stream.may_spin());
}

TEST_P(DeviceSuite, ItemsOfOtherSizesAreNotFilled) {
  const DeviceInts a = ints(8);
  for (const std::size_t nbytes : {0, 3, 8})
    expect_refused([&] { stream.fill(a.data, 1, nbytes, 1); }, {"must be 1, 2 or 4"});
  finish(stream);
  EXPECT_EQ(read(a), all(8, 0));
}

TEST_P(DeviceSuite, RowsThatOverlapAreRefused) {
  const DeviceInts a = ints(8, 1), b = ints(8);
  expect_refused([&] { stream.copy_2d(b.data, 4, a.data, 8, 8, 2); }, {"copy_2d", "8", "4"});
  expect_refused([&] { stream.copy_2d(b.data, 8, a.data, 4, 8, 2); }, {"copy_2d"});
  finish(stream);
  EXPECT_EQ(read(b), all(8, 0));
}

TEST_P(DeviceSuite, AHoldNeedsADeadlineAboveZero) {
  expect_refused([&] { (void)stream.hold(0ns); }, {"hold", "must be positive"});
  expect_refused([&] { (void)stream.hold(-1s); }, {"hold"});
  finish(stream);
}

TEST_P(DeviceSuite, ImagesThatAreNoneAreRefused) {
  expect_refused([&] { (void)device.load_module({}); }, {"empty"});
  const std::array<std::byte, 64> garbage{};
  expect_error<Error>([&] { (void)device.load_module(garbage); });
  finish(stream);
}

TEST_P(DeviceSuite, HostKernelsAreRefusedWhereKernelsAreImages) {
  auto make = [&] { return device.host_kernel("x", [](const LaunchConfig&, void* const*) {}); };
  if (traits().has_host_kernels) {
    EXPECT_EQ(make().name(), "x");
    expect_refused([&] { (void)device.host_kernel("x", nullptr); }, {"'x'", "null"});
  } else {
    expect_error<NotSupported>([&] { (void)make(); }, {"load_module"});
  }
}

TEST_P(DeviceSuite, AStreamIdThatNeverWasIsRefused) {
  expect_refused([&] { (void)device.completed(StreamId(999'999)); }, {device.name(), "999999"});
}

}  // namespace tessera::device::suite
