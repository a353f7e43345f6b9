#include "tessera/device/host/detail/bell.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace tessera::device::host::detail {

void Bell::sleep(std::uint32_t seen, std::chrono::nanoseconds longest) {
  if (longest.count() <= 0) return;
  timespec limit{};
  limit.tv_sec = longest.count() / 1'000'000'000;
  limit.tv_nsec = longest.count() % 1'000'000'000;
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&epoch_), FUTEX_WAIT_PRIVATE, seen, &limit, nullptr, 0);
}

void Bell::ring_aloud() {
  epoch_.fetch_add(1);
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&epoch_), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

void SpinLock::lock_slowly() {
  for (int round = 0; taken_.exchange(true, std::memory_order_acquire); ++round) {
    if (round < 100) {
      pause_briefly();
    } else {
      sched_yield();
    }
  }
}

}  // namespace tessera::device::host::detail
