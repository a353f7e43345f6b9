#include "tessera/device/cuda/cuda_backend.h"

#include "tessera/device/cuda/cuda_event.h"
#include "tessera/device/cuda/cuda_graph.h"
#include "tessera/device/cuda/cuda_module.h"
#include "tessera/device/cuda/cuda_stream.h"

namespace tessera::device::cuda {

DeviceProperties CudaDevice::properties() {
  context_.make_current();
  DeviceProperties properties;
  properties.kind = "cuda";
  properties.index = context_.index();
  char name[256] = {};
  TESSERA_CUDA(context_, cuDeviceGetName, name, sizeof name - 1, context_.device());
  properties.description = name;
  const int version = driver_state().version;
  properties.driver = tessera::detail::concat("CUDA driver ", version / 1000, ".", version % 1000 / 10);
  TESSERA_CUDA(context_, cuDeviceTotalMem, &properties.memory_nbytes, context_.device());
  const CUmemAllocationProp memory = memory_properties();
  TESSERA_CUDA(context_, cuMemGetAllocationGranularity, &properties.granularity, &memory,
               CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
  properties.multiprocessors = context_.multiprocessors();
  properties.has_export = memory.requestedHandleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties.has_overlap = context_.has_overlap();
  properties.is_lossy_on_error = true;
  return properties;
}

std::unique_ptr<StreamBackend> CudaDevice::create_stream(const StreamOptions& options, bool is_default) {
  // Not the driver's default stream, which cannot capture and synchronizes with others.
  StreamOptions named = options;
  if (is_default && named.name.empty()) named.name = "the default stream";
  return std::make_unique<CudaStream>(context_, named);
}

std::unique_ptr<StreamBackend> CudaDevice::wrap_stream(void* native) {
  return std::make_unique<CudaStream>(context_, static_cast<CUstream>(native));
}

std::shared_ptr<EventBackend> CudaDevice::create_event(const EventOptions& options) {
  return std::make_shared<CudaEvent>(context_, options);
}

std::shared_ptr<EventBackend> CudaDevice::wrap_event(void* native, const EventOptions& /*options*/) {
  return std::make_shared<CudaEvent>(context_, static_cast<CUevent>(native));
}

std::shared_ptr<GraphExecBackend> CudaDevice::instantiate(GraphBackend& graph, const InstantiateOptions& /*options*/) {
  context_.make_current();
  return std::make_shared<CudaGraphExec>(context_, static_cast<CudaGraph&>(graph));
}

std::shared_ptr<ModuleBackend> CudaDevice::load_module(std::span<const std::byte> image) {
  return CudaModule::load(context_, image);
}

namespace {

std::vector<Device> make_devices(std::string& why_none) {
  const DriverState& state = driver_state();
  why_none = state.why_none;
  if (!why_none.empty()) return {};
  int count = 0;
  std::vector<Device> devices;
  try {
    if (driver().cuDeviceGetCount(&count) != CUDA_SUCCESS || count == 0) why_none = "the driver finds no GPU";
    for (int i = 0; i < count; ++i) {
      devices.push_back(make_device(std::make_unique<CudaDevice>(i), tessera::detail::concat("cuda:", i)));
    }
  } catch (const Error& error) {
    // If one GPU fails to start, the kind is absent: a gap in the list would shift the names.
    why_none = error.message();
    devices.clear();
  }
  return devices;
}

// The GPUs belong to the process: ranks share them, and no order of destruction at exit suits all ranks.
std::vector<Device> devices_of_process(std::string& why_none) {
  struct Made {
    std::string why_none;
    std::vector<Device> devices = make_devices(why_none);
  };
  static const Made& made = *new Made;
  why_none = made.why_none;
  return made.devices;
}

const bool kRegistered = register_device_kind({"cuda", &devices_of_process});

}  // namespace
}  // namespace tessera::device::cuda
