#include "tessera/device/example/example_device.h"

#include <cstdlib>
#include <cstring>

#include "tessera/base/error.h"
#include "tessera/device/backend.h"

namespace tessera::device::example {
namespace {

constexpr std::size_t kGranularity = 4096;

[[noreturn]] void cannot(const char* what) { TESSERA_THROW(NotSupported, "the example device has no ", what); }

struct ExampleKernel : KernelBackend {
  HostKernelFn function = nullptr;
};

// An event is reached when it is recorded; it stores the failure up to then.
class ExampleEvent : public EventBackend {
 public:
  bool query() override {
    if (error_ != nullptr) std::rethrow_exception(error_);
    return true;
  }
  bool synchronize(std::chrono::nanoseconds) override { return query(); }
  std::chrono::nanoseconds since(EventBackend& start) override {
    return time_ - static_cast<ExampleEvent&>(start).time_;
  }
  void* native() override { return this; }

  void reach(std::exception_ptr error) {
    error_ = std::move(error);
    time_ = std::chrono::steady_clock::now().time_since_epoch();
  }
  [[nodiscard]] std::exception_ptr error() const { return error_; }

 private:
  std::exception_ptr error_;
  std::chrono::nanoseconds time_{};
};

class ExampleStream : public StreamBackend {
 public:
  void launch(const std::shared_ptr<KernelBackend>& kernel, const LaunchConfig& config, const KernelArgs& args,
              const LaunchInfo&, bool) override {
    attempt([&] { static_cast<ExampleKernel&>(*kernel).function(config, args.pointers().data()); });
  }
  void run(HostFunction&& body, const LaunchInfo&, bool) override { attempt(body); }
  void copy(void* to, const void* from, std::size_t nbytes, const LaunchInfo&) override {
    attempt([&] { std::memmove(to, from, nbytes); });
  }
  void copy_2d(const Copy2d& rows, const LaunchInfo&) override {
    attempt([&] {
      for (std::size_t i = 0; i < rows.height; ++i) {
        std::memcpy(static_cast<std::byte*>(rows.to) + i * rows.to_pitch,
                    static_cast<const std::byte*>(rows.from) + i * rows.from_pitch, rows.width);
      }
    });
  }
  void fill(void* to, std::uint32_t pattern, std::size_t item_nbytes, std::size_t count, const LaunchInfo&) override {
    attempt([&] {
      for (std::size_t i = 0; i < count; ++i) {
        std::memcpy(static_cast<std::byte*>(to) + i * item_nbytes, &pattern, item_nbytes);
      }
    });
  }
  void write_value(std::uint64_t* to, std::uint64_t value) override {
    std::atomic_ref(*to).store(value, std::memory_order_release);
  }
  void wait_value(const std::uint64_t*, std::uint64_t, Compare) override { cannot("wait_value"); }
  std::shared_ptr<HoldBackend> hold(std::chrono::nanoseconds) override { cannot("hold"); }
  void record(const std::shared_ptr<EventBackend>& event, Tick tick, EventUse) override {
    static_cast<ExampleEvent&>(*event).reach(error_);
    progress_ = tick;
  }
  void wait(const std::shared_ptr<EventBackend>& event, EventUse) override {
    if (error_ == nullptr) error_ = static_cast<ExampleEvent&>(*event).error();
  }
  void launch_graph(const std::shared_ptr<GraphExecBackend>&) override { cannot("graphs"); }
  void publish(Tick tick) override { progress_ = tick; }
  [[nodiscard]] Tick progress() const override { return progress_; }

  void begin_capture() override { cannot("graphs"); }
  std::unique_ptr<GraphBackend> end_capture() override { cannot("graphs"); }
  void abort_capture() override { cannot("graphs"); }
  CaptureInfo capture_info() override { return {}; }
  Dependencies capture_predecessors(NodeId) override { cannot("graphs"); }
  void set_capture_dependencies(std::span<const NodeId>) override { cannot("graphs"); }

  bool is_idle() override { return true; }
  bool synchronize(std::chrono::nanoseconds) override { return true; }
  std::exception_ptr error() override { return error_; }
  void reset_error() override { error_ = nullptr; }
  void* native() override { return this; }

 private:
  // Work after a failure is skipped, and the failure is kept for the next wait.
  template <class Work>
  void attempt(Work&& work) {
    if (error_ != nullptr) return;
    try {
      work();
    } catch (...) {
      error_ = std::current_exception();
    }
  }

  std::exception_ptr error_;
  std::atomic<Tick> progress_{};
};

class ExampleDevice : public DeviceBackend {
 public:
  DeviceProperties properties() override {
    return {.kind = "example",
            .description = "the caller's thread",
            .driver = "none",
            .memory_nbytes = std::size_t{1} << 30,
            .granularity = kGranularity,
            .multiprocessors = 1};
  }
  MemoryUse memory_use() override {
    return {.total_nbytes = std::size_t{1} << 30, .free_nbytes = std::size_t{1} << 30};
  }
  std::unique_ptr<StreamBackend> create_stream(const StreamOptions&, bool) override {
    return std::make_unique<ExampleStream>();
  }
  std::unique_ptr<StreamBackend> wrap_stream(void*) override { cannot("foreign streams"); }
  std::shared_ptr<EventBackend> create_event(const EventOptions&) override { return std::make_shared<ExampleEvent>(); }
  std::shared_ptr<EventBackend> wrap_event(void*, const EventOptions&) override { cannot("foreign events"); }
  std::shared_ptr<GraphExecBackend> instantiate(GraphBackend&, const InstantiateOptions&) override { cannot("graphs"); }

  // Without address mapping there is nothing to reserve; higher layers check properties().
  std::shared_ptr<MemoryBackend> create_memory(std::size_t) override { cannot("mapped memory"); }
  std::shared_ptr<MemoryBackend> import_memory(const ExportedMemory&) override { cannot("imported memory"); }
  std::byte* reserve(std::size_t, std::size_t) override { cannot("address ranges"); }
  void release(std::byte*, std::size_t) override {}
  void map(std::byte*, MemoryBackend&, std::size_t) override { cannot("mapped memory"); }
  void unmap(std::byte*, std::size_t) override { cannot("mapped memory"); }
  void protect(std::byte*, std::size_t, Protection) override { cannot("protection"); }
  void share(std::byte*, std::size_t, DeviceBackend&, Protection) override { cannot("peers"); }
  bool can_share_with(DeviceBackend&) override { return false; }
  std::byte* allocate_pinned(std::size_t nbytes) override {
    auto* address = static_cast<std::byte*>(std::malloc(nbytes));
    TESSERA_CHECK_AS(OutOfMemory, address != nullptr, "the example device cannot allocate ", nbytes, " bytes");
    return address;
  }
  void free_pinned(std::byte* address, std::size_t) override { std::free(address); }
  bool is_capturable(const void*) override { return true; }

  std::shared_ptr<ModuleBackend> load_module(std::span<const std::byte>) override {
    cannot("images to load; use Device::host_kernel");
  }
  std::shared_ptr<KernelBackend> host_kernel(HostKernelFn function) override {
    auto kernel = std::make_shared<ExampleKernel>();
    kernel->function = function;
    return kernel;
  }
};

}  // namespace

Device make_example_device() { return make_device(std::make_unique<ExampleDevice>(), "example"); }

}  // namespace tessera::device::example
