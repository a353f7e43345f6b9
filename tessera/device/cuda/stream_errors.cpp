#include "tessera/device/cuda/stream_errors.h"

#include <algorithm>

#include "tessera/base/error.h"

namespace tessera::device::cuda {
namespace {

// Cleared failures are kept for streams that have not read their inherited failures yet, up to this number.
constexpr std::size_t kMaxFailures = 16;

// Locked before any stream's own lock. A search through sources crosses streams that may have inherited from each
// other, so one thread does it at a time. It happens only after a failure, or while work that can fail is pending.
std::recursive_mutex& settling() {
  static auto& mutex = *new std::recursive_mutex;
  return mutex;
}

}  // namespace

void StreamErrors::count_risk() {
  const auto live = std::count_if(failures_.begin(), failures_.end(),
                                  [](const StreamFailure& failure) { return failure.forgotten_at == 0; });
  at_risk_.store(pending_.size() + holds_.size() + sources_.size() + static_cast<std::size_t>(live),
                 std::memory_order_relaxed);
}

StreamErrors::Place StreamErrors::expect() {
  const std::lock_guard lock(mutex_);
  // Room for its failure too, so that finish() does not allocate in the driver's thread.
  failures_.reserve(failures_.size() + pending_.size() + 1);
  pending_.push_back(next_);
  count_risk();
  return next_++;
}

void StreamErrors::finish(Place place, std::exception_ptr error) noexcept {
  const std::lock_guard lock(mutex_);
  std::erase(pending_, place);
  if (error != nullptr) add_failure(place, std::move(error));
  count_risk();
}

void StreamErrors::expect_hold(std::shared_ptr<HoldWords> words, std::string message) {
  const std::lock_guard lock(mutex_);
  holds_.push_back({next_++, std::move(words), std::move(message)});
  count_risk();
}

StreamErrors::Place StreamErrors::mark() {
  const std::lock_guard lock(mutex_);
  return next_++;
}

void StreamErrors::add_failure(Place place, std::exception_ptr error) {
  if (failures_.size() >= kMaxFailures) failures_.erase(failures_.begin());
  const auto at =
      std::find_if(failures_.begin(), failures_.end(), [&](const StreamFailure& f) { return f.place > place; });
  failures_.insert(at, {place, std::move(error), 0});
}

void StreamErrors::look_at_holds() {
  std::erase_if(holds_, [&](const PendingHold& hold) {
    if (!hold.words->has_ended()) return false;
    if (hold.words->has_expired()) {
      add_failure(hold.place, std::make_exception_ptr(TimeoutError({__FILE__, __LINE__}, hold.message)));
    }
    return true;
  });
  count_risk();
}

void StreamErrors::inherit(const std::shared_ptr<StreamErrors>& from, Place up_to) {
  if (from.get() == this) return;
  if (from->is_settled(up_to)) return;
  settle_sources();
  const std::lock_guard lock(mutex_);
  sources_.push_back({from, up_to, next_++});
  count_risk();
}

bool StreamErrors::is_settled(Place up_to) {
  const std::lock_guard lock(mutex_);
  look_at_holds();
  const auto before_it = [&](const auto& what) { return what.place < up_to; };
  return std::none_of(pending_.begin(), pending_.end(), [&](Place place) { return place < up_to; }) &&
         std::none_of(holds_.begin(), holds_.end(), before_it) &&
         std::none_of(failures_.begin(), failures_.end(), [&](const StreamFailure& f) { return f.strikes(up_to); }) &&
         std::none_of(sources_.begin(), sources_.end(), [&](const ErrorSource& source) { return source.at < up_to; });
}

// Takes over the failures of sources, and drops sources that can no longer fail.
void StreamErrors::settle_sources() {
  const std::lock_guard one(settling());
  std::vector<ErrorSource> sources;
  {
    const std::lock_guard lock(mutex_);
    if (is_settling_ || sources_.empty()) return;
    is_settling_ = true;
    sources = sources_;
  }
  std::vector<StreamFailure> found;
  std::vector<Place> done;
  for (const ErrorSource& source : sources) {
    source.from->settle_sources();
    auto error = source.from->inherited_before(source.up_to);
    if (error == nullptr && !source.from->is_settled(source.up_to)) continue;
    done.push_back(source.at);
    if (error != nullptr) found.push_back({source.at, std::move(error), 0});
  }
  const std::lock_guard lock(mutex_);
  is_settling_ = false;
  for (StreamFailure& failure : found) add_failure(failure.place, std::move(failure.error));
  std::erase_if(sources_, [&](const ErrorSource& source) {
    return std::find(done.begin(), done.end(), source.at) != done.end();
  });
  count_risk();
}

// For streams after this one: failures cleared here still apply to them.
std::exception_ptr StreamErrors::inherited_before(Place up_to) {
  const std::lock_guard lock(mutex_);
  look_at_holds();
  for (const StreamFailure& failure : failures_) {
    if (failure.strikes(up_to)) return failure.error;
  }
  return nullptr;
}

std::exception_ptr StreamErrors::before(Place up_to) {
  if (is_clean()) return nullptr;
  settle_sources();
  const std::lock_guard lock(mutex_);
  look_at_holds();
  for (StreamFailure& failure : failures_) {
    if (failure.place >= up_to || failure.forgotten_at != 0) continue;
    return failure.error;
  }
  return nullptr;
}

void StreamErrors::reset() {
  settle_sources();
  const std::lock_guard lock(mutex_);
  look_at_holds();
  const Place now = next_++;
  for (StreamFailure& failure : failures_) {
    if (failure.forgotten_at == 0) failure.forgotten_at = now;
  }
  count_risk();
}

}  // namespace tessera::device::cuda
