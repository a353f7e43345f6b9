#include "tessera/comm/detail/store_wait.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/store/memory_store.h"

namespace tessera::comm::detail {
namespace {

using namespace std::chrono_literals;

TEST(StoreWait, NamesWhomItWaitsForAndReturnsNothingWhenTheTimeIsUp) {
  MemoryStore store;
  ::testing::internal::CaptureStderr();
  const auto value = wait_for_value(store, {.key = "id",
                                            .timeout = 60ms,
                                            .subject = "group of ranks 0-1",
                                            .whom = "rank 0 to join",
                                            .delays = {.first = 0ns, .next = 1h}});
  EXPECT_EQ(value, std::nullopt);
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("group of ranks 0-1: waiting 0 s for rank 0 to join"),
            std::string::npos);
}

TEST(StoreWait, ReturnsAValueThatComesAndEndsWithItsCheck) {
  MemoryStore store;
  int looks = 0;
  const auto value = wait_for_value(store, {.key = "id", .timeout = 1min, .subject = "", .whom = "", .check = [&] {
                                              ++looks;
                                              store.set("id", "x");
                                            }});
  EXPECT_EQ(value, "x");
  EXPECT_EQ(looks, 1);
  expect_error<AbortedError>(
      [&] {
        (void)wait_for_value(store, {.key = "other", .timeout = 1min, .subject = "", .whom = "", .check = [] {
                                       TESSERA_THROW(AbortedError, "it ended");
                                     }});
      },
      {"it ended"});
}

}  // namespace
}  // namespace tessera::comm::detail
