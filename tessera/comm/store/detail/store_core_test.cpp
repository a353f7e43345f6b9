// Memory that the store keeps for connections: bounded buffers, and the bytes of clients that are connected or have
// left.
#include "tessera/comm/store/detail/store_core.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tessera/base/error.h"
#include "tessera/base/testing/expect_error.h"

namespace tessera::comm::detail {
namespace {

const StoreCore::Clock::time_point kNow = {};

// Like a server, reads at most read_bytes() at a time.
void hand_over(StoreCore& core, StoreSession& session, std::string_view bytes) {
  while (!bytes.empty()) {
    const std::size_t most = session.read_bytes();
    char* room = session.reader.room(most);
    const std::size_t count = std::min(most, bytes.size());
    std::copy_n(bytes.data(), count, room);
    session.reader.filled(count);
    bytes.remove_prefix(count);
    core.consume(session, kNow);
  }
}

std::string frame(const StoreRequest& request) {
  std::string bytes;
  write_request(bytes, request);
  return bytes;
}

void let_in(StoreCore& core, StoreSession& session, const std::string& label) {
  const std::string nonce(kNonceBytes, 'n');
  hand_over(core, session,
            frame({.number = 1, .verb = StoreRequestKind::kHello, .key = nonce, .version = kProtocolVersion}));
  const std::string proof = client_proof("s", nonce, session.server_nonce, label);
  hand_over(core, session, frame({.number = 2, .verb = StoreRequestKind::kProof, .key = proof, .value = label}));
  ASSERT_TRUE(session.is_in);
  session.out.clear();
}

TEST(StoreCore, AStrangerGetsRoomForAFrameOfTheHandshake) {
  StoreCore core("s");
  StoreSession session;
  hand_over(core, session, std::string("\x01\x01", 2));
  EXPECT_LE(session.reader.capacity(), 2 * (kHeadBytes + kMaxHelloBytes));
  StoreSession inside;
  let_in(core, inside, "rank 0");
  EXPECT_GE(inside.read_bytes(), 65536u);
}

TEST(StoreCore, ALargeRequestLeavesNoLargeBuffer) {
  StoreCore core("s");
  StoreSession session;
  let_in(core, session, "rank 0");
  const std::string value(Store::kMaxValueBytes, 'v');
  hand_over(core, session, frame({.number = 3, .verb = StoreRequestKind::kSet, .key = "a", .value = value}));
  EXPECT_GT(session.reader.capacity(), value.size());
  hand_over(core, session, frame({.number = 4, .verb = StoreRequestKind::kRemove, .key = "a"}));
  EXPECT_LE(session.reader.capacity(), std::size_t{256} << 10);
}

TEST(StoreLedger, AFullStoreNamesItsLargestHolderAlsoWhenItHasGone) {
  StoreLedger ledger({.client_bytes = 10'000, .total_bytes = 40'000});
  // A rank that reconnects repeatedly, and uses the bound of a client each time.
  for (int i = 0; i < 4; ++i) {
    const std::uint64_t client = ledger.open("rank 3", "rank 3 at port " + std::to_string(i));
    ledger.note_key(client, "big" + std::to_string(i), 9'000);
    ledger.close(client);
  }
  const std::uint64_t victim = ledger.open("rank 0", "rank 0 at port 9");
  ledger.note_key(victim, "small", 100);
  expect_error<InvalidArgument>(
      [&] { ledger.check_key_fits(victim, "another", 4'000); },
      {"client rank 0 at port 9", "client rank 3 holds the most", "over 4 connections (4 closed)"});
}

TEST(StoreLedger, AClientThatHasGoneIsForgottenWithItsLastKey) {
  StoreLedger ledger({});
  const std::uint64_t client = ledger.open("rank 3", "rank 3");
  ledger.note_key(client, "a", 10);
  ledger.note_key(client, "b", 10);
  ledger.close(client);
  ledger.forget_key("a");
  EXPECT_EQ(ledger.clients(), 1u);
  const std::uint64_t other = ledger.open("rank 4", "rank 4");
  ledger.note_key(other, "b", 20);  // now owned by the other client
  EXPECT_EQ(ledger.clients(), 1u);
  ledger.forget_key("b");
  ledger.close(other);
  EXPECT_EQ(ledger.clients(), 0u);
  EXPECT_EQ(ledger.total(), 0u);
}

}  // namespace
}  // namespace tessera::comm::detail
