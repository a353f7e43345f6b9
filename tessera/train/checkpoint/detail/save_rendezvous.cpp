#include "tessera/train/checkpoint/detail/save_rendezvous.h"

#include <algorithm>
#include <utility>

#include "tessera/base/error.h"

namespace tessera::train::detail {
namespace {

using Clock = std::chrono::steady_clock;
// Polling interval for a failure of another rank, or for abandon().
constexpr std::chrono::milliseconds kLook(100);
// Remaining time with short patience.
constexpr std::chrono::seconds kShortTime(3);

}  // namespace

SaveRendezvous::SaveRendezvous(std::shared_ptr<comm::Store> store, std::string name, World world,
                               std::chrono::nanoseconds timeout, const std::atomic<Patience>& patience)
    : store_(std::move(store)),
      name_(std::move(name)),
      world_(std::move(world)),
      timeout_(timeout),
      patience_(patience) {}

void SaveRendezvous::say(const std::string& what, const std::string& text) { store_->set(key(what), text); }

std::optional<std::string> SaveRendezvous::fail(const std::string& why) noexcept {
  try {
    const std::string own = tessera::detail::concat("rank ", world_.rank, ": ", why);
    std::optional<std::string> first = store_->compare_set(key("failed"), std::nullopt, own);
    if (first != own) return first;
  } catch (const std::exception&) {  // the store is gone: the others notice at their deadline
  }
  return std::nullopt;
}

// A rank that published its text may end.
void SaveRendezvous::check_alive(const std::vector<Awaited>& all) {
  if (!world_.lost) return;
  const std::vector<int> lost = world_.lost();
  for (const Awaited& each : all) {
    TESSERA_CHECK_AS(AbortedError, std::ranges::find(lost, each.rank) == lost.end() || store_->find(each.key), "rank ",
                     each.rank, " has ended or left");
  }
}

void SaveRendezvous::wait(const std::vector<Awaited>& all, std::chrono::nanoseconds timeout) {
  auto deadline = Clock::now() + timeout;
  bool is_short = false;
  std::vector<std::string> keys;
  for (const Awaited& each : all) keys.push_back(each.key);
  for (;;) {
    try {
      return store_->wait(keys, std::min<std::chrono::nanoseconds>(kLook, timeout));
    } catch (const TimeoutError&) {
    }
    TESSERA_CHECK_AS(AbortedError, patience_ != Patience::kNone, "the checkpoint was canceled");
    if (patience_ == Patience::kShort && !std::exchange(is_short, true)) {
      deadline = std::min(deadline, Clock::now() + kShortTime);
    }
    const auto failed = store_->find(key("failed"));
    TESSERA_CHECK_AS(AbortedError, !failed, failed.value_or(""));
    check_alive(all);
    if (Clock::now() < deadline) continue;
    std::string missing;
    for (const Awaited& each : all) {
      if (!store_->find(each.key)) missing += tessera::detail::concat(missing.empty() ? "" : ", ", "rank ", each.rank);
    }
    if (missing.empty()) missing = "some rank";
    TESSERA_CHECK_AS(AbortedError, !is_short, "canceled: this rank failed, and ", missing, " did not arrive");
    TESSERA_THROW(TimeoutError, missing, " did not arrive within ", timeout,
                  "; check that it is running and that all ranks save at the same steps");
  }
}

std::string SaveRendezvous::hear(const std::string& what, int times) {
  wait({{0, key(what)}}, timeout_ * times);
  return store_->get(key(what), kLook);
}

std::vector<std::string> SaveRendezvous::hear_all(const std::string& what) {
  std::vector<Awaited> all;
  for (int r = 0; r < world_.size; ++r) all.push_back({r, key(tessera::detail::concat(what, '/', r))});
  wait(all, timeout_);
  std::vector<std::string> texts;
  for (const Awaited& each : all) texts.push_back(store_->get(each.key, kLook));
  return texts;
}

void SaveRendezvous::forget() {
  for (const std::string& each : store_->keys(name_ + "/")) store_->remove(each);
}

}  // namespace tessera::train::detail
