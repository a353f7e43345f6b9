// Devices by name, and their owners.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/device/backend.h"

namespace tessera::device {
namespace {

using ::testing::HasSubstr;

TEST(DeviceRegistry, TheHostIsAlwaysThereAndFirst) {
  const std::vector<Device> devices = Device::all();
  ASSERT_FALSE(devices.empty());
  EXPECT_EQ(devices.front().name(), "host");
  EXPECT_EQ(Device::get("host"), devices.front());
}

TEST(DeviceRegistry, EachRankHasItsOwnHostAndSharesEverythingElse) {
  const auto one = std::make_shared<RankContext>(RankPlace{.rank = Rank(0), .world_size = 2});
  const auto two = std::make_shared<RankContext>(RankPlace{.rank = Rank(1), .world_size = 2});
  std::vector<Device> of_one;
  std::vector<Device> of_two;
  Device seen_by_thread;
  {
    const RankScope scope(one);
    of_one = Device::all();
    Thread("ranked", [&] { seen_by_thread = Device::get("host"); }).join();
  }
  {
    const RankScope scope(two);
    of_two = Device::all();
  }
  ASSERT_EQ(of_one.size(), of_two.size());
  EXPECT_FALSE(of_one[0] == of_two[0]);
  EXPECT_EQ(seen_by_thread, of_one[0]);
  for (std::size_t i = 1; i < of_one.size(); ++i) EXPECT_EQ(of_one[i], of_two[i]);
}

TEST(DeviceRegistry, AnUnknownNameListsWhatThereIs) {
  try {
    static_cast<void>(Device::get("tpu:3"));
    FAIL() << "there is no such device";
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.message(), HasSubstr("tpu:3"));
    EXPECT_THAT(error.message(), HasSubstr("host"));
  }
}

TEST(DeviceRegistry, AnAbsentKindSaysWhy) {
  for (const AbsentKind& kind : Device::absent()) {
    EXPECT_FALSE(kind.reason.empty()) << kind.kind;
    EXPECT_THROW(static_cast<void>(Device::get(kind.kind)), NotSupported);
  }
}

TEST(DeviceRegistryDeathTest, AKindRegisteredTwiceAborts) {
  EXPECT_DEATH(register_device_kind({"host", {}}), "registered twice");
}

}  // namespace
}  // namespace tessera::device
