#include "tessera/device/meta/meta_device.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

#include "tessera/base/bytes.h"
#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/device/backend.h"
#include "tessera/device/detail/state.h"
#include "tessera/device/host/host_device.h"

namespace tessera::device::meta {
namespace {

constexpr std::uintptr_t kFirstAddress = std::uintptr_t{3} << 55;
constexpr std::uintptr_t kEndAddress = std::uintptr_t{4} << 55;

[[noreturn]] void cannot(const char* what) { TESSERA_THROW(NotSupported, "the meta device has no ", what); }

// A stream of a host device that receives empty work, so that order, events and captures are those of a real device.
class MetaStream final : public StreamBackend {
 public:
  explicit MetaStream(std::unique_ptr<StreamBackend> order) : order_(std::move(order)) {}

  void launch(const std::shared_ptr<KernelBackend>& /*kernel*/, const LaunchConfig& /*config*/,
              const KernelArgs& /*args*/, const LaunchInfo& info, bool overlap) override {
    order_->run([] {}, info, overlap);
  }
  void run(HostFunction&& body, const LaunchInfo& info, bool overlap) override {
    TESSERA_CHECK(static_cast<bool>(body), "run '", info.label, "': the function is empty");
    const HostFunction dropped = std::move(body);
    order_->run([] {}, info, overlap);
  }
  void copy(void* to, const void* from, std::size_t /*nbytes*/, const LaunchInfo& info) override {
    check_not_read(to, from, info);
    order_->copy(to, from, 0, info);
  }
  void copy_2d(const Copy2d& rows, const LaunchInfo& info) override {
    check_not_read(rows.to, rows.from, info);
    order_->copy(rows.to, rows.from, 0, info);
  }
  void fill(void* to, std::uint32_t pattern, std::size_t item_nbytes, std::size_t /*count*/,
            const LaunchInfo& info) override {
    order_->fill(to, pattern, item_nbytes, 0, info);
  }
  void write_value(std::uint64_t* /*to*/, std::uint64_t /*value*/) override {
    order_->run([] {}, {.label = "write_value"}, false);
  }
  void wait_value(const std::uint64_t* /*from*/, std::uint64_t /*value*/, Compare /*compare*/) override {
    order_->run([] {}, {.label = "wait_value"}, false);
  }
  std::shared_ptr<HoldBackend> hold(std::chrono::nanoseconds /*timeout*/) override {
    cannot("hold; work on it never waits");
  }
  void record(const std::shared_ptr<EventBackend>& event, Tick tick, EventUse use) override {
    order_->record(event, tick, use);
  }
  void wait(const std::shared_ptr<EventBackend>& event, EventUse use) override { order_->wait(event, use); }
  void launch_graph(const std::shared_ptr<GraphExecBackend>& exec) override { order_->launch_graph(exec); }
  void publish(Tick tick) override { order_->publish(tick); }
  [[nodiscard]] Tick progress() const override { return order_->progress(); }

  void begin_capture() override { order_->begin_capture(); }
  std::unique_ptr<GraphBackend> end_capture() override { return order_->end_capture(); }
  void abort_capture() override { order_->abort_capture(); }
  CaptureInfo capture_info() override { return order_->capture_info(); }
  [[nodiscard]] const std::atomic<std::uint64_t>* capture_changes() const override { return order_->capture_changes(); }
  Dependencies capture_predecessors(NodeId node) override { return order_->capture_predecessors(node); }
  void set_capture_dependencies(std::span<const NodeId> nodes) override { order_->set_capture_dependencies(nodes); }

  void drain() override { order_->drain(); }
  bool is_idle() override { return order_->is_idle(); }
  bool synchronize(std::chrono::nanoseconds timeout) override { return order_->synchronize(timeout); }
  std::exception_ptr error() override { return order_->error(); }
  void reset_error() override { order_->reset_error(); }
  void* native() override { return order_->native(); }

 private:
  static void check_not_read(const void* to, const void* from, const LaunchInfo& info) {
    TESSERA_CHECK_AS(NotSupported, !is_meta_address(from) || is_meta_address(to), info.label,
                     ": memory of the meta device has no values to copy; run the program on another device");
  }

  const std::unique_ptr<StreamBackend> order_;
};

// Memory without bytes: an account.
class MetaMemory final : public MemoryBackend {
 public:
  MetaMemory(std::shared_ptr<std::atomic<std::size_t>> used, std::size_t nbytes)
      : used_(std::move(used)), nbytes_(nbytes) {}
  ~MetaMemory() override { used_->fetch_sub(nbytes_); }
  MetaMemory(const MetaMemory&) = delete;
  MetaMemory& operator=(const MetaMemory&) = delete;
  ExportedMemory export_handle() override { cannot("memory to export"); }

 private:
  const std::shared_ptr<std::atomic<std::size_t>> used_;
  const std::size_t nbytes_;
};

class MetaDevice final : public DeviceBackend {
 public:
  DeviceProperties properties() override {
    return {.kind = "meta",
            .index = 0,
            .description = "shapes without storage",
            .driver = "none",
            .memory_nbytes = kCapacityNbytes,
            .granularity = std::size_t{64} << 10,
            .multiprocessors = 1,
            .has_overlap = true,
            .has_values = false};
  }
  MemoryUse memory_use() override {
    return {.total_nbytes = kCapacityNbytes, .free_nbytes = kCapacityNbytes - used_->load(), .process_nbytes = 0};
  }
  // Streams that run on their caller: nothing is ever pending.
  std::unique_ptr<StreamBackend> create_stream(const StreamOptions& options, bool /*is_default*/) override {
    return std::make_unique<MetaStream>(order().create_stream(options, /*is_default=*/true));
  }
  std::unique_ptr<StreamBackend> wrap_stream(void* native) override {
    return std::make_unique<MetaStream>(order().wrap_stream(native));
  }
  std::shared_ptr<EventBackend> create_event(const EventOptions& options) override {
    return order().create_event(options);
  }
  std::shared_ptr<EventBackend> wrap_event(void* native, const EventOptions& options) override {
    return order().wrap_event(native, options);
  }
  std::shared_ptr<GraphExecBackend> instantiate(GraphBackend& graph, const InstantiateOptions& options) override {
    return order().instantiate(graph, options);
  }

  std::shared_ptr<MemoryBackend> create_memory(std::size_t nbytes) override {
    const std::size_t before = used_->fetch_add(nbytes);
    if (before > kCapacityNbytes || nbytes > kCapacityNbytes - before) {
      used_->fetch_sub(nbytes);
      TESSERA_THROW(OutOfMemory, "the meta device has ", format_bytes(kCapacityNbytes), "; ", format_bytes(before),
                    " are in use, and ", format_bytes(nbytes), " more do not fit");
    }
    return std::make_shared<MetaMemory>(used_, nbytes);
  }
  std::shared_ptr<MemoryBackend> import_memory(const ExportedMemory& /*exported*/) override {
    cannot("imported memory");
  }
  // Addresses are not used again; a device has enough for some 500 reservations of its capacity.
  std::byte* reserve(std::size_t nbytes, std::size_t alignment) override {
    const std::lock_guard lock(mutex_);
    const std::uintptr_t begin = (next_ + alignment - 1) / alignment * alignment;
    TESSERA_CHECK_AS(OutOfMemory, begin < kEndAddress && nbytes < kEndAddress - begin,
                     "reserve: the meta device has less than ", format_bytes(nbytes), " of free addresses");
    next_ = begin + nbytes;
    return reinterpret_cast<std::byte*>(begin);  // NOLINT(performance-no-int-to-ptr): made up
  }
  void release(std::byte* /*address*/, std::size_t /*nbytes*/) override {}
  void map(std::byte* /*address*/, MemoryBackend& /*memory*/, std::size_t /*nbytes*/) override {}
  void unmap(std::byte* /*address*/, std::size_t /*nbytes*/) override {}
  void protect(std::byte* /*address*/, std::size_t /*nbytes*/, Protection /*protection*/) override {}
  void share(std::byte* /*address*/, std::size_t /*nbytes*/, DeviceBackend& /*peer*/,
             Protection /*protection*/) override {
    cannot("peers");
  }
  bool can_share_with(DeviceBackend& /*peer*/) override { return false; }
  // Pinned memory belongs to the host and has values.
  std::byte* allocate_pinned(std::size_t nbytes) override { return order().allocate_pinned(nbytes); }
  void free_pinned(std::byte* address, std::size_t nbytes) override { order().free_pinned(address, nbytes); }
  bool is_capturable(const void* /*address*/) override { return true; }

  std::shared_ptr<ModuleBackend> load_module(std::span<const std::byte> /*image*/) override {
    cannot("kernels; operators run nothing on it");
  }

 private:
  [[nodiscard]] DeviceBackend& order() const { return *order_.state()->backend; }

  const Device order_ = host::make_host_device({.name = "meta"});
  const std::shared_ptr<std::atomic<std::size_t>> used_ = std::make_shared<std::atomic<std::size_t>>(0);
  std::mutex mutex_;
  std::uintptr_t next_ = kFirstAddress;
};

// The meta device of one rank.
struct RankMeta {
  Device device = make_meta_device();
};

std::vector<Device> devices_of_rank(std::string& /*why_none*/) {
  return {current_rank()->part<RankMeta>([] { return std::make_shared<RankMeta>(); }).device};
}

}  // namespace

Device make_meta_device() { return make_device(std::make_unique<MetaDevice>(), "meta"); }

bool is_meta_address(const void* address) {
  const auto value = reinterpret_cast<std::uintptr_t>(address);
  return value >= kFirstAddress && value < kEndAddress;
}

namespace {
[[maybe_unused]] const bool kRegistered =
    register_device_kind({.kind = "meta", .devices = &devices_of_rank, .is_listed = false});
}  // namespace

}  // namespace tessera::device::meta
