// Checked devices: a launch with an invalid access is an error that names the missing edge or declaration.
#include <array>
#include <optional>

#include "tessera/device/suite/device_suite.h"

namespace tessera::device::suite {

namespace {

/// A checked device with two streams and some memory.
struct Checked {
  explicit Checked(const Device& made) : device(made) { range.map(0, device.create_memory(granule)); }
  static void touch(const Stream& stream, const char* label, const Access& access) {
    const std::array accesses{access};
    stream.run([] {}, {.label = label, .accesses = accesses});
  }

  Device device;
  std::size_t granule = device.properties().granularity;
  AddressRange range = device.reserve(2 * granule);
  std::byte* data = range.data();
  Stream one = device.create_stream({.name = "one"}), two = device.create_stream({.name = "two"});
  Event event = device.create_event();
};

}  // namespace

#define OPEN_CHECKED()                                                                          \
  const Device checked_device = subject().checked_device();                                     \
  if (!checked_device) GTEST_SKIP() << "devices of this kind do not check what launches touch"; \
  Checked on(checked_device)

TEST_P(DeviceSuite, ACheckedDeviceRefusesLaunchesThatDeclareNothing) {
  OPEN_CHECKED();
  expect_refused([&] { on.one.run([] {}, {.label = "silent"}); }, {"silent", "declare"});
  on.one.run([] {}, {.label = "touches nothing", .accesses = std::span<const Access>()});
  finish(on.one);
}

TEST_P(DeviceSuite, ACheckedDeviceRefusesConflictsThatNothingOrders) {
  OPEN_CHECKED();
  Checked::touch(on.one, "producer", writes(on.data, 64));
  expect_refused([&] { Checked::touch(on.two, "consumer", reads(on.data + 60, 4)); },
                 {"producer", "consumer", "record an event"});
  Checked::touch(on.two, "neighbour", writes(on.data + 64, 4));
  on.one.record(on.event);
  on.two.wait(on.event);
  Checked::touch(on.two, "consumer", reads(on.data + 60, 4));
  finish(on.two);
}

TEST_P(DeviceSuite, ACheckedDeviceKnowsThatWhatCameBeforeCompletedWorkIsOver) {
  OPEN_CHECKED();
  const Stream three = on.device.create_stream({.name = "three"});
  Checked::touch(on.one, "reader", reads(on.data, 64));
  on.one.record(on.event);
  on.two.wait(on.event);
  Checked::touch(on.two, "between", writes(on.data + 64, 64));
  expect_refused([&] { Checked::touch(three, "writer", writes(on.data, 64)); }, {"reader", "writer"});
  finish(on.two);
  Checked::touch(three, "writer", writes(on.data, 64));
  finish(three);
}

TEST_P(DeviceSuite, ACheckedDeviceRefusesMemoryThatWasFreed) {
  OPEN_CHECKED();
  Checked::touch(on.one, "before", writes(on.data, 64));
  on.device.note_freed(on.data, 64, "the owner");
  expect_refused([&] { Checked::touch(on.one, "late", reads(on.data + 32, 4)); }, {"late", "the owner"});
  on.device.note_allocated(on.data, 64);
  Checked::touch(on.one, "again", writes(on.data, 64));
  finish(on.one);
}

TEST_P(DeviceSuite, ACheckedDeviceRefusesMemoryThatIsNotMapped) {
  OPEN_CHECKED();
  expect_refused([&] { on.one.fill(on.data + on.granule, 0, 4, 1); }, {"not mapped"});
  on.one.fill(on.data, 0, 4, 1);
  finish(on.one);
}

TEST_P(DeviceSuite, ACheckedDeviceRefusesGraphsWithConflicts) {
  OPEN_CHECKED();
  const Event join = on.device.create_event();
  on.one.begin_capture();
  on.one.record(on.event);
  on.two.wait(on.event);
  Checked::touch(on.one, "left", writes(on.data, 8));
  Checked::touch(on.two, "right", reads(on.data, 8));
  on.two.record(join);
  on.one.wait(join);
  expect_refused([&] { (void)on.one.end_capture(); }, {"left", "right"});
}

#undef OPEN_CHECKED

}  // namespace tessera::device::suite
