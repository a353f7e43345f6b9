// The backend of ranks with one GPU each, on one or several machines, over NCCL, which is loaded at run time.
#include "tessera/base/error.h"
#include "tessera/comm/backends/nccl/detail/library.h"
#include "tessera/comm/backends/nccl/detail/nccl_communicator.h"
#include "tessera/comm/device_of_rank.h"

namespace tessera::comm::nccl {
namespace {

std::string why_not(const ConnectRequest& /*request*/) {
  for (const device::AbsentKind& absent : device::Device::absent()) {
    if (absent.kind == "cuda") return absent.reason;
  }
  if (!library().why_none.empty()) return library().why_none;
  if (ranks_are_threads()) return "the ranks are threads, which share one GPU";
  try {
    (void)device_of_rank("cuda");
  } catch (const NotSupported& error) {
    return error.message();
  }
  return "";
}

std::shared_ptr<Communicator> connect(const ConnectRequest& request) {
  auto communicator = std::make_shared<NcclCommunicator>(device_of_rank("cuda"), request);
  communicator->start_watching();
  return communicator;
}

// Low preference: used only on request, since groups of host memory are more common.
const BackendRegistration kNccl{
    {.name = "nccl", .preference = 4, .capabilities = nccl_capabilities(), .why_not = why_not, .connect = connect}};

}  // namespace
}  // namespace tessera::comm::nccl
