#include "tessera/train/checkpoint/detail/meeting.h"

#include <algorithm>

#include "tessera/base/error.h"

namespace tessera::train::detail {
namespace {

using Clock = std::chrono::steady_clock;
// How long a failure of another rank, or being abandoned, may go unseen.
constexpr std::chrono::milliseconds kLook(100);

}  // namespace

Meeting::Meeting(std::shared_ptr<comm::Store> store, std::string name, int rank, int world_size,
                 std::chrono::nanoseconds timeout, const std::atomic<bool>& is_abandoned)
    : store_(std::move(store)),
      name_(std::move(name)),
      rank_(rank),
      world_size_(world_size),
      timeout_(timeout),
      is_abandoned_(is_abandoned) {}

void Meeting::say(const std::string& what, const std::string& text) { store_->set(key(what), text); }

void Meeting::fail(const std::string& why) noexcept {
  try {
    store_->compare_set(key("failed"), std::nullopt, tessera::detail::concat("rank ", rank_, ": ", why));
  } catch (const std::exception&) {  // the store is gone: the others find out at their deadline
  }
}

void Meeting::wait(const std::vector<std::string>& keys, const std::vector<std::string>& who,
                   std::chrono::nanoseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  for (;;) {
    try {
      return store_->wait(keys, std::min<std::chrono::nanoseconds>(kLook, timeout));
    } catch (const TimeoutError&) {
    }
    TESSERA_CHECK_AS(AbortedError, !is_abandoned_, "the checkpoint was given up");
    const auto failed = store_->find(key("failed"));
    TESSERA_CHECK_AS(AbortedError, !failed, failed.value_or(""));
    if (Clock::now() < deadline) continue;
    std::string missing;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (!store_->find(keys[i])) missing += (missing.empty() ? "" : ", ") + who[i];
    }
    TESSERA_THROW(TimeoutError, missing.empty() ? "some rank" : missing, " did not come within ", timeout,
                  "; see whether it lives and whether all ranks save at the same steps");
  }
}

std::string Meeting::hear(const std::string& what, int times) {
  wait({key(what)}, {"rank 0"}, timeout_ * times);
  return store_->get(key(what), kLook);
}

std::vector<std::string> Meeting::hear_all(const std::string& what) {
  std::vector<std::string> keys;
  std::vector<std::string> who;
  for (int r = 0; r < world_size_; ++r) {
    keys.push_back(key(tessera::detail::concat(what, '/', r)));
    who.push_back(tessera::detail::concat("rank ", r));
  }
  wait(keys, who, timeout_);
  std::vector<std::string> texts;
  for (const std::string& each : keys) texts.push_back(store_->get(each, kLook));
  return texts;
}

void Meeting::forget() {
  for (const std::string& each : store_->keys(name_ + "/")) store_->remove(each);
}

}  // namespace tessera::train::detail
