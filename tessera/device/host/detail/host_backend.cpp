#include "tessera/device/host/detail/host_backend.h"

#include <sys/mman.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "tessera/base/error.h"
#include "tessera/device/host/detail/host_event.h"
#include "tessera/device/host/detail/host_graph.h"
#include "tessera/device/host/detail/host_stream.h"
#include "tessera/device/host/detail/work.h"

namespace tessera::device::host::detail {
namespace {

std::size_t machine_memory() {
  return static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("model name", 0) != 0) continue;
    const auto colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "host";
}

std::shared_ptr<SeededScheduler> scheduler_for(const HostOptions& options) {
  if (options.mode != Mode::kSeeded) return nullptr;
  return options.scheduler != nullptr ? options.scheduler : SeededScheduler::create(options.seed);
}

// Returns the objects of `all` that still exist, and removes the others.
template <class T>
std::vector<std::shared_ptr<T>> living(std::vector<std::weak_ptr<T>>& all) {
  std::vector<std::shared_ptr<T>> alive;
  for (const auto& one : all) {
    if (auto strong = one.lock()) alive.push_back(std::move(strong));
  }
  all.assign(alive.begin(), alive.end());
  return alive;
}

}  // namespace

HostBackend::HostBackend(const HostOptions& options)
    : mode_(options.mode),
      shared_(std::make_shared<HostShared>(options.name, scheduler_for(options))),
      pool_(std::make_shared<ReplayPool>(shared_)),
      file_(std::make_shared<MemoryFile>(options.name,
                                         options.capacity_nbytes > 0 ? options.capacity_nbytes : machine_memory())) {
  TESSERA_CHECK(mode_ == Mode::kSeeded || options.scheduler == nullptr, options.name,
                ": a scheduler requires Mode::kSeeded");
  if (mode_ == Mode::kSeeded && options.scheduler == nullptr) {
    maker_ = std::make_unique<SeededScheduler::Participant>(shared_->scheduler()->shared_from_this(), "main");
  }
}

HostBackend::~HostBackend() {
  pool_->stop();
  shared_->announce_stop();
  for (const auto& core : living(cores_)) core->ring();
  shared_->stop();
}

DeviceProperties HostBackend::properties() {
  const auto cores = std::thread::hardware_concurrency();
  return {.kind = "host",
          .index = 0,
          .description = processor_name() + ", " + std::to_string(cores) + " cores",
          .driver = "tessera",
          .memory_nbytes = file_->capacity(),
          .granularity = kGranularity,
          .multiprocessors = static_cast<int>(cores),
          .has_export = true,
          .has_overlap = true,
          .is_lossy_on_error = false};
}

MemoryUse HostBackend::memory_use() {
  // Only this device uses the memory file: the process uses exactly what was created here.
  return {.total_nbytes = file_->capacity(), .free_nbytes = file_->capacity() - file_->used(), .process_nbytes = 0};
}

std::unique_ptr<StreamBackend> HostBackend::create_stream(const StreamOptions& options, bool is_default) {
  shared_->reap();
  const std::lock_guard lock(mutex_);
  std::string name = options.name.empty() ? "stream " + std::to_string(streams_made_) : options.name;
  auto core = std::make_shared<StreamCore>(shared_, std::move(name), is_default && mode_ == Mode::kInline);
  ++streams_made_;
  static_cast<void>(living(cores_));
  cores_.push_back(core);
  return std::make_unique<HostStream>(std::move(core));
}

// Streams and events of any host device of this process can be wrapped, as objects of another library.
std::unique_ptr<StreamBackend> HostBackend::wrap_stream(void* native) {
  auto core = StreamCore::from_native(native).shared_from_this();
  const std::lock_guard lock(mutex_);
  ++streams_made_;
  return std::make_unique<HostStream>(std::move(core));
}

std::shared_ptr<EventBackend> HostBackend::create_event(const EventOptions& options) {
  return std::make_shared<HostEvent>(shared_, options.timing);
}

std::shared_ptr<EventBackend> HostBackend::wrap_event(void* native, const EventOptions&) {
  return HostEvent::from_native(native).shared_from_this();
}

std::shared_ptr<GraphExecBackend> HostBackend::instantiate(GraphBackend& graph, const InstantiateOptions& options) {
  auto* own = dynamic_cast<HostGraph*>(&graph);
  TESSERA_CHECK(own != nullptr, "instantiate: the graph belongs to another kind of device");
  return std::make_shared<HostGraphExec>(shared_, pool_, own->work(), options);
}

std::shared_ptr<MemoryBackend> HostBackend::create_memory(std::size_t nbytes) {
  return std::make_shared<HostMemory>(file_, nbytes);
}

std::shared_ptr<MemoryBackend> HostBackend::import_memory(const ExportedMemory& exported) {
  return std::make_shared<HostMemory>(exported);
}

std::byte* HostBackend::reserve(std::size_t nbytes, std::size_t alignment) {
  return addresses_.reserve(nbytes, alignment);
}

void HostBackend::release(std::byte* address, std::size_t nbytes) { addresses_.release(address, nbytes); }

void HostBackend::map(std::byte* address, MemoryBackend& memory, std::size_t nbytes) {
  auto* own = dynamic_cast<HostMemory*>(&memory);
  TESSERA_CHECK(own != nullptr, "map: the memory belongs to another kind of device");
  addresses_.map(address, *own, nbytes);
}

void HostBackend::unmap(std::byte* address, std::size_t nbytes) { addresses_.unmap(address, nbytes); }

void HostBackend::protect(std::byte* address, std::size_t nbytes, Protection protection) {
  addresses_.set_rights(address, nbytes, nullptr, protection);
}

void HostBackend::share(std::byte* address, std::size_t nbytes, DeviceBackend& peer, Protection protection) {
  addresses_.set_rights(address, nbytes, &peer, protection);
}

bool HostBackend::can_share_with(DeviceBackend& peer) { return dynamic_cast<HostBackend*>(&peer) != nullptr; }

std::byte* HostBackend::allocate_pinned(std::size_t nbytes) {
  void* address = mmap(nullptr, nbytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  TESSERA_CHECK_AS(OutOfMemory, address != MAP_FAILED, shared_->name(), ": cannot allocate ", nbytes,
                   " bytes of pinned memory");
  return static_cast<std::byte*>(address);
}

void HostBackend::free_pinned(std::byte* address, std::size_t nbytes) { munmap(address, nbytes); }

// The host has no staging: a replay accesses the addresses themselves.
bool HostBackend::is_capturable(const void*) { return true; }

std::shared_ptr<ModuleBackend> HostBackend::load_module(std::span<const std::byte>) {
  TESSERA_THROW(NotSupported, shared_->name(),
                ": the host device cannot load images; create a kernel from a function with Device::host_kernel");
}

std::shared_ptr<KernelBackend> HostBackend::host_kernel(HostKernelFn function) {
  return std::make_shared<HostKernel>(function);
}

}  // namespace tessera::device::host::detail
