// The work memory of OpenBLAS, given out by us. The linker leads its calls here (--wrap, cmake/TesseraOptions.cmake),
// for two reasons that stand in decision 0005: the serial build marks its buffers as taken without a lock, so that two
// threads may pack their matrices into the same one; and to free a buffer that it made beyond its 128 it writes past
// the end of their table. So a buffer that it made stays ours, and it is never asked to free one.
#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <thread>
#include <vector>

// NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp,readability-identifier-naming): the linker's
// names
extern "C" {
void* __real_blas_memory_alloc(int position);
void* __wrap_blas_memory_alloc(int position);
void __wrap_blas_memory_free(void* buffer);
}

namespace {

class Buffers {
 public:
  void* take(int position) {
    std::unique_lock lock(mutex_);
    for (;;) {
      freed_.wait(lock, [&] { return taken_ < most_; });
      void* buffer = nullptr;
      if (!free_.empty()) {
        buffer = free_.back();
        free_.pop_back();
      } else {
        buffer = __real_blas_memory_alloc(position);
      }
      if (buffer == nullptr && taken_ > 0) {  // it makes no more: those that there are have to do
        most_ = taken_;
        continue;
      }
      ++taken_;
      return buffer;
    }
  }

  void give_back(void* buffer) {
    {
      const std::lock_guard lock(mutex_);
      free_.push_back(buffer);
      --taken_;
    }
    freed_.notify_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable freed_;
  std::vector<void*> free_;
  std::size_t taken_ = 0;
  // More threads in a product than there are cores only take memory. Who holds a buffer computes and waits for nobody.
  std::size_t most_ = 2 * std::max<std::size_t>(std::thread::hardware_concurrency(), 4);
};

Buffers& buffers() {
  static auto& all = *new Buffers;  // to the end of the process: threads may be in a product when statics end
  return all;
}

}  // namespace

void* __wrap_blas_memory_alloc(int position) { return buffers().take(position); }

void __wrap_blas_memory_free(void* buffer) { buffers().give_back(buffer); }
// NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp,readability-identifier-naming)
