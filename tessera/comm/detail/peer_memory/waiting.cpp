#include "tessera/comm/detail/peer_memory/waiting.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>

#include "tessera/device/host/host_device.h"

namespace tessera::comm::detail {
namespace {

using std::chrono::nanoseconds;

// Time to sleep before checking whether a peer died.
constexpr nanoseconds kNap = std::chrono::milliseconds(5);
// About 20 us of spinning; a peer on a separate core arrives by then if it arrives soon.
constexpr int kSpins = 2000;
constexpr int kCrowdedSpins = 50;
// About 2 us.
constexpr int kLooks = 4000;
constexpr int kYields = 20;

void relax() { __builtin_ia32_pause(); }

// The kernel compares 32 bits: the low half, which every raise changes.
std::uint32_t* low_half(const std::atomic<std::uint64_t>& word) {
  return const_cast<std::uint32_t*>(reinterpret_cast<const std::uint32_t*>(&word));
}

void sleep_on(const std::atomic<std::uint64_t>& word, std::uint64_t seen, nanoseconds most, bool is_shared) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(most);
  const timespec time{.tv_sec = seconds.count(), .tv_nsec = (most - seconds).count()};
  syscall(SYS_futex, low_half(word), is_shared ? FUTEX_WAIT : FUTEX_WAIT_PRIVATE, static_cast<std::uint32_t>(seen),
          &time, nullptr, 0);
}

}  // namespace

// Does not pause between two loads: a load takes as long as the transfer of the word from another core.
bool Waiting::comes_soon(const std::atomic<std::uint64_t>& word, std::uint64_t least) const {
  const int looks = crowded_ || scheduler_ != nullptr ? 1 : kLooks;
  for (int look = 0; look < looks; ++look) {
    if (word.load(std::memory_order_acquire) >= least) return true;
  }
  return false;
}

bool Waiting::wait(const For& what) const {
  if (what.is_there()) return true;
  const auto tell = [&] {
    if (what.before_sleep != nullptr) (*what.before_sleep)();
  };
  if (scheduler_ != nullptr && scheduler_->is_participant()) {
    tell();
    const bool came =
        scheduler_->wait_until([&] { return what.is_there() || what.is_over(); }, what.timeout, what.what);
    return came && what.is_there();
  }
  for (int spin = 0; spin < (crowded_ ? kCrowdedSpins : kSpins); ++spin) {
    if (what.is_there()) return true;
    relax();
  }
  for (int yield = 0; crowded_ && yield < kYields; ++yield) {
    if (what.is_there()) return true;
    sched_yield();
  }
  tell();
  const nanoseconds start = now();
  while (true) {
    // Registered before the word is read again: a rank that raises the word after that sees the sleeper.
    what.sleepers.fetch_add(1, std::memory_order_seq_cst);
    const std::uint64_t seen = what.word.load(std::memory_order_seq_cst);
    const nanoseconds left = what.timeout == nanoseconds::max() ? kNap : what.timeout - (now() - start);
    if (!what.is_there() && left > nanoseconds(0)) sleep_on(what.word, seen, std::min(left, kNap), is_shared_);
    what.sleepers.fetch_sub(1, std::memory_order_relaxed);
    if (what.is_there()) return true;
    if (left <= nanoseconds(0) || what.is_over()) return what.is_there();
  }
}

void Waiting::raise(std::atomic<std::uint64_t>& word, std::uint64_t to, std::atomic<std::uint32_t>& sleepers) const {
  word.store(to, std::memory_order_seq_cst);
  if (sleepers.load(std::memory_order_seq_cst) != 0) wake(word);
}

void Waiting::wake(std::atomic<std::uint64_t>& word) const {
  syscall(SYS_futex, low_half(word), is_shared_ ? FUTEX_WAKE : FUTEX_WAKE_PRIVATE, 1 << 30, nullptr, nullptr, 0);
}

nanoseconds Waiting::now() const {
  if (scheduler_ != nullptr) return scheduler_->now();
  return std::chrono::steady_clock::now().time_since_epoch();
}

}  // namespace tessera::comm::detail
