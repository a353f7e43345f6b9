// The host device: creates and destroys streams, events and memory.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "tessera/device/backend.h"
#include "tessera/device/host/detail/host_memory.h"
#include "tessera/device/host/detail/host_shared.h"
#include "tessera/device/host/detail/replay_pool.h"
#include "tessera/device/host/detail/stream_core.h"
#include "tessera/device/host/host_device.h"

namespace tessera::device::host::detail {

/// The host device. Thread-safe.
class HostBackend : public DeviceBackend {
 public:
  explicit HostBackend(const HostOptions& options);
  /// Ends the threads; waiting work is aborted.
  ~HostBackend() override;

  DeviceProperties properties() override;
  MemoryUse memory_use() override;
  std::unique_ptr<StreamBackend> create_stream(const StreamOptions& options, bool is_default) override;
  std::unique_ptr<StreamBackend> wrap_stream(void* native) override;
  std::shared_ptr<EventBackend> create_event(const EventOptions& options) override;
  std::shared_ptr<EventBackend> wrap_event(void* native, const EventOptions& options) override;
  std::shared_ptr<GraphExecBackend> instantiate(GraphBackend& graph, const InstantiateOptions& options) override;

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
  std::shared_ptr<KernelBackend> host_kernel(HostKernelFn function) override;

  /// Returns the memory file of this device.
  [[nodiscard]] const MemoryFile& file() const { return *file_; }
  /// Returns the state that it shares with its streams, events and graphs.
  [[nodiscard]] HostShared& shared() const { return *shared_; }
  /// Returns the mappings of its memory.
  [[nodiscard]] const AddressSpace& addresses() const { return addresses_; }

 private:
  const Mode mode_;
  // A seeded device with its own scheduler makes its creator a participant while it lives.
  std::unique_ptr<SeededScheduler::Participant> maker_;
  const std::shared_ptr<HostShared> shared_;
  const std::shared_ptr<ReplayPool> pool_;
  const std::shared_ptr<MemoryFile> file_;
  AddressSpace addresses_;
  std::mutex mutex_;
  std::vector<std::weak_ptr<StreamCore>> cores_;
  std::size_t streams_made_ = 0;
};

}  // namespace tessera::device::host::detail
