#include "tessera/analysis/memory/detail/idle_device.h"

#include <atomic>

#include "tessera/base/error.h"
#include "tessera/device/backend.h"

namespace tessera::analysis::detail {
namespace {

using namespace tessera::device;  // NOLINT(google-build-using-namespace): every name below is one of its interfaces

[[noreturn]] void cannot(const char* what) {
  TESSERA_THROW(NotSupported, "the device of a replay does not support ", what);
}

class IdleEvent final : public EventBackend {
 public:
  bool query() override { return true; }
  bool synchronize(std::chrono::nanoseconds) override { return true; }
  std::chrono::nanoseconds since(EventBackend&) override { cannot("times"); }
  void* native() override { return this; }
};

class IdleStream final : public StreamBackend {
 public:
  void launch(const std::shared_ptr<KernelBackend>&, const LaunchConfig&, const KernelArgs&, const LaunchInfo&,
              bool) override {
    cannot("kernels");
  }
  void run(HostFunction&&, const LaunchInfo&, bool) override { cannot("host functions"); }
  void copy(void*, const void*, std::size_t, const LaunchInfo&) override { cannot("copies"); }
  void copy_2d(const Copy2d&, const LaunchInfo&) override { cannot("copies"); }
  void fill(void*, std::uint32_t, std::size_t, std::size_t, const LaunchInfo&) override { cannot("fills"); }
  void write_value(std::uint64_t*, std::uint64_t) override { cannot("write_value"); }
  void wait_value(const std::uint64_t*, std::uint64_t, Compare) override { cannot("wait_value"); }
  std::shared_ptr<HoldBackend> hold(std::chrono::nanoseconds) override { cannot("hold"); }
  void launch_graph(const std::shared_ptr<GraphExecBackend>&) override { cannot("graphs"); }
  void begin_capture() override { cannot("graphs"); }
  std::unique_ptr<GraphBackend> end_capture() override { cannot("graphs"); }
  void abort_capture() override { cannot("graphs"); }
  CaptureInfo capture_info() override { return {}; }
  Dependencies capture_predecessors(NodeId) override { cannot("graphs"); }
  void set_capture_dependencies(std::span<const NodeId>) override { cannot("graphs"); }

  void record(const std::shared_ptr<EventBackend>&, Tick tick, EventUse) override { progress_ = tick; }
  void wait(const std::shared_ptr<EventBackend>&, EventUse) override {}
  void publish(Tick tick) override { progress_ = tick; }
  [[nodiscard]] Tick progress() const override { return progress_; }
  bool is_idle() override { return true; }
  bool synchronize(std::chrono::nanoseconds) override { return true; }
  std::exception_ptr error() override { return nullptr; }
  void reset_error() override {}
  void* native() override { return this; }

 private:
  std::atomic<Tick> progress_{};
};

class IdleDevice final : public DeviceBackend {
 public:
  explicit IdleDevice(std::size_t memory_nbytes) : memory_nbytes_(memory_nbytes) {}
  DeviceProperties properties() override {
    return {.kind = "replay",
            .description = "streams without work",
            .driver = "none",
            .memory_nbytes = memory_nbytes_,
            .granularity = 4096,
            .multiprocessors = 1};
  }
  MemoryUse memory_use() override { return {.total_nbytes = memory_nbytes_, .free_nbytes = memory_nbytes_}; }
  std::unique_ptr<StreamBackend> create_stream(const StreamOptions&, bool) override {
    return std::make_unique<IdleStream>();
  }
  std::unique_ptr<StreamBackend> wrap_stream(void*) override { cannot("foreign streams"); }
  std::shared_ptr<EventBackend> create_event(const EventOptions&) override { return std::make_shared<IdleEvent>(); }
  std::shared_ptr<EventBackend> wrap_event(void*, const EventOptions&) override { cannot("foreign events"); }
  std::shared_ptr<GraphExecBackend> instantiate(GraphBackend&, const InstantiateOptions&) override { cannot("graphs"); }
  std::shared_ptr<MemoryBackend> create_memory(std::size_t) override { cannot("memory"); }
  std::shared_ptr<MemoryBackend> import_memory(const ExportedMemory&) override { cannot("memory"); }
  std::byte* reserve(std::size_t, std::size_t) override { cannot("addresses"); }
  void release(std::byte*, std::size_t) override {}
  void map(std::byte*, MemoryBackend&, std::size_t) override { cannot("memory"); }
  void unmap(std::byte*, std::size_t) override { cannot("memory"); }
  void protect(std::byte*, std::size_t, Protection) override { cannot("memory"); }
  void share(std::byte*, std::size_t, DeviceBackend&, Protection) override { cannot("peers"); }
  bool can_share_with(DeviceBackend&) override { return false; }
  std::byte* allocate_pinned(std::size_t) override { cannot("pinned memory"); }
  void free_pinned(std::byte*, std::size_t) override {}
  bool is_capturable(const void*) override { return false; }
  std::shared_ptr<ModuleBackend> load_module(std::span<const std::byte>) override { cannot("kernels"); }

 private:
  std::size_t memory_nbytes_;
};

}  // namespace

Device make_idle_device(std::size_t memory_nbytes) {
  return make_device(std::make_unique<IdleDevice>(memory_nbytes), "replay");
}

}  // namespace tessera::analysis::detail
