#include "tessera/device/meta/meta_device.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "tessera/base/rank.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/device/graph.h"

namespace tessera::device::meta {
namespace {

TEST(MetaDevice, IsFoundByNameAndNotListed) {
  const Device meta = Device::get("meta");
  EXPECT_EQ(meta, Device::get("meta"));
  EXPECT_FALSE(meta.properties().has_values);
  EXPECT_TRUE(Device::get("host").properties().has_values);
  EXPECT_EQ(std::ranges::count(Device::all(), meta), 0);
  const RankScope other(std::make_shared<RankContext>(RankPlace{}));
  EXPECT_FALSE(meta == Device::get("meta")) << "each rank has its own";
}

TEST(MetaDevice, MemoryHasAddressesAndAnAccount) {
  const Device meta = make_meta_device();
  const std::size_t unit = meta.properties().granularity;
  const std::size_t terabyte = std::size_t{1} << 40;
  AddressRange range = meta.reserve(2 * terabyte);
  EXPECT_TRUE(is_meta_address(range.data()));
  EXPECT_TRUE(is_meta_address(range.data() + 2 * terabyte - 1));
  range.map(0, meta.create_memory(terabyte));
  EXPECT_EQ(meta.memory_use().total_nbytes - meta.memory_use().free_nbytes, terabyte);
  const AddressRange next = meta.reserve(unit);
  EXPECT_GE(next.data(), range.data() + 2 * terabyte);
  range.unmap(0, terabyte);
  EXPECT_EQ(meta.memory_use().free_nbytes, kCapacityNbytes);
  expect_error<OutOfMemory>([&] { (void)meta.create_memory(kCapacityNbytes + unit); }, {"64 TiB", "do not fit"});
  EXPECT_EQ(meta.memory_use().free_nbytes, kCapacityNbytes);
  int local = 0;
  EXPECT_FALSE(is_meta_address(&local));
}

TEST(MetaDevice, WorkCompletesAtOnceAndRunsNothing) {
  const Device meta = make_meta_device();
  const Stream one = meta.create_stream();
  const Stream two = meta.create_stream();
  const AddressRange range = meta.reserve(std::size_t{1} << 20);
  const std::array<int, 4> values{1, 2, 3, 4};
  bool has_run = false;
  one.run([&] { has_run = true; });
  one.copy(range.data(), values.data(), sizeof values);
  one.fill(range.data(), 0, 4, 1000);
  const Event event = meta.create_event();
  one.record(event);
  EXPECT_TRUE(event.query());
  two.wait(event);
  EXPECT_TRUE(two.query());
  one.synchronize();
  EXPECT_FALSE(has_run);
}

TEST(MetaDevice, ReadingValuesIsAnError) {
  const Device meta = make_meta_device();
  const Stream stream = meta.create_stream();
  const AddressRange range = meta.reserve(std::size_t{1} << 20);
  std::array<int, 4> values{};
  expect_error<NotSupported>([&] { stream.copy(values.data(), range.data(), sizeof values, "read"); },
                             {"read: memory of the meta device has no values"});
  expect_error<NotSupported>([&] { stream.copy_2d(values.data(), 8, range.data(), 8, 8, 2, "rows"); },
                             {"rows: memory of the meta device has no values"});
  EXPECT_NO_THROW(stream.copy(range.data(), range.data() + 64, 64)) << "the stream works on";
}

TEST(MetaDevice, ACaptureHasTheNodesOfTheProgram) {
  const Device meta = make_meta_device();
  const Stream one = meta.create_stream();
  const Stream two = meta.create_stream();
  const Event forked = meta.create_event();
  const Event joined = meta.create_event();
  bool has_run = false;
  one.begin_capture();
  one.run([&] { has_run = true; }, {.label = "first"});
  one.record(forked);
  two.wait(forked);
  two.run([&] { has_run = true; }, {.label = "second"});
  two.record(joined);
  one.run([&] { has_run = true; }, {.label = "third"});
  one.wait(joined);
  const Graph graph = one.end_capture();
  EXPECT_EQ(graph.nodes().size(), 3U);
  const GraphExec exec = graph.instantiate();
  exec.launch(one);
  one.synchronize();
  EXPECT_FALSE(has_run);
}

}  // namespace
}  // namespace tessera::device::meta
