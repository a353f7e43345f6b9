// Values of the specification (draft-eastlake-fnv), which files and names of other processes rely on.
#include "tessera/base/fnv1a.h"

#include <gtest/gtest.h>

namespace tessera::detail {
namespace {

static_assert(fnv1a("") == 0xcbf29ce484222325);
static_assert(fnv1a("a") == 0xaf63dc4c8601ec8c);
static_assert(fnv1a("foobar") == 0x85944171f73967e8);

std::string wide(std::string_view bytes) {
  Fnv1a128 hash;
  hash.add(bytes);
  return hash.hex();
}

TEST(Fnv1a, HasTheSpecifiedValues) {
  EXPECT_EQ(wide(""), "6c62272e07bb014262b821756295c58d");
  EXPECT_EQ(wide("a"), "d228cb696f1a8caf78912b704e4a8964");
  EXPECT_EQ(wide("foobar"), "343e1662793c64bf6f0d3597ba446f18");
}

TEST(Fnv1a, ContinuesAfterEarlierBytes) {
  EXPECT_EQ(fnv1a("bar", fnv1a("foo")), fnv1a("foobar"));
  Fnv1a128 parts;
  parts.add("foo");
  parts.add("bar");
  EXPECT_EQ(parts.hex(), wide("foobar"));
  Fnv1a128 whole;
  whole.add("foobar");
  EXPECT_EQ(parts.high(), whole.high());
  EXPECT_EQ(parts.low(), whole.low());
}

}  // namespace
}  // namespace tessera::detail
