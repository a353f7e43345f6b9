#include <unistd.h>

#include "tessera/device/cuda/cuda_backend.h"
#include "tessera/device/cuda/process_memory.h"

namespace tessera::device::cuda {
namespace {

CUdeviceptr pointer(const std::byte* address) { return reinterpret_cast<CUdeviceptr>(address); }

}  // namespace

CudaMemory::~CudaMemory() { TESSERA_CUDA_NOTHROW(context_, cuMemRelease, handle_); }

ExportedMemory CudaMemory::export_handle() {
  context_.make_current();
  int fd = -1;
  TESSERA_CUDA(context_, cuMemExportToShareableHandle, &fd, handle_, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  return {fd, 0, nbytes_};
}

CUmemAllocationProp CudaDevice::memory_properties() {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = context_.device();
  if (context_.attribute(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED) != 0) {
    properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  }
  if (context_.attribute(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED) != 0) {
    properties.allocFlags.gpuDirectRDMACapable = 1;
  }
  return properties;
}

MemoryUse CudaDevice::memory_use() {
  context_.make_current();
  MemoryUse use;
  TESSERA_CUDA(context_, cuMemGetInfo, &use.free_nbytes, &use.total_nbytes);
  use.process_nbytes =
      process_memory(management_library(), context_.pci_bus_id(), static_cast<std::uint32_t>(::getpid()));
  return use;
}

std::shared_ptr<MemoryBackend> CudaDevice::create_memory(std::size_t nbytes) {
  context_.make_current();
  const CUmemAllocationProp properties = memory_properties();
  CUmemGenericAllocationHandle handle = 0;
  const CUresult result = driver().cuMemCreate(&handle, nbytes, &properties, 0);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    std::size_t free_nbytes = 0;
    std::size_t total_nbytes = 0;
    TESSERA_CUDA(context_, cuMemGetInfo, &free_nbytes, &total_nbytes);
    TESSERA_THROW(OutOfMemory, "cuda:", context_.index(), ": ", nbytes, " more bytes do not fit; ", free_nbytes, " of ",
                  total_nbytes, " are free");
  }
  if (result != CUDA_SUCCESS) context_.fail(result, "cuMemCreate", {__FILE__, __LINE__});
  return std::make_shared<CudaMemory>(context_, handle, nbytes);
}

std::shared_ptr<MemoryBackend> CudaDevice::import_memory(const ExportedMemory& exported) {
  context_.make_current();
  TESSERA_CHECK(exported.offset() == 0, "import_memory: the offset of CUDA memory must be 0, got ", exported.offset(),
                "; another kind of device may have exported it");
  CUmemGenericAllocationHandle handle = 0;
  const CUresult result = driver().cuMemImportFromShareableHandle(
      &handle, reinterpret_cast<void*>(static_cast<std::uintptr_t>(exported.fd())),
      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  // For a foreign descriptor the driver returns "unknown error", which does not mean here that the context is lost.
  TESSERA_CHECK(result != CUDA_ERROR_UNKNOWN && result != CUDA_ERROR_INVALID_VALUE, "import_memory: descriptor ",
                exported.fd(), " does not refer to CUDA memory");
  if (result != CUDA_SUCCESS) context_.fail(result, "cuMemImportFromShareableHandle", {__FILE__, __LINE__});
  return std::make_shared<CudaMemory>(context_, handle, exported.nbytes());
}

std::byte* CudaDevice::reserve(std::size_t nbytes, std::size_t alignment) {
  context_.make_current();
  CUdeviceptr address = 0;
  TESSERA_CUDA(context_, cuMemAddressReserve, &address, nbytes, alignment, 0, 0);
  auto* base = reinterpret_cast<std::byte*>(address);
  context_.note_reserved(base, nbytes);
  return base;
}

void CudaDevice::release(std::byte* address, std::size_t nbytes) {
  context_.make_current();
  TESSERA_CUDA(context_, cuMemAddressFree, pointer(address), nbytes);
  context_.note_released(address);
}

void CudaDevice::set_access(std::byte* address, std::size_t nbytes, CUdevice device, Protection protection) {
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = device;
  access.flags = protection == Protection::kNone   ? CU_MEM_ACCESS_FLAGS_PROT_NONE
                 : protection == Protection::kRead ? CU_MEM_ACCESS_FLAGS_PROT_READ
                                                   : CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  TESSERA_CUDA(context_, cuMemSetAccess, pointer(address), nbytes, &access, 1);
}

void CudaDevice::map(std::byte* address, MemoryBackend& memory, std::size_t nbytes) {
  context_.make_current();
  CUmemGenericAllocationHandle handle = static_cast<CudaMemory&>(memory).handle();
  TESSERA_CUDA(context_, cuMemMap, pointer(address), nbytes, 0, handle, 0);
  try {
    set_access(address, nbytes, context_.device(), Protection::kReadWrite);
  } catch (...) {
    TESSERA_CUDA_NOTHROW(context_, cuMemUnmap, pointer(address), nbytes);
    throw;
  }
}

void CudaDevice::unmap(std::byte* address, std::size_t nbytes) {
  context_.make_current();
  TESSERA_CUDA(context_, cuMemUnmap, pointer(address), nbytes);
}

void CudaDevice::protect(std::byte* address, std::size_t nbytes, Protection protection) {
  context_.make_current();
  set_access(address, nbytes, context_.device(), protection);
}

void CudaDevice::share(std::byte* address, std::size_t nbytes, DeviceBackend& peer, Protection protection) {
  context_.make_current();
  auto& other = static_cast<CudaDevice&>(peer);
  TESSERA_CHECK_AS(NotSupported, can_share_with(peer), "share_with: cuda:", other.context_.index(),
                   " cannot access the memory of cuda:", context_.index());
  set_access(address, nbytes, other.context_.device(), protection);
}

bool CudaDevice::can_share_with(DeviceBackend& peer) {
  const auto* other = dynamic_cast<CudaDevice*>(&peer);
  if (other == nullptr) return false;
  if (other->context_.index() == context_.index()) return true;
  int can = 0;
  TESSERA_CUDA(context_, cuDeviceCanAccessPeer, &can, other->context_.device(), context_.device());
  return can != 0;
}

std::byte* CudaDevice::allocate_pinned(std::size_t nbytes) {
  context_.make_current();
  context_.spins().flush();
  void* address = nullptr;
  TESSERA_CUDA(context_, cuMemHostAlloc, &address, nbytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
  return static_cast<std::byte*>(address);
}

void CudaDevice::free_pinned(std::byte* address, std::size_t /*nbytes*/) {
  context_.spins().when_quiet([&context = context_, address] {
    // May run on a thread that has not used the device yet.
    try {
      context.make_current();
    } catch (...) {
      return;
    }
    TESSERA_CUDA_NOTHROW(context, cuMemFreeHost, address);
  });
}

bool CudaDevice::is_capturable(const void* address) { return context_.is_known(address); }

}  // namespace tessera::device::cuda
