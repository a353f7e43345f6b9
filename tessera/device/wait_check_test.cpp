// Checks that run after waits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/device/device.h"

namespace tessera::device {
namespace {

bool has_report = false;

void check(const DeviceState& /*device*/, bool is_reset) {
  if (is_reset) has_report = false;
  TESSERA_CHECK(!has_report, "reported");
}

TEST(WaitCheck, FailsWaitsUntilItIsReset) {
  const Device host = Device::get("host");
  const Stream stream = host.create_stream();
  const Event event = host.create_event();
  stream.record(event);
  stream.synchronize();
  host.set_wait_check(check);
  stream.synchronize();
  has_report = true;
  EXPECT_THROW(stream.synchronize(), InvalidArgument);
  EXPECT_THROW((void)stream.query(), InvalidArgument);
  EXPECT_THROW(event.synchronize(), InvalidArgument);
  EXPECT_THROW((void)event.query(), InvalidArgument);
  EXPECT_THROW(host.synchronize(), InvalidArgument);
  stream.reset_error();
  stream.synchronize();
  EXPECT_TRUE(event.query());
  host.set_wait_check(nullptr);
  has_report = true;
  stream.synchronize();
}

}  // namespace
}  // namespace tessera::device
