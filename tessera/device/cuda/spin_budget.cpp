#include "tessera/device/cuda/spin_budget.h"

#include <algorithm>
#include <thread>

#include "tessera/base/error.h"

namespace tessera::device::cuda {
namespace {

double percent(SpinShare share) { return 100.0 * static_cast<double>(share) / static_cast<double>(kWholeDevice); }

}  // namespace

SpinShare share_of(std::uint64_t blocks, std::uint64_t capacity) {
  // A kernel that does not fit once never will: more than the complete device, whatever the number of blocks.
  if (capacity == 0 || blocks > capacity) return kWholeDevice + 1;
  return blocks * kWholeDevice / capacity;
}

bool SpinBudget::fits(const Spinner& spinner, SpinShare share, int streams, SpinShare& taken, int& busy) const {
  taken = 0;
  busy = 0;
  SpinShare own_share = share;
  int own_streams = streams;
  for (const BudgetEntry& entry : entries_) {
    if (entry.spinner == &spinner) {
      own_share = std::max(own_share, entry.share);
      own_streams = std::max(own_streams, entry.streams);
    } else {
      taken += entry.share;
      busy += entry.streams;
    }
  }
  return taken + own_share <= kWholeDevice && busy + own_streams <= max_streams_;
}

SpinBudget::Admission SpinBudget::admit(Spinner& spinner, SpinShare share, int streams) {
  const std::lock_guard lock(mutex_);
  SpinShare taken = 0;
  int busy = 0;
  if (!fits(spinner, share, streams, taken, busy)) {
    drop_ended();
    if (!fits(spinner, share, streams, taken, busy)) {
      TESSERA_CHECK_AS(NotSupported, share <= kWholeDevice, "a spinning launch on ", spinner.spinner_name(),
                       " has more blocks than the device can hold at once, so some would never start; use a smaller "
                       "grid");
      TESSERA_CHECK_AS(NotSupported, streams <= max_streams_, "a graph must spin on at most ", max_streams_,
                       " streams, got ", streams,
                       "; use fewer, or set TESSERA_CUDA_CONNECTIONS up to 32 before the start");
      std::vector<std::string> names;
      for (const BudgetEntry& entry : entries_) names.push_back(entry.spinner->spinner_name());
      TESSERA_THROW(DeviceError, "no room for a spinning launch on ", spinner.spinner_name(), ": ", busy, " of ",
                    max_streams_, " streams already spin and take ", percent(taken),
                    " % of the blocks; this launch needs ", streams, " more and ", percent(share),
                    " %; spinning now: ", names, "; wait for one of them to end");
    }
  }
  enter(spinner, share, streams);
  return Admission(*this, spinner);
}

void SpinBudget::enter(Spinner& spinner, SpinShare share, int streams) {
  for (BudgetEntry& entry : entries_) {
    if (entry.spinner != &spinner) continue;
    entry.share = std::max(entry.share, share);
    entry.streams = std::max(entry.streams, streams);
    ++entry.launching;
    return;
  }
  entries_.push_back({&spinner, share, streams, 1});
}

void SpinBudget::launched(Spinner& spinner) {
  const std::lock_guard lock(mutex_);
  for (BudgetEntry& entry : entries_) {
    if (entry.spinner == &spinner) --entry.launching;
  }
}

void SpinBudget::forget(Spinner& spinner) {
  const std::lock_guard lock(mutex_);
  std::erase_if(entries_, [&](const BudgetEntry& entry) { return entry.spinner == &spinner; });
}

void SpinBudget::drop_ended() {
  std::erase_if(entries_,
                [](const BudgetEntry& entry) { return entry.launching == 0 && entry.spinner->spin_has_ended(); });
}

void SpinBudget::run_put_off(std::vector<std::function<void()>>& calls) {
  for (auto& call : calls) call();
  calls.clear();
}

void SpinBudget::when_quiet(std::function<void()> call) {
  const std::lock_guard lock(mutex_);
  put_off_.push_back(std::move(call));
  drop_ended();
  if (entries_.empty()) run_put_off(put_off_);
}

void SpinBudget::flush() {
  const std::lock_guard lock(mutex_);
  if (put_off_.empty()) return;
  drop_ended();
  if (entries_.empty()) run_put_off(put_off_);
}

void SpinBudget::run_quiet(const char* what, std::chrono::nanoseconds timeout, const std::function<void()>& call) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  for (;;) {
    std::unique_lock lock(mutex_);
    drop_ended();
    if (entries_.empty()) {
      run_put_off(put_off_);
      call();
      return;
    }
    if (Clock::now() - start >= timeout) {
      std::vector<std::string> names;
      for (const BudgetEntry& entry : entries_) names.push_back(entry.spinner->spinner_name());
      TESSERA_THROW(TimeoutError, what, " cannot start while a kernel spins; after ", timeout,
                    " these streams still spin: ", names, "; do it before they start");
    }
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

std::vector<std::string> SpinBudget::spinning() {
  const std::lock_guard lock(mutex_);
  drop_ended();
  std::vector<std::string> names;
  for (const BudgetEntry& entry : entries_) names.push_back(entry.spinner->spinner_name());
  return names;
}

std::size_t SpinBudget::put_off() const {
  const std::lock_guard lock(mutex_);
  return put_off_.size();
}

}  // namespace tessera::device::cuda
