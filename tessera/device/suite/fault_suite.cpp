// Injected faults: the call fails with the requested error, nothing changes, and the next call succeeds.
#include "tessera/device/suite/device_suite.h"

namespace tessera::device::suite {

using Lines = std::vector<std::string>;

namespace {

/// Expects `action` to fail once because of the fault, and then to succeed.
template <class F>
void expect_fails_once(const Device& device, DriverCall call, const F& action) {
  SCOPED_TRACE(std::string(to_string(call)));
  device.faults().fail(call, 1);
  expect_error<DeviceError>(action, {to_string(call)});
  action();
}

}  // namespace

TEST_P(DeviceSuite, TheNthCallOfAKindFails) {
  const DeviceInts a = ints(4);
  device.faults().fail(DriverCall::kLaunch, 3);
  add(stream, a, 1);
  add(stream, a, 1);
  expect_error<DeviceError>([&] { add(stream, a, 1); }, {"launch"});
  add(stream, a, 1);
  finish(stream);
  EXPECT_EQ(read(a), all(4, 3));
}

TEST_P(DeviceSuite, AFaultIsOfTheKindAskedFor) {
  const DeviceInts a = ints(4);
  auto fail_with = [&](ErrorKind kind) {
    device.faults().fail(DriverCall::kFill, 1, kind);
    return [&] { stream.fill(a.data, 1, 4, 4); };
  };
  expect_error<DeviceError>(fail_with(ErrorKind::kDevice));
  expect_error<OutOfMemory>(fail_with(ErrorKind::kOutOfMemory));
  expect_error<TimeoutError>(fail_with(ErrorKind::kTimeout));
  expect_error<NotSupported>(fail_with(ErrorKind::kNotSupported));
  finish(stream);
  EXPECT_EQ(read(a), all(4, 0));
}

TEST_P(DeviceSuite, FaultsCanBeCleared) {
  device.faults().fail(DriverCall::kLaunch, 1);
  device.faults().clear();
  note(stream, "ran");
  finish(stream);
  EXPECT_EQ(journal(), Lines{"ran"});
}

TEST_P(DeviceSuite, CallsAreCounted) {
  const DeviceInts a = ints(4);
  const Event event = device.create_event();
  device.faults().count_calls(true);
  add(stream, a, 1);
  note(stream, "host");
  stream.record(event);
  stream.fill(a.data, 0, 4, 4);
  EXPECT_EQ(device.faults().calls(DriverCall::kLaunch), 2U);
  EXPECT_EQ(device.faults().calls(DriverCall::kRecord), 1U);
  EXPECT_EQ(device.faults().calls(DriverCall::kFill), 1U);
  EXPECT_EQ(device.faults().calls(DriverCall::kWait), 0U);
  device.faults().count_calls(true);
  EXPECT_EQ(device.faults().calls(DriverCall::kLaunch), 0U);
  device.faults().count_calls(false);
  finish(stream);
}

TEST_P(DeviceSuite, FaultsInStreamCallsLeaveTheStreamUsable) {
  const DeviceInts a = ints(4), b = ints(4);
  std::uint64_t* const flag = word();
  const Event event = device.create_event();
  expect_fails_once(device, DriverCall::kLaunch, [&] { add(stream, a, 1); });
  expect_fails_once(device, DriverCall::kLaunch, [&] { note(stream, "host"); });
  expect_fails_once(device, DriverCall::kCopy, [&] { stream.copy(b.data, a.data, 16); });
  expect_fails_once(device, DriverCall::kFill, [&] { stream.fill(a.data, 2, 4, 2); });
  expect_fails_once(device, DriverCall::kMemoryValue, [&] { stream.write_value(flag, 1); });
  expect_fails_once(device, DriverCall::kMemoryValue, [&] { stream.wait_value(flag, 1); });
  expect_fails_once(device, DriverCall::kHold, [&] { hold(stream).release(); });
  expect_fails_once(device, DriverCall::kRecord, [&] { stream.record(event); });
  expect_fails_once(device, DriverCall::kWait, [&] { stream.wait(event); });
  expect_fails_once(device, DriverCall::kSynchronize, [&] { finish(stream); });
  expect_fails_once(device, DriverCall::kQuery, [&] { (void)stream.query(); });
  EXPECT_EQ(read(a), (std::vector<int>{2, 2, 1, 1}));
  EXPECT_EQ(read(b), all(4, 1));
  EXPECT_EQ(journal(), Lines{"host"});
}

TEST_P(DeviceSuite, AFailedRecordMovesNothing) {
  const Event event = device.create_event();
  const Stream other = make_stream("other");
  stream.record(event);
  const auto before = event.point();
  const Tick used = stream.stamp();
  device.faults().fail(DriverCall::kRecord, 1);
  EXPECT_THROW(stream.record(event), DeviceError);
  EXPECT_EQ(event.point(), before);
  other.wait(event);
  EXPECT_FALSE(other.covers(stream.id(), used));
}

TEST_P(DeviceSuite, AFailedWaitCoversNothing) {
  const Event event = device.create_event();
  const Stream other = make_stream("other");
  const Tick used = stream.stamp();
  stream.record(event);
  device.faults().fail(DriverCall::kWait, 1);
  EXPECT_THROW(other.wait(event), DeviceError);
  EXPECT_FALSE(other.covers(stream.id(), used));
}

TEST_P(DeviceSuite, AFailedLaunchInACaptureLeavesNoNode) {
  stream.begin_capture();
  note(stream, "one");
  device.faults().fail(DriverCall::kLaunch, 1);
  EXPECT_THROW(note(stream, "two"), DeviceError);
  note(stream, "three");
  EXPECT_EQ(stream.end_capture().nodes().size(), 2U);
}

TEST_P(DeviceSuite, FaultsInMemoryCallsLeaveTheDeviceUsable) {
  const std::size_t granule = device.properties().granularity;
  const std::size_t own = device.memory_use().own_nbytes;
  AddressRange range;
  Memory memory;
  PinnedMemory pinned;
  expect_fails_once(device, DriverCall::kReserve, [&] { range = device.reserve(granule); });
  expect_fails_once(device, DriverCall::kCreateMemory, [&] { memory = device.create_memory(granule); });
  EXPECT_EQ(device.memory_use().own_nbytes, own + granule);
  expect_fails_once(device, DriverCall::kMap, [&] { range.map(0, memory); });
  EXPECT_EQ(range.mapped_nbytes(), granule);
  expect_fails_once(device, DriverCall::kProtect, [&] { range.protect(0, granule, Protection::kReadWrite); });
  if (device.properties().has_export) {
    expect_fails_once(device, DriverCall::kExport, [&] { (void)memory.export_handle(); });
    const ExportedMemory exported = memory.export_handle();
    expect_fails_once(device, DriverCall::kImport, [&] { (void)device.import_memory(exported); });
  }
  expect_fails_once(device, DriverCall::kUnmap, [&] { range.unmap(0, granule); });
  EXPECT_EQ(range.mapped_nbytes(), 0U);
  expect_fails_once(device, DriverCall::kAllocatePinned, [&] { pinned = device.allocate_pinned(64); });
  memory.reset();
  EXPECT_EQ(device.memory_use().own_nbytes, own);
}

TEST_P(DeviceSuite, AFailedUnmapLeavesTheMapping) {
  const std::size_t granule = device.properties().granularity;
  AddressRange range = device.reserve(granule);
  range.map(0, device.create_memory(granule));
  const DeviceInts values{reinterpret_cast<int*>(range.data()), 16};
  fill(stream, values, 3);
  finish(stream);
  device.faults().fail(DriverCall::kUnmap, 1);
  EXPECT_THROW(range.unmap(0, granule), DeviceError);
  EXPECT_EQ(range.mapped_nbytes(), granule);
  EXPECT_EQ(read(values), all(16, 3));
}

TEST_P(DeviceSuite, FaultsInCreationLeaveTheDeviceUsable) {
  Stream made;
  Event event;
  expect_fails_once(device, DriverCall::kCreateStream, [&] { made = device.create_stream(); });
  expect_fails_once(device, DriverCall::kCreateEvent, [&] { event = device.create_event(); });
  note(made, "ran");
  made.record(event);
  event.synchronize(kSoon);
  EXPECT_EQ(journal(), Lines{"ran"});
}

TEST_P(DeviceSuite, FaultsInGraphCallsLeaveThemUsable) {
  const DeviceInts a = ints(4);
  Graph graph;
  GraphExec exec;
  expect_fails_once(device, DriverCall::kBeginCapture, [&] { stream.begin_capture(); });
  add(stream, a, 1);
  expect_fails_once(device, DriverCall::kEndCapture, [&] { graph = stream.end_capture(); });
  expect_fails_once(device, DriverCall::kInstantiate, [&] { exec = graph.instantiate(); });
  expect_fails_once(device, DriverCall::kUpdate, [&] { EXPECT_TRUE(exec.update(graph).updated); });
  expect_fails_once(device, DriverCall::kGraphLaunch, [&] { exec.launch(stream); });
  finish(stream);
  EXPECT_EQ(read(a), all(4, 1));
}

TEST_P(DeviceSuite, AStalledStreamStopsUntilItIsLetGo) {
  if (!traits().has_stream_faults) {
    expect_error<NotSupported>([&] { device.stall_stream(stream, true); }, {"stall"});
    expect_error<NotSupported>([&] { device.delay_stream(stream, 1ms); }, {"delay"});
    return;
  }
  const Stream slow = make_stream("slow");
  device.stall_stream(slow, true);
  note(slow, "stalled");
  note(stream, "free");
  finish(stream);
  EXPECT_TRUE(is_stuck(slow));
  EXPECT_FALSE(slow.query());
  EXPECT_EQ(journal(), Lines{"free"});
  device.stall_stream(slow, false);
  finish(slow);
  EXPECT_EQ(journal(), (Lines{"free", "stalled"}));
}

TEST_P(DeviceSuite, ADelayedStreamKeepsItsOrder) {
  if (!traits().has_stream_faults) GTEST_SKIP() << "streams of this device cannot be delayed";
  const Stream slow = make_stream("slow");
  device.delay_stream(slow, 200us);
  for (int i = 0; i < 5; ++i) note(slow, std::to_string(i));
  finish(slow);
  EXPECT_EQ(journal(), (Lines{"0", "1", "2", "3", "4"}));
  device.delay_stream(slow, 0ns);
  note(slow, "5");
  finish(slow);
}

}  // namespace tessera::device::suite
