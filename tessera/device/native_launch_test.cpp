// The host does not support launches of other libraries.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/device/device.h"

namespace tessera::device {
namespace {

template <class E, class F>
std::string error_of(const F& body) {
  try {
    body();
  } catch (const E& error) {
    return error.what();
  }
  return "no error";
}

TEST(NativeLaunch, TheHostHasNone) {
  const Stream stream = Device::get("host").create_stream();
  bool was_called = false;
  EXPECT_THAT(error_of<NotSupported>([&] {
                stream.launch_native([&](void*) { was_called = true; },
                                     {.label = "product", .accesses = std::span<const Access>()});
              }),
              ::testing::HasSubstr("product"));
  EXPECT_FALSE(was_called);
  EXPECT_THAT(error_of<InvalidArgument>([&] { stream.launch_native({}); }), ::testing::HasSubstr("empty"));
  stream.synchronize();
}

}  // namespace
}  // namespace tessera::device
