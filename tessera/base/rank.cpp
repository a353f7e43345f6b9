#include "tessera/base/rank.h"

#include <pthread.h>

#include <memory>

#include "tessera/base/error.h"

namespace tessera {

namespace detail {
constinit thread_local probe::Recorder* cached_recorder = nullptr;
constinit thread_local std::uint64_t rank_changes = 0;
}  // namespace detail

namespace {

// The initial world of one of a process. Never destroyed: threads may outlive main.
std::atomic<const std::shared_ptr<RankContext>*> process_rank{nullptr};

void renew_process_rank();

const std::shared_ptr<RankContext>& world_of_one() {
  [[maybe_unused]] static const int kForks = ::pthread_atfork(nullptr, nullptr, renew_process_rank);
  const std::shared_ptr<RankContext>* made = process_rank.load(std::memory_order_acquire);
  if (made != nullptr) return *made;
  auto fresh = std::make_unique<const std::shared_ptr<RankContext>>(std::make_shared<RankContext>(RankPlace{}));
  if (process_rank.compare_exchange_strong(made, fresh.get(), std::memory_order_acq_rel)) return *fresh.release();
  return *made;
}

std::shared_ptr<RankContext>& current_slot() {
  thread_local std::shared_ptr<RankContext> current = world_of_one();
  return current;
}

// In a forked child: the ranks of the parent (that of its process, and that of this thread, which simulate() sets) and
// all their parts stay as they are. Nothing here uses them.
void renew_process_rank() {
  const std::shared_ptr<RankContext>* const inherited = process_rank.exchange(nullptr);
  if (inherited != nullptr) detail::keep_reachable(inherited);
  abandon(current_slot());
  current_slot() = world_of_one();
  detail::cached_recorder = nullptr;
  ++detail::rank_changes;
}

}  // namespace

RankContext::RankContext(RankPlace place) : place_(std::move(place)) {}

RankContext::~RankContext() {
  if (parts_.empty()) return;
  if (!owner_.is_this()) {
    abandon(parts_);
    return;
  }
  // The destructors run as this rank. No handle owns it any more.
  const RankScope scope(std::shared_ptr<RankContext>(std::shared_ptr<void>(), this));
  while (!parts_.empty()) {
    auto last = std::move(parts_.back().second);
    parts_.pop_back();
    last.reset();
  }
}

void* RankContext::part_slot(std::type_index type, const std::function<std::shared_ptr<void>()>& make) {
  owner_.check("rank");
  const std::lock_guard lock(mutex_);
  if (void* found = find_slot(type)) return found;
  auto made = make();
  parts_.emplace_back(type, made);
  return made.get();
}

void* RankContext::find_slot(std::type_index type) const {
  owner_.check("rank");
  const std::lock_guard lock(mutex_);
  for (const auto& [key, part] : parts_) {
    if (key == type) return part.get();
  }
  return nullptr;
}

std::shared_ptr<RankContext> current_rank() { return current_slot(); }
const RankPlace& current_place() { return current_slot()->place(); }

void set_process_place(RankPlace place) {
  RankContext& process = *world_of_one();
  const std::lock_guard lock(process.mutex_);
  TESSERA_CHECK(process.place_.world_size == 1, "this process is already rank ", process.place_.rank, " of ",
                process.place_.world_size);
  TESSERA_CHECK(process.parts_.empty(), "the rank of this process is already in use by ", process.parts_.size(),
                " objects; set its place before creating them");
  process.place_ = std::move(place);
}

RankScope::RankScope(std::shared_ptr<RankContext> rank) : previous_(std::exchange(current_slot(), std::move(rank))) {
  detail::cached_recorder = nullptr;
  ++detail::rank_changes;
}
RankScope::~RankScope() {
  detail::cached_recorder = nullptr;
  ++detail::rank_changes;
  current_slot() = std::move(previous_);
}

Thread::Thread(const std::string& name, std::function<void()> body)
    : thread_([rank = current_rank(), name = name.substr(0, 15), body = std::move(body)]() mutable {
        pthread_setname_np(pthread_self(), name.c_str());
        const RankScope scope(std::move(rank));
        body();
      }) {}

Thread::~Thread() {
  if (joinable()) join();
}

Thread& Thread::operator=(Thread&& other) noexcept {
  if (joinable()) join();
  owner_ = other.owner_;
  thread_ = std::move(other.thread_);
  return *this;
}

void Thread::join() {
  if (owner_.is_this()) return thread_.join();
  std::construct_at(&thread_);  // only its id is dropped: the thread belongs to the parent
}

}  // namespace tessera
