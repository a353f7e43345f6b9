// One GPU: its primary context, what it can do, whether it is lost, and what all its streams share. Contexts are made
// once per process and never destroyed, so that handles may be dropped at any time, at exit too.
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

  /// Makes the context current for this thread. Asks the driver each time (some ns): another library may have changed
  /// it since.
  void make_current() {
    CUcontext current = nullptr;
    if (driver().cuCtxGetCurrent(&current) != CUDA_SUCCESS || current != context_) [[unlikely]]
      set_current();
  }

  /// Throws the error of a driver call, and remembers it if it means that the device is lost.
  [[noreturn, gnu::cold]] void fail(CUresult result, const char* call, SourcePlace place);
  /// Remembers an error that means that the device is lost, throws nothing. Returns whether the call succeeded.
  bool note(CUresult result, const char* call, SourcePlace place) noexcept;
  /// Whether an earlier error ended the context.
  [[nodiscard]] bool is_lost() const { return lost_.load(std::memory_order_acquire); }
  /// The error that ended it; null: it is not lost.
  [[nodiscard]] std::exception_ptr lost_error() const;

  /// A device attribute.
  [[nodiscard]] int attribute(CUdevice_attribute which);
  /// Whether `address` is memory the driver knows: device memory or pinned host memory. Pageable memory is not.
  [[nodiscard]] bool is_known(const void* address);
  /// Keeps in mind which addresses are reserved, so that one with nothing behind it is not taken for host memory.
  void note_reserved(const void* address, std::size_t nbytes);
  void note_released(const void* address);
  [[nodiscard]] bool is_reserved(const void* address) const;
  /// The kernel of hold.cu.
  [[nodiscard]] CudaKernel& hold_kernel() { return *hold_kernel_; }

  [[nodiscard]] CUdevice device() const { return device_; }
  [[nodiscard]] int index() const { return index_; }
  [[nodiscard]] const std::string& pci_bus_id() const { return pci_bus_id_; }
  [[nodiscard]] int multiprocessors() const { return multiprocessors_; }
  [[nodiscard]] bool has_memory_values() const { return has_memory_values_; }
  [[nodiscard]] bool has_overlap() const { return has_overlap_; }
  /// The nearest priority that the device offers.
  [[nodiscard]] int clamp_priority(int priority) const;
  /// A stream with a hardware queue that no other has, as long as there are queues: work behind a spin on a stream
  /// keeps all others of its queue from running. The driver gives queues out in turn, when streams get their first
  /// work; so that is given here, to one stream at a time, and streams that have gone are used again.
  CUresult take_stream(int priority, CUstream& stream);
  /// It is not needed any more.
  void give_back_stream(int priority, CUstream stream) noexcept;
  /// Says so, once, if there are more streams than queues.
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
  std::atomic<int> streams_{0};                // that there are, idle ones too
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
