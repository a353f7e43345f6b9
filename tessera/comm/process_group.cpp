#include "tessera/comm/process_group.h"

#include <algorithm>
#include <mutex>

#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/comm/collectives/collective.h"
#include "tessera/comm/detail/backend_hint.h"
#include "tessera/comm/detail/group_state.h"
#include "tessera/comm/detail/symmetric/registry.h"
#include "tessera/comm/detail/work_state.h"
#include "tessera/comm/detail/world_state.h"
#include "tessera/device/device.h"

namespace tessera::comm {
namespace {

// Sets fields one by one: an initializer of all fields would first clear the storage of the lists.
Operation operation_of(OpKind kind, const void* in, void* out, std::int64_t count, DType dtype,
                       const ReduceOp& reduction = {}) {
  Operation operation;
  operation.kind = kind;
  operation.dtype = dtype;
  operation.reduction = reduction;
  operation.in = static_cast<const std::byte*>(in);
  operation.out = static_cast<std::byte*>(out);
  operation.count = count;
  return operation;
}

SmallVector<std::int64_t, 8> listed(OpKind kind, std::span<const std::int64_t> counts) {
  // An Operation without counts has even chunks.
  TESSERA_CHECK(!counts.empty(), to_string(kind), ": counts must have one entry per rank, got none");
  SmallVector<std::int64_t, 8> list;
  list.append(counts);
  return list;
}

GroupState& state_of(const std::shared_ptr<GroupState>& state) {
  TESSERA_CHECK(state != nullptr, "group handle must not be empty; this rank is not a member");
  state->owner.check("process group");
  return *state;
}

void check_operation(const GroupState& group, const Operation& operation) {
  const int size = static_cast<int>(group.ranks.size());
  const Capabilities& can = group.communicator->capabilities();
  TESSERA_CHECK_AS(NotSupported, can.supports(operation.kind), "group ", group.name, ": backend ", group.backend,
                   " does not support ", to_string(operation.kind), "; ",
                   is_message(operation.kind) ? "use permute for pairs of ranks, or " : "",
                   detail::backend_hint([&](const Capabilities& other) { return other.supports(operation.kind); }));
  if (!is_message(operation.kind)) {
    check_arguments(operation, group.rank, size);
    return;
  }
  const bool is_send = operation.kind == OpKind::kSend;
  TESSERA_CHECK(operation.peer >= 0 && operation.peer < size && operation.peer != group.rank, text_of(operation),
                ": peer must be another rank in [0, ", size - 1, "], got ", operation.peer);
  TESSERA_CHECK(operation.count >= 0, text_of(operation), ": count must not be negative, got ", operation.count);
  const void* buffer = is_send ? operation.in : operation.out;
  TESSERA_CHECK(operation.count == 0 || buffer != nullptr, text_of(operation), ": buffer must not be null");
}

void check_device(const GroupState& group, const Capabilities& can, const device::Stream& stream) {
  const device::Device device = stream.device();
  TESSERA_CHECK_AS(NotSupported, can.supports(device), "group ", group.name, ": backend ", group.backend,
                   " does not support memory of ", device.name(), "; ",
                   detail::backend_hint([&](const Capabilities& other) { return other.supports(device); }),
                   ", which GroupOptions::backend selects");
}

// Operations of one group run in the order they were enqueued, even on different streams.
void order_behind_last(const GroupState& group, const device::Stream& stream) {
  const device::Stream& last = group.last_stream;
  if (!last || last.state() == stream.state() || last.id() == stream.id()) return;
  if (last.is_capturing() != stream.is_capturing()) return;
  if (stream.is_capturing() && last.capture_info().id != stream.capture_info().id) return;
  const device::Event event = stream.device().create_event();
  last.record(event);
  stream.wait(event);
}

}  // namespace

const std::string& ProcessGroup::name() const { return state_of(state_).name; }
int ProcessGroup::rank() const { return state_of(state_).rank; }
int ProcessGroup::size() const { return static_cast<int>(state_of(state_).ranks.size()); }
const std::vector<Rank>& ProcessGroup::ranks() const { return state_of(state_).ranks; }
std::string_view ProcessGroup::backend() const { return state_of(state_).backend; }
std::chrono::nanoseconds ProcessGroup::deadline() const {
  return std::chrono::nanoseconds(state_of(state_).deadline_ns.load(std::memory_order_relaxed));
}
void ProcessGroup::set_deadline(std::chrono::nanoseconds deadline) const {
  TESSERA_CHECK(deadline > std::chrono::nanoseconds(0), "group ", name(), ": the deadline must be positive, got ",
                deadline.count(), " ns");
  state_->deadline_ns.store(deadline.count(), std::memory_order_relaxed);
}
void ProcessGroup::extend_deadline(std::chrono::nanoseconds by) const {
  TESSERA_CHECK(by > std::chrono::nanoseconds(0), "extend_deadline: the extension must be positive, got ", by.count(),
                " ns; shorten deadlines with set_deadline()");
  GroupState& group = state_of(state_);
  group.communicator->extend_deadline(by);
  group.extended_ns.fetch_add(by.count(), std::memory_order_relaxed);
}
std::uint64_t ProcessGroup::sequence() const { return state_of(state_).communicator->sequence(); }

Work ProcessGroup::launch(std::span<const Operation> operations, const device::Stream& stream) const {
  GroupState& group = state_of(state_);
  const Capabilities& can = group.communicator->capabilities();
  const std::lock_guard lock(group.launch_mutex);
  if (group.last_stream.state() != stream.state()) check_device(group, can, stream);
  // Takes the lock of the stream only if it may capture.
  const bool is_captured = stream.slot().hazards() != 0 && stream.is_capturing();
  TESSERA_CHECK_AS(NotSupported, !is_captured || can.has_capture, "group ", group.name, ": operations of backend ",
                   group.backend, " cannot be captured; run them outside of graphs, or ",
                   detail::backend_hint(&Capabilities::has_capture));
  TESSERA_CHECK(!operations.empty(), "group ", group.name, ": a launch must have at least one operation");
  for (const Operation& operation : operations) check_operation(group, operation);
  auto made = std::make_shared<WorkState>(operations);
  WorkState& work = *made;
  std::shared_ptr<Task> task(std::move(made), &work.task);
  // With OnHang::kWait, only the watchdog reports the deadline.
  const bool waits_on = group.on_hang == OnHang::kWait && detail::group_observer() != nullptr;
  task->deadline =
      waits_on ? device::kForever : std::chrono::nanoseconds(group.deadline_ns.load(std::memory_order_relaxed));
  task->group = std::shared_ptr<const std::string>(state_, &group.name);
  task->group_digest = group.digest;
  task->record = &group.record;
  // A rendezvous compares them itself, with a more detailed error.
  const std::uint64_t registrations = group.symmetric->digest.load(std::memory_order_acquire);
  if (registrations != 0 && operations[0].kind != OpKind::kRendezvous && !is_captured) {
    task->registrations = registrations;
  }
  task->number = group.record.next_number();
  if (!is_captured) group.record.expect(task->number);
  try {
    order_behind_last(group, stream);
    if (is_captured || !group.communicator->run_now(*task, stream)) {
      group.record.asked(*task, stream);
      group.communicator->enqueue(task, stream);
    }
  } catch (...) {
    // Nothing of it is on the stream: it will not run, and no rank must wait for it.
    if (!is_captured) group.record.expect(task->number - 1);
    throw;
  }
  if (group.last_stream.state() != stream.state()) group.last_stream = stream;
  if (is_captured) return Work();
  if (task->is_done.load(std::memory_order_acquire) == 0) {
    work.event = stream.device().create_event();
    stream.record(work.event);
  }
  return Work(std::shared_ptr<WorkState>(std::move(task), &work));
}

Work ProcessGroup::launch(const Operation& operation, const device::Stream& stream) const {
  return launch(std::span(&operation, 1), stream);
}

Work ProcessGroup::all_reduce(const void* in, void* out, std::int64_t count, DType dtype, const ReduceOp& reduction,
                              const device::Stream& stream) const {
  return launch(operation_of(OpKind::kAllReduce, in, out, count, dtype, reduction), stream);
}

Work ProcessGroup::all_gather(const void* in, void* out, std::int64_t count, DType dtype,
                              const device::Stream& stream) const {
  return launch(operation_of(OpKind::kAllGather, in, out, count, dtype), stream);
}

Work ProcessGroup::all_gather(const void* in, void* out, std::span<const std::int64_t> counts, DType dtype,
                              const device::Stream& stream) const {
  Operation operation = operation_of(OpKind::kAllGather, in, out, 0, dtype);
  operation.out_counts = listed(operation.kind, counts);
  return launch(operation, stream);
}

Work ProcessGroup::reduce_scatter(const void* in, void* out, std::int64_t count, DType dtype, const ReduceOp& reduction,
                                  const device::Stream& stream) const {
  return launch(operation_of(OpKind::kReduceScatter, in, out, count, dtype, reduction), stream);
}

Work ProcessGroup::reduce_scatter(const void* in, void* out, std::span<const std::int64_t> counts, DType dtype,
                                  const ReduceOp& reduction, const device::Stream& stream) const {
  Operation operation = operation_of(OpKind::kReduceScatter, in, out, 0, dtype, reduction);
  operation.in_counts = listed(operation.kind, counts);
  return launch(operation, stream);
}

Work ProcessGroup::all_to_all(const void* in, void* out, std::int64_t count, DType dtype,
                              const device::Stream& stream) const {
  return launch(operation_of(OpKind::kAllToAll, in, out, count, dtype), stream);
}

Work ProcessGroup::all_to_all(const void* in, std::span<const std::int64_t> in_counts, void* out,
                              std::span<const std::int64_t> out_counts, DType dtype,
                              const device::Stream& stream) const {
  Operation operation = operation_of(OpKind::kAllToAll, in, out, 0, dtype);
  operation.in_counts = listed(operation.kind, in_counts);
  operation.out_counts = listed(operation.kind, out_counts);
  return launch(operation, stream);
}

Work ProcessGroup::broadcast(const void* in, void* out, std::int64_t count, DType dtype, int root,
                             const device::Stream& stream) const {
  Operation operation = operation_of(OpKind::kBroadcast, in, out, count, dtype);
  operation.root = root;
  return launch(operation, stream);
}

Work ProcessGroup::reduce(const void* in, void* out, std::int64_t count, DType dtype, const ReduceOp& reduction,
                          int root, const device::Stream& stream) const {
  Operation operation = operation_of(OpKind::kReduce, in, out, count, dtype, reduction);
  operation.root = root;
  return launch(operation, stream);
}

Work ProcessGroup::gather(const void* in, void* out, std::int64_t count, DType dtype, int root,
                          const device::Stream& stream) const {
  Operation operation = operation_of(OpKind::kGather, in, out, count, dtype);
  operation.root = root;
  return launch(operation, stream);
}

Work ProcessGroup::gather(const void* in, void* out, std::span<const std::int64_t> counts, DType dtype, int root,
                          const device::Stream& stream) const {
  Operation operation = operation_of(OpKind::kGather, in, out, 0, dtype);
  operation.root = root;
  operation.out_counts = listed(operation.kind, counts);
  return launch(operation, stream);
}

Work ProcessGroup::scatter(const void* in, void* out, std::int64_t count, DType dtype, int root,
                           const device::Stream& stream) const {
  Operation operation = operation_of(OpKind::kScatter, in, out, count, dtype);
  operation.root = root;
  return launch(operation, stream);
}

Work ProcessGroup::scatter(const void* in, void* out, std::span<const std::int64_t> counts, DType dtype, int root,
                           const device::Stream& stream) const {
  Operation operation = operation_of(OpKind::kScatter, in, out, 0, dtype);
  operation.root = root;
  operation.in_counts = listed(operation.kind, counts);
  return launch(operation, stream);
}

Work ProcessGroup::barrier(const device::Stream& stream) const { return launch({.kind = OpKind::kBarrier}, stream); }

Work ProcessGroup::send(const void* in, std::int64_t count, DType dtype, int to, const device::Stream& stream) const {
  Operation operation = operation_of(OpKind::kSend, in, nullptr, count, dtype);
  operation.peer = to;
  return launch(operation, stream);
}

Work ProcessGroup::recv(void* out, std::int64_t count, DType dtype, int from, const device::Stream& stream) const {
  Operation operation = operation_of(OpKind::kRecv, nullptr, out, count, dtype);
  operation.peer = from;
  return launch(operation, stream);
}

void ProcessGroup::abort(std::string_view reason) const {
  Communicator& communicator = *state_of(state_).communicator;
  TESSERA_CHECK_AS(NotSupported, communicator.capabilities().has_abort, "group ", name(), ": backend ", backend(),
                   " cannot abort pending operations, which end at their deadline; ",
                   detail::backend_hint(&Capabilities::has_abort));
  const bool is_shared = detail::WorldState::current().is_shared(communicator);
  communicator.abort(is_shared ? std::string(reason) + " (abort of group " + name() +
                                     ", which shares its communicator with other groups of the same ranks)"
                               : std::string(reason));
}

std::exception_ptr ProcessGroup::error() const {
  const GroupState& group = state_of(state_);
  return group.communicator->failure(group.name);
}

std::vector<int> ProcessGroup::lost() const { return state_of(state_).communicator->gone(); }

}  // namespace tessera::comm
