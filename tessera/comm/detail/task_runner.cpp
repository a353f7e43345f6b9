#include "tessera/comm/detail/task_runner.h"

#include "tessera/base/error.h"
#include "tessera/base/mutant.h"
#include "tessera/comm/collectives/collective.h"
#include "tessera/comm/detail/group_record.h"

namespace tessera::comm::detail {
namespace {

std::int64_t now_ns() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

// What of this rank's buffers a task reads and writes; peers do, too, while it runs.
SmallVector<device::Access, 8> accesses_of(const Task& task, int rank, int size) {
  SmallVector<device::Access, 8> accesses;
  for (const Operation& operation : task.operations) {
    const std::size_t item = itemsize(operation.dtype);
    Extents extents;
    if (operation.kind == OpKind::kSend) {
      extents.in = operation.count;
    } else if (operation.kind == OpKind::kRecv) {
      extents.out = operation.count;
    } else {
      extents = definition(operation.kind).extents(operation, rank, size);
    }
    if (extents.in > 0) accesses.push_back(device::reads(operation.in, static_cast<std::size_t>(extents.in) * item));
    if (extents.out > 0)
      accesses.push_back(device::writes(operation.out, static_cast<std::size_t>(extents.out) * item));
  }
  return accesses;
}

}  // namespace

void TaskRunner::enqueue(Task& task, const device::Stream& stream, device::HostFunction run) const {
  task.extended_ns = stream.is_capturing() ? Task::kAtEachRun : extended_ns_.load(std::memory_order_relaxed);
  const SmallVector<device::Access, 8> accesses = accesses_of(task, rank_, size_);
  const std::string_view label =
      task.operations.size() == 1 ? to_string(task.operations[0].kind) : std::string_view("coalesced");
  stream.run(std::move(run), {.label = label, .accesses = std::span<const device::Access>(accesses)});
}

void TaskRunner::run(Task& task, const std::function<void()>& steps) {
  task.began_ns.store(now_ns(), std::memory_order_relaxed);
  bool has_begun = false;
  try {
    const std::unique_lock lock(running_, std::try_to_lock);
    TESSERA_CHECK(lock.owns_lock(), "group ", *task.group, ": two operations run at once on rank ", rank_,
                  ", from streams that are not ordered; inside captures, order them by events");
    // Before its number says that it runs: whoever sees that and gives it more time does so for good.
    if (!TESSERA_MUTANT("comm.extensions_last")) {
      const std::int64_t now = extended_ns_.load(std::memory_order_relaxed);
      before_ns_.store(task.extended_ns == Task::kAtEachRun ? now : task.extended_ns, std::memory_order_relaxed);
    }
    const std::uint64_t step = TESSERA_MUTANT("comm.sequence_stands_still") ? 0 : 1;
    task.sequence.store(sequence_.fetch_add(step, std::memory_order_release) + 1, std::memory_order_release);
    has_begun = true;
    task.record->began(task);
    steps();
  } catch (...) {
    if (!TESSERA_MUTANT("comm.error_lost")) task.error = std::current_exception();
  }
  task.ended_ns.store(now_ns(), std::memory_order_relaxed);
  const std::exception_ptr error = task.error;
  if (has_begun) task.record->ended(task);
  task.is_done.store(1, std::memory_order_release);
  task.is_done.notify_all();
  if (error) std::rethrow_exception(error);
}

}  // namespace tessera::comm::detail
