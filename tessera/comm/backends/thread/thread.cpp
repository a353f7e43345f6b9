// The backend of ranks that are threads of one process: addresses are valid for all, and group memory is on the heap.
#include <thread>

#include "tessera/base/env.h"
#include "tessera/base/rank.h"
#include "tessera/comm/detail/peer_memory/peer_communicator.h"
#include "tessera/comm/detail/world_state.h"
#include "tessera/device/host/host_device.h"

namespace tessera::comm {
namespace {

class ThreadMemory : public detail::PeerMemory {
 public:
  ThreadMemory(std::shared_ptr<std::byte> memory, std::vector<Rank> ranks, detail::Waiting waiting,
               std::shared_ptr<detail::SimulatedWorld> world)
      : memory_(std::move(memory)),
        group_(memory_.get(), static_cast<int>(ranks.size())),
        waiting_(std::move(waiting)),
        ranks_(std::move(ranks)),
        world_(std::move(world)) {}
  [[nodiscard]] const detail::GroupMemory& group() const override { return group_; }
  [[nodiscard]] const detail::Waiting& waiting() const override { return waiting_; }
  [[nodiscard]] detail::BufferLocation place_of(const void* address, std::size_t nbytes) override {
    return {.where = reinterpret_cast<std::uintptr_t>(address), .nbytes = nbytes};
  }
  [[nodiscard]] std::byte* reach(int /*peer*/, const detail::BufferLocation& place) override {
    return reinterpret_cast<std::byte*>(place.where);
  }
  [[nodiscard]] int world_rank(int peer) const override { return ranks_[static_cast<std::size_t>(peer)].value(); }
  // A rank whose thread ends releases its communicators, which the board shows; but it may have had none.
  [[nodiscard]] bool is_dead(int peer) const override {
    return world_->has_ended(ranks_[static_cast<std::size_t>(peer)]);
  }

  // Applies to ranks without a scheduler and without another thread that could raise the word. A thread that works for
  // a rank holds a reference to it, as do its simulation, the slot of this thread, and `rank` here.
  [[nodiscard]] std::string cycle_of(const WordWait& wait) override {
    const std::shared_ptr<RankContext> rank = current_rank();
    if (waiting_.is_virtual() || rank.use_count() > 3) return "";
    if (device::host::has_threads(device::Device::get("host"))) return "";
    const Rank peer = ranks_[static_cast<std::size_t>(wait.peer)];
    world_->cycles().enter(rank->place().rank, {peer, &wait.word, wait.least, &wait.is_over, wait.what});
    return world_->cycles().of(rank->place().rank);
  }
  void end_wait() override { world_->cycles().leave(current_rank()->place().rank); }

 private:
  std::shared_ptr<std::byte> memory_;
  detail::GroupMemory group_;
  detail::Waiting waiting_;
  std::vector<Rank> ranks_;  // by group rank
  std::shared_ptr<detail::SimulatedWorld> world_;
};

std::string why_not(const ConnectRequest& request) {
  if (detail::WorldState::current().simulated() == nullptr) return "the ranks are not threads of this process";
  if (request.ranks.size() > detail::kMaxPeers) return "more than 1024 ranks";
  return "";
}

std::shared_ptr<Communicator> connect(const ConnectRequest& request) {
  const std::shared_ptr<detail::SimulatedWorld>& world = detail::WorldState::current().simulated();
  const int size = static_cast<int>(request.ranks.size());
  auto memory = world->memory(request.name, detail::GroupMemory::nbytes(size), [&](std::byte* bytes) {
    detail::GroupMemory(bytes, size).initialise({.is_checked = env::comm_check() ? 1U : 0U});
  });
  const bool is_crowded = current_place().local_world_size > static_cast<int>(std::thread::hardware_concurrency());
  detail::Waiting waiting = world->scheduler() != nullptr ? detail::Waiting(world->scheduler())
                                                          : detail::Waiting(/*is_shared=*/false, is_crowded);
  return std::make_shared<detail::PeerCommunicator>(
      std::make_unique<ThreadMemory>(std::move(memory), request.ranks, std::move(waiting), world), request);
}

const BackendRegistration kThread{{.name = "thread",
                                   .preference = 10,
                                   .capabilities = detail::peer_capabilities(),
                                   .why_not = why_not,
                                   .connect = connect}};

}  // namespace
}  // namespace tessera::comm
