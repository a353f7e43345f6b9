// The backend of ranks that are processes of one machine. The first of them creates the group memory as a memory file.
// The memory of a rank's host device is in a separate memory file, which its peers map; the location of a buffer is an
// offset there. Other memory (malloc, stack) is not reachable and goes through the stages.
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "tessera/base/env.h"
#include "tessera/base/error.h"
#include "tessera/base/fork.h"
#include "tessera/base/rank.h"
#include "tessera/comm/detail/peer_memory/peer_communicator.h"
#include "tessera/comm/detail/process_world.h"
#include "tessera/comm/detail/store_wait.h"
#include "tessera/comm/detail/world_state.h"
#include "tessera/device/host/host_device.h"

namespace tessera::comm {
namespace {

using detail::BufferLocation;
using detail::Descriptor;
using detail::PeerProcess;
using std::chrono::nanoseconds;

// A mapping of group memory.
class SharedBytes {
 public:
  SharedBytes(int fd, std::size_t nbytes)
      : nbytes_(nbytes), at_(::mmap(nullptr, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) {
    TESSERA_CHECK_AS(IoError, at_ != MAP_FAILED, nbytes,
                     " bytes of group memory cannot be mapped: ", std::strerror(errno));
    (void)::madvise(at_, nbytes, MADV_DONTFORK);  // a forked child is not a rank of the group
  }
  ~SharedBytes() {
    if (owner_.is_this()) ::munmap(at_, nbytes_);
  }
  SharedBytes(const SharedBytes&) = delete;
  SharedBytes& operator=(const SharedBytes&) = delete;
  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(at_); }

 private:
  const OwnerProcess owner_;
  std::size_t nbytes_;
  void* at_;
};

// The locations of this rank's buffers, cached while nothing is mapped or unmapped.
class Places {
 public:
  explicit Places(const device::Device& device) : file_(device) {}
  [[nodiscard]] const device::host::MemoryFileView& file() const { return file_; }

  BufferLocation find(const void* address, std::size_t nbytes) {
    const std::uint64_t epoch = file_.epoch();
    const auto key = reinterpret_cast<std::uintptr_t>(address);
    const std::lock_guard lock(mutex_);
    Known& known = known_[(key >> 9 ^ key >> 17) % known_.size()];
    if (known.epoch == epoch && known.address == key && known.place.nbytes == nbytes) return known.place;
    const std::optional<std::uint64_t> offset =
        nbytes <= PeerProcess::kMaxBytes ? file_.find(address, nbytes) : std::nullopt;
    known = {
        .address = key,
        .epoch = epoch,
        .place = {
            .where = offset.value_or(0), .nbytes = nbytes, .is_reachable = static_cast<std::uint8_t>(offset ? 1 : 0)}};
    return known.place;
  }

 private:
  struct Known {
    std::uintptr_t address = 0;
    std::uint64_t epoch = 0;
    BufferLocation place = {};
  };
  const device::host::MemoryFileView file_;
  std::mutex mutex_;
  std::array<Known, 64> known_;
};

class SharedMemory : public detail::PeerMemory {
 public:
  SharedMemory(std::unique_ptr<SharedBytes> bytes, std::vector<Rank> ranks, detail::Waiting waiting,
               std::vector<std::shared_ptr<PeerProcess>> peers)
      : bytes_(std::move(bytes)),
        group_(bytes_->data(), static_cast<int>(ranks.size())),
        waiting_(std::move(waiting)),
        ranks_(std::move(ranks)),
        peers_(std::move(peers)),
        places_(device::Device::get("host")) {}

  [[nodiscard]] const detail::GroupMemory& group() const override { return group_; }
  [[nodiscard]] const detail::Waiting& waiting() const override { return waiting_; }
  [[nodiscard]] BufferLocation place_of(const void* address, std::size_t nbytes) override {
    return places_.find(address, nbytes);
  }
  [[nodiscard]] std::byte* reach(int peer, const BufferLocation& place) override {
    return peers_[static_cast<std::size_t>(peer)]->reach(place.where);
  }
  [[nodiscard]] int world_rank(int peer) const override { return ranks_[static_cast<std::size_t>(peer)].value(); }
  [[nodiscard]] bool is_dead(int peer) const override {
    const auto& process = peers_[static_cast<std::size_t>(peer)];
    return process != nullptr && process->has_ended();
  }

 private:
  std::unique_ptr<SharedBytes> bytes_;
  detail::GroupMemory group_;
  detail::Waiting waiting_;
  std::vector<Rank> ranks_;                          // by group rank
  std::vector<std::shared_ptr<PeerProcess>> peers_;  // by group rank; null for this rank
  Places places_;
};

std::string why_not(const ConnectRequest& request) {
  const auto& processes = detail::WorldState::current().processes();
  if (processes == nullptr) return "the ranks are not processes";
  if (request.ranks.size() > detail::kMaxPeers) return "more than 1024 ranks";
  for (const Rank rank : request.ranks) {
    if (!processes->is_here(rank)) return "rank " + to_string(rank) + " is on another machine";
  }
  return "";
}

// Waits for the name of the first rank's memory, unless its process ends.
std::string name_of_memory(const ConnectRequest& request, const PeerProcess& first) {
  const std::string subject = "group of ranks " + request.name;
  const auto name =
      detail::wait_for_value(*request.store, {.key = "memory",
                                              .timeout = request.timeout,
                                              .subject = subject,
                                              .whom = "rank " + to_string(request.ranks[0]) + " to join",
                                              .check = [&] {
                                                TESSERA_CHECK_AS(AbortedError, !first.has_ended(), subject, ": rank ",
                                                                 request.ranks[0], " ended before it joined");
                                                const std::string why = request.why_over ? request.why_over() : "";
                                                TESSERA_CHECK_AS(AbortedError, why.empty(), subject, ": ", why);
                                                const std::optional<std::string> failed = request.store->find("failed");
                                                TESSERA_CHECK_AS(AbortedError, !failed, *failed);
                                              }});
  TESSERA_CHECK_AS(TimeoutError, name.has_value(), subject, ": rank ", request.ranks[0], " did not join in time");
  return *name;
}

Descriptor make_group_memory(int size) {
  Descriptor file(::memfd_create("tessera-group", MFD_CLOEXEC));
  const std::size_t nbytes = detail::GroupMemory::nbytes(size);
  TESSERA_CHECK_AS(IoError, file && ::ftruncate(file.get(), static_cast<off_t>(nbytes)) == 0,
                   "cannot create memory for a group of ", size, " ranks: ", std::strerror(errno));
  const SharedBytes bytes(file.get(), nbytes);
  detail::GroupMemory(bytes.data(), size).initialise({.is_checked = env::comm_check() ? 1U : 0U});
  return file;
}

// Returns the process of a rank. A process that has already ended has not joined.
std::shared_ptr<PeerProcess> find_process(detail::ProcessWorld& world, const ConnectRequest& request, Rank rank) {
  try {
    auto process = world.peer(rank, request.timeout);
    process->open_memory(request.timeout);
    return process;
  } catch (const AbortedError&) {
    TESSERA_THROW(AbortedError, "group of ranks ", request.name, ": rank ", rank, " ended before it joined");
  } catch (const TimeoutError&) {
    TESSERA_THROW(TimeoutError, "group of ranks ", request.name, ": rank ", rank, " did not join in time");
  }
}

std::shared_ptr<Communicator> connect_all(const ConnectRequest& request) {
  detail::ProcessWorld& world = *detail::WorldState::current().processes();
  const int size = static_cast<int>(request.ranks.size());
  world.server().offer(detail::ProcessWorld::kMemoryName,
                       device::host::MemoryFileView(device::Device::get("host")).descriptor());
  std::vector<std::shared_ptr<PeerProcess>> peers;
  for (int peer = 0; peer < size; ++peer) {
    // Opens its memory before this rank joins: a rank that has seen all others join needs nothing more of them, and
    // they may end.
    const Rank rank = request.ranks[static_cast<std::size_t>(peer)];
    peers.push_back(peer == request.rank ? nullptr : find_process(world, request, rank));
  }
  Descriptor file;
  std::string offered;
  if (request.rank == 0) {
    file = make_group_memory(size);
    offered = world.server().offer_anew("group", file.get());
    request.store->set("memory", offered);
  } else {
    file = peers[0]->fetch(name_of_memory(request, *peers[0]), request.timeout);
  }
  const bool is_crowded = current_place().local_world_size > ::sysconf(_SC_NPROCESSORS_ONLN);
  auto bytes = std::make_unique<SharedBytes>(file.get(), detail::GroupMemory::nbytes(size));
  auto communicator = std::make_shared<detail::PeerCommunicator>(
      std::make_unique<SharedMemory>(std::move(bytes), request.ranks, detail::Waiting(/*is_shared=*/true, is_crowded),
                                     std::move(peers)),
      request);
  if (request.rank == 0) world.server().withdraw(offered);
  return communicator;
}

// Ranks that fail to connect end one after the other, each after it sees the previous one end. The first to fail leaves
// the reason for all.
std::shared_ptr<Communicator> connect(const ConnectRequest& request) {
  try {
    return connect_all(request);
  } catch (const AbortedError& error) {
    const std::string why = *request.store->compare_set("failed", std::nullopt, error.message());
    TESSERA_THROW(AbortedError, why);
  } catch (const TimeoutError& error) {
    const std::string why = *request.store->compare_set("failed", std::nullopt, error.message());
    TESSERA_THROW(TimeoutError, why);
  }
}

const BackendRegistration kShm{{.name = "shm",
                                .preference = 20,
                                .capabilities = detail::peer_capabilities(),
                                .why_not = why_not,
                                .connect = connect}};

}  // namespace
}  // namespace tessera::comm
