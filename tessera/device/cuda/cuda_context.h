// One GPU: its primary context, its capabilities, whether it is lost, and the state that its streams share. Contexts
// are created once per process and never destroyed, so that handles may be released at any time, even at exit.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "tessera/device/cuda/cuda_capture.h"
#include "tessera/device/cuda/cuda_error.h"
#include "tessera/device/cuda/event_pool.h"
#include "tessera/device/cuda/pinned_words.h"
#include "tessera/device/cuda/retired.h"
#include "tessera/device/cuda/spin_budget.h"

namespace tessera::device::cuda {

class CudaKernel;

/// The shared state of one GPU. Thread-safe.
class CudaContext {
 public:
  /// Retains the primary context of GPU number `index`.
  explicit CudaContext(int index);

  /// Makes the context current for this thread. Queries the driver each time (a few ns), since another library may have
  /// changed it.
  void make_current() {
    CUcontext current = nullptr;
    if (driver().cuCtxGetCurrent(&current) != CUDA_SUCCESS || current != context_) [[unlikely]]
      set_current();
  }

  /// Throws the error of a driver call, and stores it if the device is lost.
  [[noreturn, gnu::cold]] void fail(CUresult result, const char* call, SourcePlace place);
  /// Stores an error if it means that the device is lost; throws nothing. Returns true if the call succeeded.
  bool note(CUresult result, const char* call, SourcePlace place) noexcept;
  /// Returns true if an earlier error ended the context.
  [[nodiscard]] bool is_lost() const { return lost_.load(std::memory_order_acquire); }
  /// Returns the error that ended the context, or null.
  [[nodiscard]] std::exception_ptr lost_error() const;

  /// Returns a device attribute.
  [[nodiscard]] int attribute(CUdevice_attribute which);
  /// Returns true if the driver knows `address`: device memory or pinned host memory, but not pageable memory.
  [[nodiscard]] bool is_known(const void* address);
  /// Notes reserved addresses, so that unmapped ones are not mistaken for host memory.
  void note_reserved(const void* address, std::size_t nbytes);
  void note_released(const void* address);
  [[nodiscard]] bool is_reserved(const void* address) const;
  /// Returns the kernel of hold.cu.
  [[nodiscard]] CudaKernel& hold_kernel() { return *hold_kernel_; }

  [[nodiscard]] CUdevice device() const { return device_; }
  [[nodiscard]] int index() const { return index_; }
  [[nodiscard]] const std::string& pci_bus_id() const { return pci_bus_id_; }
  [[nodiscard]] int multiprocessors() const { return multiprocessors_; }
  [[nodiscard]] bool has_memory_values() const { return has_memory_values_; }
  [[nodiscard]] bool has_overlap() const { return has_overlap_; }
  /// Returns the nearest priority that the device supports.
  [[nodiscard]] int clamp_priority(int priority) const;
  /// Returns a stream with an exclusive hardware queue, while there are queues left: work after a spin on a stream
  /// blocks all other streams of its queue. The driver assigns queues in turn, when streams get their first work. This
  /// function therefore gives new streams work one at a time, and reuses streams that were returned.
  CUresult take_stream(int priority, CUstream& stream);
  /// Returns a stream for reuse.
  void give_back_stream(int priority, CUstream stream) noexcept;
  /// Warns once if there are more streams than queues.
  void warn_of_shared_queues();
  SpinBudget& spins() { return spins_; }
  PinnedWords& words() { return words_; }
  EventPool& events() { return events_; }
  RetiredStack& retired() { return retired_; }
  CaptureRegistry& captures() { return captures_; }

 private:
  [[gnu::cold]] void set_current();

  const int index_;
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
  std::string pci_bus_id_;
  int multiprocessors_ = 0;
  bool has_memory_values_ = false;
  bool has_overlap_ = false;
  int lowest_priority_ = 0;
  int highest_priority_ = 0;
  std::atomic<bool> lost_{false};
  mutable std::mutex lost_mutex_;
  std::exception_ptr lost_error_;
  mutable std::mutex reserved_mutex_;
  std::map<std::uintptr_t, std::size_t> reserved_;
  std::mutex queue_mutex_;
  std::multimap<int, CUstream> idle_streams_;  // by priority
  std::atomic<int> streams_{0};                // number of streams, including idle ones
  std::atomic<bool> has_warned_of_queues_{false};
  SpinBudget spins_;
  PinnedWords words_;
  void* first_word_ = nullptr;
  EventPool events_;
  RetiredStack retired_;
  CaptureRegistry captures_;
  std::shared_ptr<CudaKernel> hold_kernel_;
};

}  // namespace tessera::device::cuda
