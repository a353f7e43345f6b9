// Several threads in OpenBLAS at once: each gets what it gets alone.
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "tessera/ops/matrix/detail/blas.h"

// Of OpenBLAS; the linker leads both to ours.
extern "C" {
void* blas_memory_alloc(int position);
void blas_memory_free(void* buffer);
}

namespace tessera::ops::detail {
namespace {

struct Product {
  std::vector<double> a, b, c;
  GemmSizes sizes;

  explicit Product(std::int64_t rows) : a(rows * 3), b(7 * 3), c(rows * 7), sizes{rows, 7, 3} {
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = 0.37 * static_cast<double>(i) + static_cast<double>(rows);
    for (std::size_t i = 0; i < b.size(); ++i) b[i] = 0.11 * static_cast<double>(i) - static_cast<double>(rows);
  }
  void run() {
    blas_gemm(sizes, 1.0, BlasMatrix<double>{a.data(), 3, false}, BlasMatrix<double>{b.data(), 3, true}, 0.0, c.data(),
              7);
  }
};

TEST(BlasMemory, ThreadsDoNotShareIt) {
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (std::int64_t rows = 5; rows < 9; ++rows) {
    threads.emplace_back([&wrong, rows] {
      Product product(rows);
      product.run();
      const std::vector<double> alone = product.c;
      for (int i = 0; i < 300'000; ++i) {
        product.run();
        if (product.c != alone) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(BlasMemory, MoreThreadsThanItHasBuffersAllGetOneOfTheirOwn) {
  constexpr int kThreads = 400;
  for (int round = 0; round < 8; ++round) {
    std::atomic<int> come{0};
    std::atomic<int> wrong{0};
    std::mutex mutex;
    std::set<void*> held;
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] {
        ++come;
        come.notify_all();
        void* buffer = blas_memory_alloc(0);
        {
          const std::lock_guard lock(mutex);
          if (buffer == nullptr || !held.insert(buffer).second) ++wrong;
        }
        // Who has one keeps it until all have asked.
        for (int so_far = come; so_far < kThreads; so_far = come) come.wait(so_far);
        {
          const std::lock_guard lock(mutex);
          held.erase(buffer);
        }
        if (buffer != nullptr) blas_memory_free(buffer);
      });
    }
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(wrong, 0) << "round " << round;
  }
}

}  // namespace
}  // namespace tessera::ops::detail
