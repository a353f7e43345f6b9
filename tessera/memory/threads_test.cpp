// One allocator, many threads: each with a separate stream and sequence, buffers passed between them. At the end the
// identity holds and nothing is left. Run under the thread sanitizer; contents are checked too.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "tessera/base/error.h"
#include "tessera/device/host/host_device.h"
#include "tessera/memory/allocator.h"
#include "tessera/memory/graph_capture.h"
#include "tessera/memory/testing/random_numbers.h"

namespace tessera::memory {
namespace {

using testing::RandomNumbers;

constexpr int kThreads = 16;

// A buffer on its way to another thread: its receiver comes after `ready`.
struct Parcel {
  Buffer buffer;
  Event ready;
};

class Exchange {
 public:
  void put(Parcel parcel) {
    const std::lock_guard lock(mutex_);
    parcels_.push_back(std::move(parcel));
  }
  std::optional<Parcel> take() {
    const std::lock_guard lock(mutex_);
    if (parcels_.empty()) return std::nullopt;
    Parcel parcel = std::move(parcels_.front());
    parcels_.pop_front();
    return parcel;
  }

 private:
  std::mutex mutex_;
  std::deque<Parcel> parcels_;
};

void run_threads(const std::function<void(int)>& body, int count = kThreads) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back([&body, i] { body(i); });
  for (std::thread& thread : threads) thread.join();
}

void expect_whole(const Allocator& allocator, std::uint64_t live) {
  const Snapshot snapshot = allocator.snapshot();
  EXPECT_EQ(snapshot.inconsistency(), "");
  EXPECT_TRUE(snapshot.totals().closes());
  EXPECT_EQ(snapshot.totals(), allocator.statistics().now);
  EXPECT_EQ(snapshot.totals().live_blocks, live);
}

void expect_empty(const Device& device, const Allocator& allocator) {
  device.synchronize();
  expect_whole(allocator, 0);
  allocator.trim();
  EXPECT_EQ(allocator.statistics().now.reserved_nbytes, 0U);
}

// Steps of one thread: fills its buffers, and checks received ones by copying them on its own stream.
class Worker {
 public:
  Worker(const Device& device, Allocator allocator, Exchange& exchange, int number)
      : device_(device),
        allocator_(std::move(allocator)),
        exchange_(exchange),
        random_(static_cast<std::uint64_t>(number) + 1),
        stream_(device.create_stream()) {}

  void run(int steps) {
    for (int i = 0; i < steps; ++i) step();
    mine_.clear();
    stream_.synchronize();
  }

 private:
  void step() {
    const int choice = random_.below(100);
    if (choice < 45) {
      make();
    } else if (choice < 75) {
      if (!mine_.empty()) mine_.erase(mine_.begin() + random_.below(static_cast<int>(mine_.size())));
    } else if (choice < 85) {
      if (mine_.empty()) return;
      Parcel parcel{std::move(mine_.back()), device_.create_event()};
      mine_.pop_back();
      stream_.record(parcel.ready);
      exchange_.put(std::move(parcel));
    } else if (choice < 95) {
      std::optional<Parcel> parcel = exchange_.take();
      if (!parcel.has_value()) return;
      stream_.wait(parcel->ready);
      parcel->buffer.use_on(stream_);
      stream_.run([data = parcel->buffer.data()] {
        for (int i = 0; i < 64; ++i) {
          if (data[i] != std::byte{0x5A}) std::abort();
        }
      });
    } else if (choice < 97) {
      allocator_.trim();
    } else if (choice < 98) {
      EXPECT_EQ(allocator_.snapshot().inconsistency(), "");
    } else {
      EXPECT_TRUE(allocator_.statistics().now.closes());
    }
  }

  // With a limit, not all may fit together; then this thread frees some.
  void make() {
    try {
      Buffer buffer = allocator_.allocate(64 + random_.bits() % (std::size_t{64} << random_.below(14)), stream_);
      stream_.fill(buffer.data(), 0x5A, 1, 64);
      mine_.push_back(std::move(buffer));
      if (mine_.size() > 20) mine_.erase(mine_.begin() + random_.below(20));
    } catch (const OutOfMemory&) {
      mine_.clear();
    }
  }

  Device device_;
  Allocator allocator_;
  Exchange& exchange_;
  RandomNumbers random_;
  Stream stream_;
  std::vector<Buffer> mine_;
};

TEST(Threads, ShareAnAllocatorAndHandBuffersOver) {
  for (const std::size_t limit : {std::size_t{0}, std::size_t{24} << 20}) {
    const Device device = device::host::make_host_device();
    const Allocator allocator(device, {.policy = {.granule_nbytes = std::size_t{64} << 10, .limit_nbytes = limit}});
    Exchange exchange;
    run_threads([&](int i) { Worker(device, allocator, exchange, i).run(2000); });
    while (exchange.take().has_value()) {
    }
    expect_empty(device, allocator);
  }
}

// The last handle is destroyed while others still free.
TEST(Threads, FreeWhileTheAllocatorGoes) {
  const Device device = device::host::make_host_device();
  for (int round = 0; round < 50; ++round) {
    Allocator allocator(device, {.policy = {.granule_nbytes = std::size_t{64} << 10}});
    std::vector<std::vector<Buffer>> buffers(4);
    std::vector<Stream> streams;
    Pool pool = allocator.create_pool({});
    for (auto& mine : buffers) {
      streams.push_back(device.create_stream());
      for (int i = 0; i < 8; ++i) mine.push_back(allocator.allocate(1000, streams.back()));
      const PoolScope scope(pool);
      for (int i = 0; i < 8; ++i) mine.push_back(allocator.allocate(1000, streams.back()));
    }
    run_threads(
        [&](int i) {
          if (i == 4) {
            pool = {};
            allocator = {};
          } else {
            buffers[static_cast<std::size_t>(i)].clear();
          }
        },
        5);
  }
  device.synchronize();
  EXPECT_EQ(device.memory_use().own_nbytes, 0U);
}

TEST(Threads, BorrowFromPoolsThatComeAndGo) {
  const Device device = device::host::make_host_device();
  const Allocator allocator(
      device, {.policy = {.granule_nbytes = std::size_t{64} << 10, .limit_nbytes = std::size_t{1} << 20}});
  run_threads(
      [&](int i) {
        const Stream stream = device.create_stream();
        for (int round = 0; round < 60; ++round) {
          try {
            if (i % 2 == 0) {
              const Pool pool = allocator.create_pool({.borrow_on_oom = true});
              const PoolScope scope(pool);
              static_cast<void>(allocator.allocate(std::size_t{200} << 10, stream));
            } else {
              static_cast<void>(allocator.allocate(std::size_t{400} << 10, stream));
            }
          } catch (const OutOfMemory&) {  // NOLINT(bugprone-empty-catch): there is not room for all
          }
        }
        stream.synchronize();
      },
      4);
  expect_empty(device, allocator);
}

// Two threads capture into one pool, one trims, one allocates eagerly.
TEST(Threads, CaptureIntoOnePoolWhileAnotherTrims) {
  const Device device = device::host::make_host_device();
  const Allocator allocator(device, {.policy = {.granule_nbytes = std::size_t{64} << 10}});
  const Pool pool = allocator.create_pool({});
  std::atomic<int> capturing{2};
  run_threads(
      [&](int i) {
        const Stream stream = device.create_stream();
        const Stream side = device.create_stream();
        RandomNumbers random(static_cast<std::uint64_t>(i) + 77);
        for (int round = 0; i < 2 && round < 60; ++round) {
          GraphCapture capture(pool, stream);
          std::vector<Buffer> mine;
          for (int k = 0; k < 12; ++k) {
            mine.push_back(allocator.allocate(64 + random.bits() % 100000, stream));
            stream.fill(mine.back().data(), 1, 1, 64);
            if (random.one_in(2)) mine.erase(mine.begin());
          }
          const Event event = device.create_event();
          stream.record(event);
          side.wait(event);
          mine.push_back(allocator.allocate(500, side));
          side.fill(mine.back().data(), 2, 1, 64);
          const Event back = device.create_event();
          side.record(back);
          stream.wait(back);
          const CapturedGraph graph = capture.end();
          try {
            graph.replay(stream);
          } catch (const InvalidArgument&) {  // NOLINT(bugprone-empty-catch): the other's replay may still run
          }
          if (random.one_in(3)) mine.clear();
          stream.synchronize();
        }
        if (i < 2) --capturing;
        while (i >= 2 && capturing > 0) {
          if (i == 2) {
            allocator.trim();
            EXPECT_EQ(allocator.snapshot().inconsistency(), "");
          } else {
            const Buffer eager = allocator.allocate(1 + random.bits() % 300000, stream);
            stream.fill(eager.data(), 3, 1, 1);
          }
          std::this_thread::yield();
        }
      },
      4);
  expect_empty(device, allocator);
}

}  // namespace
}  // namespace tessera::memory
