// The backend of ranks with one GPU each, on one or several machines, over NCCL, which is loaded at run time.
#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/comm/backends/nccl/detail/library.h"
#include "tessera/comm/backends/nccl/detail/nccl_communicator.h"

namespace tessera::comm::nccl {
namespace {

std::vector<device::Device> gpus() {
  std::vector<device::Device> found;
  for (const device::Device& device : device::Device::all()) {
    if (device.properties().kind == "cuda") found.push_back(device);
  }
  return found;
}

std::string why_not(const ConnectRequest& /*request*/) {
  for (const device::AbsentKind& absent : device::Device::absent()) {
    if (absent.kind == "cuda") return absent.reason;
  }
  if (!library().why_none.empty()) return library().why_none;
  const std::size_t found = gpus().size();
  if (static_cast<std::size_t>(current_place().local_world_size) > found) {
    return tessera::detail::concat("it needs one GPU per rank, got ", current_place().local_world_size, " ranks and ",
                                   found, " GPUs");
  }
  return "";
}

std::shared_ptr<Communicator> connect(const ConnectRequest& request) {
  const device::Device gpu = gpus()[static_cast<std::size_t>(current_place().local_rank)];
  auto communicator = std::make_shared<NcclCommunicator>(gpu, request);
  communicator->start_watching();
  return communicator;
}

// Low preference: used only on request, since groups of host memory are more common.
const BackendRegistration kNccl{
    {.name = "nccl", .preference = 4, .capabilities = nccl_capabilities(), .why_not = why_not, .connect = connect}};

}  // namespace
}  // namespace tessera::comm::nccl
