#include "tessera/comm/detail/process_world.h"

#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "tessera/base/error.h"
#include "tessera/base/log.h"

namespace tessera::comm::detail {
namespace {

std::string link_at(const char* path) {
  char text[256] = {};
  const ssize_t length = ::readlink(path, text, sizeof text - 1);
  return length > 0 ? std::string(text, static_cast<std::size_t>(length)) : "none";
}

// Identifies processes that see each other: one boot of one kernel, and the namespaces of sockets and process ids.
std::string this_machine() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  file >> boot;
  return (boot.empty() ? "unknown" : boot) + "/" + link_at("/proc/self/ns/net") + "/" + link_at("/proc/self/ns/pid");
}

// Longer is forever, and would overflow when times are added.
constexpr std::chrono::nanoseconds kLongest = std::chrono::hours(24 * 365);

std::string key_of(Rank rank) { return "rank " + to_string(rank); }

}  // namespace

PeerProcess::PeerProcess(Rank rank, std::string address, std::chrono::nanoseconds timeout)
    : rank_(rank), address_(std::move(address)), process_(fetch_descriptor(address_, "", timeout).process) {}

PeerProcess::~PeerProcess() {
  if (!owner_.is_this()) return;
  for (const std::atomic<std::byte*>& window : windows_) {
    if (window.load() != nullptr) ::munmap(window.load(), 2 * kMaxBytes);
  }
}

bool PeerProcess::has_ended() const {
  if (has_ended_.load(std::memory_order_acquire)) return true;
  pollfd polled{process_.get(), POLLIN, 0};
  if (::poll(&polled, 1, 0) <= 0) return false;
  has_ended_.store(true, std::memory_order_release);
  return true;
}

Descriptor PeerProcess::fetch(std::string_view name, std::chrono::nanoseconds timeout) const {
  const auto until = std::chrono::steady_clock::now() + std::min<std::chrono::nanoseconds>(timeout, kLongest);
  try {
    while (true) {
      const std::chrono::nanoseconds left = until - std::chrono::steady_clock::now();
      Descriptor file = fetch_descriptor(address_, name, std::max(left, std::chrono::nanoseconds(0))).file;
      if (file) return file;
      TESSERA_CHECK_AS(TimeoutError, left.count() > 0, "the process did not offer '", name, "' within ", timeout);
      // Not yet: retries a little later, or immediately when the process ends.
      pollfd polled{process_.get(), POLLIN, 0};
      (void)::poll(&polled, 1, 1);
    }
  } catch (const AbortedError& error) {
    TESSERA_THROW(AbortedError, "rank ", rank_, ": ", error.message());
  } catch (const TimeoutError& error) {
    TESSERA_THROW(TimeoutError, "rank ", rank_, ": ", error.message());
  }
}

void PeerProcess::open_memory(std::chrono::nanoseconds timeout) {
  const std::lock_guard lock(mutex_);
  if (!memory_) memory_ = fetch(ProcessWorld::kMemoryName, timeout);
}

std::byte* PeerProcess::reach(std::uint64_t offset) {
  const std::size_t window = offset / kMaxBytes;
  TESSERA_CHECK(window < kWindows, "memory offset of rank ", rank_, " must be below ", kWindows * kMaxBytes, ", got ",
                offset);
  std::byte* at = windows_[window].load(std::memory_order_acquire);
  if (at == nullptr) at = map_window(window);
  return at + offset % kMaxBytes;
}

std::byte* PeerProcess::map_window(std::size_t window) {
  const std::lock_guard lock(mutex_);
  if (std::byte* made = windows_[window].load(std::memory_order_relaxed)) return made;
  // Longer than the file, which grows: only bytes that the peer has announced are accessed.
  void* got = ::mmap(nullptr, 2 * kMaxBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, memory_.get(),
                     static_cast<off_t>(window * kMaxBytes));
  TESSERA_CHECK_AS(IoError, got != MAP_FAILED, "cannot map the memory of rank ", rank_, ": ", std::strerror(errno));
  (void)::madvise(got, 2 * kMaxBytes, MADV_DONTFORK);  // like in the peer
  windows_[window].store(static_cast<std::byte*>(got), std::memory_order_release);
  return static_cast<std::byte*>(got);
}

ProcessWorld::ProcessWorld(std::shared_ptr<Store> store, Rank rank)
    : store_(std::move(store)), rank_(rank), machine_(this_machine()) {
  store_->set(key_of(rank), machine_ + " " + server_.address());
}

std::vector<Rank> ProcessWorld::missing(int world_size) {
  std::vector<Rank> none;
  for (int rank = 0; rank < world_size; ++rank) {
    if (!store_->find(key_of(Rank(rank)))) none.emplace_back(rank);
  }
  return none;
}

void ProcessWorld::meet(int world_size, std::chrono::nanoseconds timeout, NoticeDelays delays) {
  std::vector<std::string> keys;
  for (int rank = 0; rank < world_size; ++rank) keys.push_back(key_of(Rank(rank)));
  const auto until = std::chrono::steady_clock::now() + std::clamp(timeout, std::chrono::nanoseconds(0), kLongest);
  WaitNotice notice(std::chrono::steady_clock::now(), delays);
  while (true) {
    try {
      return store_->wait(keys, std::min(until, notice.next()) - std::chrono::steady_clock::now());
    } catch (const TimeoutError&) {
      const std::vector<Rank> absent = missing(world_size);
      if (absent.empty()) return;
      std::string names;
      for (const Rank rank : absent) names += (names.empty() ? "" : ", ") + key_of(rank);
      const auto now = std::chrono::steady_clock::now();
      TESSERA_CHECK_AS(TimeoutError, now < until, "init: all ", world_size, " ranks must join within ", timeout,
                       ", but ", names, " did not, at ", store_->text());
      Rank first(0);  // of the ranks that have arrived
      while (std::ranges::find(absent, first) != absent.end()) first = Rank(first.value() + 1);
      const auto waited = notice.due(now);
      if (waited && first == rank_)
        log::info("init: waiting ", waited->count(), " s for ", names, " of ", world_size, " ranks at ",
                  store_->text());
    }
  }
}

std::string ProcessWorld::published(Rank rank) {
  const std::optional<std::string> text = store_->find(key_of(rank));
  TESSERA_CHECK(text.has_value(), "rank ", rank, " is not registered in ", store_->text());
  return *text;
}

bool ProcessWorld::is_here(Rank rank) {
  const std::string text = published(rank);
  return text.substr(0, text.find(' ')) == machine_;
}

std::shared_ptr<PeerProcess> ProcessWorld::peer(Rank rank, std::chrono::nanoseconds timeout) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<PeerProcess>& process = peers_[rank];
  if (process == nullptr) {
    const std::string text = published(rank);
    process = std::make_shared<PeerProcess>(rank, text.substr(text.find(' ') + 1), timeout);
  }
  return process;
}

}  // namespace tessera::comm::detail
