#include "tessera/device/cuda/cuda_context.h"

#include <algorithm>

#include "tessera/device/cuda/cuda_module.h"
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
  // Now: loading a module while a kernel spins would wait for it.
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

int CudaContext::clamp_priority(int priority) const {
  // CUDA counts as we do: a lower number runs first.
  return std::clamp(priority, highest_priority_, lowest_priority_);
}

}  // namespace tessera::device::cuda
