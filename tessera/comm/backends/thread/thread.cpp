// Ranks that are threads of one process: addresses mean the same to all, and group memory is on the heap.
#include <thread>

#include "tessera/base/rank.h"
#include "tessera/comm/detail/peer_memory/peer_communicator.h"
#include "tessera/comm/detail/world_state.h"

namespace tessera::comm {
namespace {

class ThreadMemory : public detail::PeerMemory {
 public:
  ThreadMemory(std::shared_ptr<std::byte> memory, int size, detail::Waiting waiting)
      : memory_(std::move(memory)), group_(memory_.get(), size), waiting_(std::move(waiting)) {}
  [[nodiscard]] const detail::GroupMemory& group() const override { return group_; }
  [[nodiscard]] const detail::Waiting& waiting() const override { return waiting_; }
  [[nodiscard]] detail::Place place_of(const void* address, std::size_t nbytes) override {
    return {.where = reinterpret_cast<std::uintptr_t>(address), .nbytes = nbytes};
  }
  [[nodiscard]] std::byte* reach(int /*peer*/, const detail::Place& place) override {
    return reinterpret_cast<std::byte*>(place.where);
  }
  // A rank whose thread ends lets go of its communicators, which is seen on the board.
  [[nodiscard]] bool is_dead(int /*peer*/) const override { return false; }

 private:
  std::shared_ptr<std::byte> memory_;
  detail::GroupMemory group_;
  detail::Waiting waiting_;
};

std::string why_not(const ConnectRequest& request) {
  if (detail::WorldState::current().simulated() == nullptr) return "the ranks are not threads of this process";
  if (request.ranks.size() > detail::kMostPeers) return "more than 256 ranks";
  return "";
}

std::shared_ptr<Communicator> connect(const ConnectRequest& request) {
  detail::SimulatedWorld& world = *detail::WorldState::current().simulated();
  const int size = static_cast<int>(request.ranks.size());
  auto memory = world.memory(request.name, detail::GroupMemory::nbytes(size),
                             [&](std::byte* bytes) { detail::GroupMemory(bytes, size).initialise(); });
  const bool is_crowded = current_place().local_world_size > static_cast<int>(std::thread::hardware_concurrency());
  detail::Waiting waiting = world.scheduler() != nullptr ? detail::Waiting(world.scheduler())
                                                         : detail::Waiting(/*is_shared=*/false, is_crowded);
  return std::make_shared<detail::PeerCommunicator>(
      std::make_unique<ThreadMemory>(std::move(memory), size, std::move(waiting)), request);
}

const BackendRegistration kThread{{.name = "thread", .preference = 10, .why_not = why_not, .connect = connect}};

}  // namespace
}  // namespace tessera::comm
