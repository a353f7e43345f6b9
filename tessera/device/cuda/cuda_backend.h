// The device interface for a GPU. Memory is in cuda_memory.cpp, the rest and the registration in cuda_backend.cpp.
#pragma once

#include <memory>

#include "tessera/device/backend.h"
#include "tessera/device/cuda/cuda_context.h"

namespace tessera::device::cuda {

/// Physical memory.
class CudaMemory : public MemoryBackend {
 public:
  CudaMemory(CudaContext& context, CUmemGenericAllocationHandle handle, std::size_t nbytes)
      : context_(context), handle_(handle), nbytes_(nbytes) {}
  ~CudaMemory() override;
  ExportedMemory export_handle() override;
  [[nodiscard]] CUmemGenericAllocationHandle handle() const { return handle_; }

 private:
  CudaContext& context_;
  CUmemGenericAllocationHandle handle_;
  std::size_t nbytes_;
};

/// One GPU. Thread-safe.
class CudaDevice : public DeviceBackend {
 public:
  explicit CudaDevice(int index) : context_(*new CudaContext(index)) {}
  DeviceProperties properties() override;
  MemoryUse memory_use() override;
  std::unique_ptr<StreamBackend> create_stream(const StreamOptions& options, bool is_default) override;
  std::unique_ptr<StreamBackend> wrap_stream(void* native) override;
  std::shared_ptr<EventBackend> create_event(const EventOptions& options) override;
  std::shared_ptr<EventBackend> wrap_event(void* native, const EventOptions& options) override;
  std::shared_ptr<GraphExecBackend> instantiate(GraphBackend& graph, const InstantiateOptions& options) override;

  /// The content of new memory is undefined.
  std::shared_ptr<MemoryBackend> create_memory(std::size_t nbytes) override;
  std::shared_ptr<MemoryBackend> import_memory(const ExportedMemory& exported) override;
  std::byte* reserve(std::size_t nbytes, std::size_t alignment) override;
  void release(std::byte* address, std::size_t nbytes) override;
  void map(std::byte* address, MemoryBackend& memory, std::size_t nbytes) override;
  void unmap(std::byte* address, std::size_t nbytes) override;
  void protect(std::byte* address, std::size_t nbytes, Protection protection) override;
  void share(std::byte* address, std::size_t nbytes, DeviceBackend& peer, Protection protection) override;
  bool can_share_with(DeviceBackend& peer) override;
  std::byte* allocate_pinned(std::size_t nbytes) override;
  void free_pinned(std::byte* address, std::size_t nbytes) override;
  bool is_capturable(const void* address) override;
  std::shared_ptr<ModuleBackend> load_module(std::span<const std::byte> image) override;

 private:
  CUmemAllocationProp memory_properties();
  void set_access(std::byte* address, std::size_t nbytes, CUdevice device, Protection protection);

  CudaContext& context_;  // never destroyed: driver callbacks may outlive every handle
};

}  // namespace tessera::device::cuda
