#include "tessera/train/detail/agreement.h"

#include "tessera/base/rank.h"
#include "tessera/comm/process_group.h"
#include "tessera/device/device.h"
#include "tessera/tensor/device_context.h"

namespace tessera::train::detail {
namespace {

constexpr std::int64_t kFlags = 2;

}  // namespace

Agreement::Agreement() {
  if (current_place().world_size == 1) return;
  const device::Device host = tensor::host_device();
  own_ = Tensor::allocate(Shape{kFlags}, DType::kI32, host);
  all_ = Tensor::allocate(Shape{kFlags}, DType::kI32, host);
}

StopRequests Agreement::exchange(const StopRequests& own) {
  if (!own_) return own;
  StopRequests agreed;
  if (pending_) {
    pending_.wait();
    const auto* flags = all_.data_as<std::int32_t>();
    agreed = {.stop = flags[0] != 0, .profile = flags[1] != 0};
  }
  auto* flags = own_.data_as<std::int32_t>();
  flags[0] = own.stop ? 1 : 0;
  flags[1] = own.profile ? 1 : 0;
  pending_ = comm::world().all_reduce(own_.data(), all_.data(), kFlags, DType::kI32, {.kind = Reduction::kMax},
                                      tensor::current_stream(tensor::host_device()));
  return agreed;
}

StopRequests Agreement::exchange_now(const StopRequests& own) {
  const StopRequests before = exchange(own);
  const StopRequests now = exchange({});
  return {.stop = before.stop || now.stop, .profile = before.profile || now.profile};
}

}  // namespace tessera::train::detail
