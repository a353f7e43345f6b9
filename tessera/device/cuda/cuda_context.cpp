#include "tessera/device/cuda/cuda_context.h"

#include <algorithm>

#include "tessera/base/log.h"
#include "tessera/device/cuda/cuda_module.h"
#include "tessera/device/cuda/cuda_wait.h"
#include "tessera/device/cuda/hold.h"

namespace tessera::device::cuda {

CudaContext::CudaContext(int index) : index_(index), spins_(driver_state().connections - 1), words_(*this) {
  TESSERA_CUDA(*this, cuDeviceGet, &device_, index);
  TESSERA_CHECK_AS(NotSupported, attribute(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) != 0,
                   "cuda:", index, " cannot map memory (no virtual memory management)");
  TESSERA_CUDA(*this, cuDevicePrimaryCtxRetain, &context_, device_);
  make_current();
  char pci_bus_id[32] = {};
  TESSERA_CUDA(*this, cuDeviceGetPCIBusId, pci_bus_id, sizeof pci_bus_id, device_);
  pci_bus_id_ = pci_bus_id;
  multiprocessors_ = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  has_memory_values_ = attribute(CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS) != 0;
  has_overlap_ = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) >= 9;
  TESSERA_CUDA(*this, cuCtxGetStreamPriorityRange, &lowest_priority_, &highest_priority_);
  first_word_ = words_.take();
  // Loaded now, since loading a module waits for spinning kernels.
  hold_kernel_ = load_hold_kernel(*this);
}

void CudaContext::set_current() { TESSERA_CUDA(*this, cuCtxSetCurrent, context_); }

void CudaContext::fail(CUresult result, const char* call, SourcePlace place) {
  note(result, call, place);
  std::rethrow_exception(make_error(result, call, place));
}

bool CudaContext::note(CUresult result, const char* call, SourcePlace place) noexcept {
  if (result == CUDA_SUCCESS) return true;
  if (!is_sticky(result)) return false;
  const std::lock_guard lock(lost_mutex_);
  if (lost_error_ == nullptr) lost_error_ = make_error(result, call, place);
  lost_.store(true, std::memory_order_release);
  return false;
}

std::exception_ptr CudaContext::lost_error() const {
  if (!is_lost()) return nullptr;
  const std::lock_guard lock(lost_mutex_);
  return lost_error_;
}

int CudaContext::attribute(CUdevice_attribute which) {
  int value = 0;
  TESSERA_CUDA(*this, cuDeviceGetAttribute, &value, which, device_);
  return value;
}

bool CudaContext::is_known(const void* address) {
  make_current();
  unsigned int type = 0;
  const CUresult result =
      driver().cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, reinterpret_cast<CUdeviceptr>(address));
  if (result == CUDA_ERROR_INVALID_VALUE) return false;
  if (result != CUDA_SUCCESS) fail(result, "cuPointerGetAttribute", {__FILE__, __LINE__});
  return true;
}

void CudaContext::note_reserved(const void* address, std::size_t nbytes) {
  const std::lock_guard lock(reserved_mutex_);
  reserved_[reinterpret_cast<std::uintptr_t>(address)] = nbytes;
}

void CudaContext::note_released(const void* address) {
  const std::lock_guard lock(reserved_mutex_);
  reserved_.erase(reinterpret_cast<std::uintptr_t>(address));
}

bool CudaContext::is_reserved(const void* address) const {
  const auto place = reinterpret_cast<std::uintptr_t>(address);
  const std::lock_guard lock(reserved_mutex_);
  auto after = reserved_.upper_bound(place);
  if (after == reserved_.begin()) return false;
  --after;
  return place - after->first < after->second;
}

CUresult CudaContext::take_stream(int priority, CUstream& stream) {
  {
    const std::lock_guard lock(queue_mutex_);
    if (const auto idle = idle_streams_.find(priority); idle != idle_streams_.end()) {
      stream = idle->second;
      idle_streams_.erase(idle);
      return CUDA_SUCCESS;
    }
    CUresult result = driver().cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, priority);
    if (result != CUDA_SUCCESS) return result;
    result = driver().cuMemsetD32Async(reinterpret_cast<CUdeviceptr>(first_word_), 0, 1, stream);
    if (result != CUDA_SUCCESS) {
      driver().cuStreamDestroy(stream);
      return result;
    }
    ++streams_;
  }
  // A new stream is idle, unless all queues are busy.
  poll_until(std::chrono::milliseconds(1), [&] { return driver().cuStreamQuery(stream) != CUDA_ERROR_NOT_READY; });
  return CUDA_SUCCESS;
}

void CudaContext::give_back_stream(int priority, CUstream stream) noexcept {
  // A stream with pending work, or in a capture, is destroyed after that.
  if (!is_lost() && driver().cuStreamQuery(stream) == CUDA_SUCCESS) {
    try {
      const std::lock_guard lock(queue_mutex_);
      idle_streams_.emplace(priority, stream);
      return;
    } catch (const std::bad_alloc&) {
      // Destroyed like the others.
    }
  }
  TESSERA_CUDA_NOTHROW(*this, cuStreamDestroy, stream);
  --streams_;
}

void CudaContext::warn_of_shared_queues() {
  const int streams = streams_.load();
  const int queues = driver_state().connections;
  if (streams <= queues || has_warned_of_queues_.exchange(true)) return;
  log::warn("cuda:", index_, ": ", streams, " streams share ", queues,
            " hardware queues; a launch that waits for another stream may never start if both share a queue; use "
            "fewer streams",
            queues < kMaxConnections ? ", or raise TESSERA_CUDA_CONNECTIONS" : "");
}

int CudaContext::clamp_priority(int priority) const {
  // CUDA uses the same order: a lower number runs first.
  return std::clamp(priority, highest_priority_, lowest_priority_);
}

}  // namespace tessera::device::cuda
