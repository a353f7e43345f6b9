// The backend of a rank that is alone in its world (traffic.h). Operations on memory without values complete when they
// are enqueued, and are listed. In a capture, each is an empty node.
#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/base/probe/recorder.h"
#include "tessera/base/rank.h"
#include "tessera/comm/collectives/collective.h"
#include "tessera/comm/communicator.h"
#include "tessera/comm/detail/world_state.h"
#include "tessera/comm/store/memory_store.h"
#include "tessera/comm/traffic.h"

namespace tessera::comm {
namespace {

constexpr const char* kName = "meta";

// The operations of one rank.
struct TrafficList {
  std::mutex mutex;
  std::vector<Traffic> all;

  void add(const Operation& operation, const std::vector<Rank>& ranks, int rank) {
    Extents extents{operation.count, operation.count};
    if (!is_message(operation.kind))
      extents = definition(operation.kind).extents(operation, rank, static_cast<int>(ranks.size()));
    const std::lock_guard lock(mutex);
    auto found = std::ranges::find_if(
        all, [&](const Traffic& each) { return each.kind == operation.kind && each.ranks == ranks; });
    if (found == all.end()) found = all.insert(found, {.kind = operation.kind, .ranks = ranks});
    ++found->count;
    found->nbytes += std::max(extents.in, extents.out) * static_cast<std::int64_t>(itemsize(operation.dtype));
  }
};

TrafficList& list_of_rank() {
  auto* list = current_rank()->find_part<TrafficList>();
  TESSERA_CHECK(list != nullptr, "traffic: requires a rank of run_as(), got rank ", current_place().rank,
                " of another world");
  return *list;
}

class MetaCommunicator final : public Communicator {
 public:
  explicit MetaCommunicator(const ConnectRequest& request) : ranks_(request.ranks), rank_(request.rank) {}
  [[nodiscard]] const Capabilities& capabilities() const override { return of_backend(); }
  void enqueue(const std::shared_ptr<Task>& task, const device::Stream& stream) override {
    list(*task);
    stream.run([] {}, {.label = to_string(task->operations[0].kind), .accesses = std::span<const device::Access>()});
  }
  bool run_now(Task& task, const device::Stream& /*stream*/) override {
    list(task);
    task.sequence.store(sequence_.load(std::memory_order_relaxed), std::memory_order_release);
    task.is_done.store(1, std::memory_order_release);
    return true;
  }
  void abort(std::string_view /*reason*/) noexcept override {}
  [[nodiscard]] std::vector<int> gone() const override { return {}; }
  void extend_deadline(std::chrono::nanoseconds /*by*/) override {}
  [[nodiscard]] std::uint64_t sequence() const override { return sequence_.load(std::memory_order_relaxed); }

  static const Capabilities& of_backend() {
    static const Capabilities kAll = {
        .kinds = kAllOpKinds, .device_kinds = {kName}, .has_fixed_order = true, .has_capture = true};
    return kAll;
  }

 private:
  void list(const Task& task) {
    TrafficList& all = list_of_rank();
    for (const Operation& operation : task.operations) all.add(operation, ranks_, rank_);
    sequence_.fetch_add(1, std::memory_order_relaxed);
  }

  const std::vector<Rank> ranks_;
  const int rank_;
  std::atomic<std::uint64_t> sequence_{0};
};

std::string why_not(const ConnectRequest& /*request*/) {
  return detail::WorldState::current().is_alone() ? "" : "the world has other ranks";
}

std::shared_ptr<Communicator> connect(const ConnectRequest& request) {
  return std::make_shared<MetaCommunicator>(request);
}

const BackendRegistration kMeta{{.name = kName,
                                 .preference = -1,
                                 .capabilities = MetaCommunicator::of_backend(),
                                 .why_not = why_not,
                                 .connect = connect,
                                 .is_suggested = false}};

}  // namespace

void run_as(const AloneRank& rank, const std::function<void()>& body) {
  TESSERA_CHECK(rank.world_size >= 1 && rank.rank.value() >= 0 && rank.rank.value() < rank.world_size,
                "run_as: rank must be in [0, ", rank.world_size, "), got ", rank.rank);
  const auto context = std::make_shared<RankContext>(RankPlace{.rank = rank.rank, .world_size = rank.world_size});
  const RankScope scope(context);
  probe::open_recorder(*context, {.is_on = false});
  context->part<TrafficList>([] { return std::make_shared<TrafficList>(); });
  context->part<detail::WorldState>(
      [] { return std::make_shared<detail::WorldState>(std::make_shared<MemoryStore>(), nullptr, nullptr, kName); });
  body();
}

std::vector<Traffic> traffic() {
  TrafficList& list = list_of_rank();
  const std::lock_guard lock(list.mutex);
  return list.all;
}

void reset_traffic() {
  TrafficList& list = list_of_rank();
  const std::lock_guard lock(list.mutex);
  list.all.clear();
}

}  // namespace tessera::comm
