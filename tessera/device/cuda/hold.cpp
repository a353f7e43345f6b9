#include "tessera/device/cuda/hold.h"

#include <algorithm>
#include <atomic>

#include "tessera/device/cuda/cuda_context.h"
#include "tessera/device/cuda/cuda_module.h"

extern "C" const std::byte tessera_kernels_hold[];
extern "C" const std::byte tessera_kernels_hold_end[];

namespace tessera::device::cuda {

HoldWords::~HoldWords() {
  if (has_ended()) words_.give_back(cell_);
}

void HoldWords::release() { std::atomic_ref<std::uint32_t>(cell_[0]).store(1, std::memory_order_release); }

bool HoldWords::has_ended() const {
  return std::atomic_ref<std::uint32_t>(cell_[1]).load(std::memory_order_acquire) != 0;
}

bool HoldWords::has_expired() const {
  return std::atomic_ref<std::uint32_t>(cell_[1]).load(std::memory_order_acquire) == kExpired;
}

void HoldWords::cancel() { std::atomic_ref<std::uint32_t>(cell_[1]).store(kReleased, std::memory_order_release); }

bool CudaHold::timed_out() const { return words_->has_expired(); }

std::shared_ptr<CudaKernel> load_hold_kernel(CudaContext& context) {
  const auto module = CudaModule::load(
      context, {tessera_kernels_hold, static_cast<std::size_t>(tessera_kernels_hold_end - tessera_kernels_hold)});
  auto kernel = module->find("tessera_hold");
  TESSERA_CHECK_AS(DeviceError, kernel != nullptr, "the embedded kernels lack tessera_hold");
  return kernel;
}

void launch_hold(CudaContext& context, CUstream stream, const HoldWords& words, std::chrono::nanoseconds timeout) {
  std::uint32_t* address = words.address();
  std::uint64_t timeout_ns = static_cast<std::uint64_t>(std::max<std::int64_t>(timeout.count(), 0));
  std::uint32_t released = HoldWords::kReleased;
  std::uint32_t expired = HoldWords::kExpired;
  void* args[] = {&address, &timeout_ns, &released, &expired};
  TESSERA_CUDA(context, cuLaunchKernel, context.hold_kernel().function(), 1, 1, 1, 1, 1, 1, 0, stream, args, nullptr);
}

}  // namespace tessera::device::cuda
