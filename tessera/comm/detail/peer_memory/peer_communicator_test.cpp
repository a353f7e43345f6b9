// Errors about peers that do not join or are lost. The test plays the peers in the shared memory.
#include "tessera/comm/detail/peer_memory/peer_communicator.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/testing/expect_error.h"

namespace tessera::comm::detail {
namespace {

using namespace std::chrono_literals;

// Group ranks 0 to 2 are world ranks 4, 5 and 7.
constexpr std::array kWorld = {Rank(4), Rank(5), Rank(7)};

class PlayedMemory : public PeerMemory {
 public:
  PlayedMemory() : bytes_(GroupMemory::nbytes(kWorld.size()) / sizeof(Line) + 1) {
    group_ = GroupMemory(bytes_[0].bytes, kWorld.size());
    group_.initialise({});
  }
  [[nodiscard]] const GroupMemory& group() const override { return group_; }
  [[nodiscard]] const Waiting& waiting() const override { return waiting_; }
  [[nodiscard]] BufferLocation place_of(const void* /*address*/, std::size_t /*nbytes*/) override { return {}; }
  [[nodiscard]] std::byte* reach(int /*peer*/, const BufferLocation& /*place*/) override { return nullptr; }
  [[nodiscard]] int world_rank(int peer) const override { return kWorld[static_cast<std::size_t>(peer)].value(); }
  [[nodiscard]] bool is_dead(int peer) const override { return peer == dead; }

  int dead = -1;

 private:
  struct alignas(128) Line {
    std::byte bytes[128];
  };
  std::vector<Line> bytes_;
  GroupMemory group_;
  Waiting waiting_{/*is_shared=*/false, /*crowded=*/false};
};

ConnectRequest request(int rank, std::chrono::nanoseconds timeout) {
  return {.name = "4, 5, 7", .ranks = {kWorld.begin(), kWorld.end()}, .rank = rank, .timeout = timeout};
}

std::string said_while_waiting(int rank, std::initializer_list<int> joined) {
  auto memory = std::make_unique<PlayedMemory>();
  for (const int peer : joined) memory->group().board(peer).joined.store(1);
  ::testing::internal::CaptureStderr();
  expect_error<TimeoutError>(
      [&] { PeerCommunicator(std::move(memory), request(rank, 20ms), {.first = 0ns, .next = 1h}); },
      {"did not join in time"});
  return ::testing::internal::GetCapturedStderr();
}

TEST(PeerCommunicator, TheFirstRankThatJoinedNamesThoseThatDidNot) {
  EXPECT_NE(
      said_while_waiting(1, {}).find("group of ranks 4, 5, 7: waiting 0 s for ranks 4 and 7 (group ranks 0 and 2) "
                                     "to join"),
      std::string::npos);
  EXPECT_EQ(said_while_waiting(1, {0}), "") << "rank 4 speaks";
}

TEST(PeerCommunicator, APeerThatDiedIsItsFailureWithoutAnOperation) {
  auto memory = std::make_unique<PlayedMemory>();
  PlayedMemory& peers = *memory;
  for (const int peer : {0, 1}) peers.group().board(peer).joined.store(1);
  const auto communicator = std::make_shared<PeerCommunicator>(std::move(memory), request(2, 1min));
  EXPECT_EQ(communicator->failure("some"), nullptr);
  peers.group().board(0).has_left.store(1);
  EXPECT_EQ(communicator->failure("some"), nullptr) << "a peer may leave in order";
  peers.dead = 1;
  expect_error<AbortedError>([&] { std::rethrow_exception(communicator->failure("some")); },
                             {"group some: rank 5 (group rank 1) died"});
}

}  // namespace
}  // namespace tessera::comm::detail
