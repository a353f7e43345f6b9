// The backend of ranks that are threads of one process and share one GPU. The kernels of all ranks run at the same time
// and meet in device memory.
#include "tessera/base/error.h"
#include "tessera/comm/backends/cuda/cuda_communicator.h"
#include "tessera/comm/detail/world_state.h"

namespace tessera::comm::cuda {
namespace {

constexpr const char* kDevice = "cuda:0";

std::string why_not(const ConnectRequest& request) {
  const auto& simulated = detail::WorldState::current().simulated();
  if (simulated == nullptr) return "the ranks are not threads of this process";
  if (simulated->scheduler() != nullptr) return "ranks that take turns cannot wait for each other on a GPU";
  if (request.ranks.size() > kMaxRanks) return "more than " + std::to_string(kMaxRanks) + " ranks";
  for (const device::AbsentKind& absent : device::Device::absent()) {
    if (absent.kind == "cuda") return absent.reason;
  }
  return "";
}

std::shared_ptr<Communicator> connect(const ConnectRequest& request) {
  detail::SimulatedWorld& world = *detail::WorldState::current().simulated();
  const auto shared = world.shared<SharedGroup>("cuda " + request.name, [&] {
    return std::make_shared<SharedGroup>(device::Device::get(kDevice), static_cast<int>(request.ranks.size()));
  });
  return std::make_shared<CudaCommunicator>(shared, request);
}

// Low preference: used only on request, since groups of host memory are more common.
const BackendRegistration kCuda{
    {.name = "cuda", .preference = 5, .capabilities = cuda_capabilities(), .why_not = why_not, .connect = connect}};

}  // namespace
}  // namespace tessera::comm::cuda
