#include "tessera/ops/parallel.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "tessera/base/env.h"
#include "tessera/base/error.h"
#include "tessera/base/rank.h"

namespace tessera::ops::detail {
namespace {

int default_budget() {
  if (const int asked = env::threads(); asked > 0) return asked;
  const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  return std::max(1, cores / std::max(1, current_place().local_world_size));
}

// One loop. Threads take chunks by incrementing a counter; the first error is kept.
struct SharedLoop {
  SharedLoop(std::int64_t all, std::int64_t each, PieceFn of) : count(all), grain(each), piece(of) {}

  std::shared_ptr<RankContext> rank = current_rank();
  std::int64_t count;
  std::int64_t grain;
  PieceFn piece;
  std::atomic<std::int64_t> next{0};
  std::atomic<std::int64_t> first_failed{INT64_MAX};
  std::mutex error_mutex;
  std::exception_ptr error;

  void work() {
    while (true) {
      const std::int64_t begin = next.fetch_add(grain, std::memory_order_relaxed);
      if (begin >= count) return;
      try {
        piece.call(piece.body, begin, std::min(begin + grain, count));
      } catch (...) {
        keep_error(begin);
      }
    }
  }
  void keep_error(std::int64_t begin) {
    const std::lock_guard lock(error_mutex);
    if (begin >= first_failed) return;
    first_failed = begin;
    error = std::current_exception();
  }
};

// Number of polls before a thread sleeps, 30 to 100 us in total. A wake-up costs tens of microseconds, as much as a
// small kernel, and the next loop of a step usually starts sooner.
constexpr int kLooksBeforeSleep = 2000;

// Returns when `is_there()` is true, or after a while.
template <class F>
void look_for(const F& is_there) {
  for (int i = 0; i < kLooksBeforeSleep && !is_there(); ++i) __builtin_ia32_pause();
}

// The helper threads of one rank; they sleep between loops. The rank owns them. They reference the rank only during a
// loop, because threads that held the rank would keep it alive forever.
class ThreadPool {
 public:
  ThreadPool() : budget_(default_budget()) {}
  ~ThreadPool() { stop(); }

  int budget() const { return budget_.load(std::memory_order_relaxed); }
  void set_budget(int threads) {
    const std::lock_guard lock(busy_);
    stop();
    budget_ = threads;
  }

  std::uint64_t requested() const { return requested_.load(std::memory_order_relaxed); }

  // Runs the loop with the helpers, or on the caller only if another loop uses them. Wakes at most one helper per
  // chunk. The caller waits only for helpers that have joined; a helper that wakes after the last chunk finds no loop.
  void run(SharedLoop& loop) {
    const std::unique_lock busy(busy_, std::try_to_lock);
    const std::int64_t pieces = (loop.count + loop.grain - 1) / loop.grain;
    const int helpers = static_cast<int>(std::min<std::int64_t>(budget() - 1, pieces - 1));
    if (!busy.owns_lock() || helpers <= 0) {
      loop.work();
      return;
    }
    start(helpers);
    requested_.fetch_add(static_cast<std::uint64_t>(helpers), std::memory_order_relaxed);
    {
      const std::lock_guard lock(mutex_);
      loop_ = &loop;
      wanted_ = helpers;
    }
    wake(helpers);
    loop.work();
    {
      const std::lock_guard lock(mutex_);
      loop_ = nullptr;
      wanted_ = 0;
    }
    look_for([&] { return working_ == 0; });
    std::unique_lock lock(mutex_);
    done_.wait(lock, [&] { return working_ == 0; });
  }

 private:
  void start(int helpers) {
    while (static_cast<int>(threads_.size()) < helpers) {
      threads_.emplace_back([this] {
        pthread_setname_np(pthread_self(), "ops");
        help();
      });
    }
  }
  // A wake-up costs microseconds, so each thread wakes two others.
  void wake(int left) {
    for (int i = 0; i < std::min(left, 2); ++i) wake_.notify_one();
  }
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      is_stopping_ = true;
    }
    wake_.notify_all();
    threads_.clear();
    is_stopping_ = false;
  }
  void help() {
    std::unique_lock lock(mutex_);
    while (true) {
      if (!is_stopping_ && wanted_ == 0) {
        lock.unlock();
        look_for([&] { return is_stopping_ || wanted_ > 0; });
        lock.lock();
      }
      wake_.wait(lock, [&] { return is_stopping_ || wanted_ > 0; });
      if (is_stopping_) return;
      SharedLoop* loop = loop_;
      const int left = --wanted_;
      ++working_;
      lock.unlock();
      wake(left);
      {
        const RankScope scope(loop->rank);
        loop->work();
      }
      lock.lock();
      if (--working_ == 0) done_.notify_one();
    }
  }

  std::atomic<int> budget_;
  std::mutex busy_;  // held by the loop that has the helpers
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_;
  SharedLoop* loop_ = nullptr;
  // Changed under the mutex.
  std::atomic<int> wanted_{0};   // helpers that may still join the loop
  std::atomic<int> working_{0};  // helpers that have joined
  std::atomic<std::uint64_t> requested_{0};
  std::atomic<bool> is_stopping_{false};
  std::vector<std::jthread> threads_;
};

ThreadPool& pool() {
  return current_rank()->part<ThreadPool>([] { return std::make_shared<ThreadPool>(); });
}

// A loop that a chunk of another loop starts runs on its caller only.
constinit thread_local bool is_in_piece = false;

}  // namespace

int thread_budget() { return pool().budget(); }
std::uint64_t helpers_requested() { return pool().requested(); }

void set_thread_budget(int threads) {
  TESSERA_CHECK(threads >= 1, "threads must be at least 1, got ", threads);
  pool().set_budget(threads);
}

void run_pieces(std::int64_t count, std::int64_t grain, PieceFn piece) {
  TESSERA_CHECK(grain >= 1, "grain must be at least 1, got ", grain);
  SharedLoop loop(count, grain, piece);
  if (is_in_piece) {
    loop.work();
  } else {
    is_in_piece = true;
    pool().run(loop);
    is_in_piece = false;
  }
  if (loop.error) std::rethrow_exception(loop.error);
}

}  // namespace tessera::ops::detail
