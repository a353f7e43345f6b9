#include "tessera/comm/detail/task_runner.h"

#include <utility>

#include "tessera/base/error.h"
#include "tessera/comm/collectives/collective.h"
#include "tessera/comm/detail/group_record.h"

namespace tessera::comm::detail {
namespace {

std::string_view label_of(const Task& task) {
  return task.operations.size() == 1 ? to_string(task.operations[0].kind) : std::string_view("coalesced");
}

// Returns the accesses of a task to this rank's buffers; peers access them too while it runs.
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
  stream.run(std::move(run), {.label = label_of(task), .accesses = std::span<const device::Access>(accesses)});
}

void TaskRunner::note_began(const Task& task) {
  if (std::exchange(is_begin_noted_, true)) return;
  if (asked_on_ != nullptr) task.record->asked(task, *asked_on_, began_ticks_);
  task.record->began(task, began_ticks_);
}

bool TaskRunner::run_now(Task& task, const device::Stream& stream, const std::function<void()>& steps) {
  task.extended_ns = extended_ns_.load(std::memory_order_relaxed);
  device::HostFunction body([&] { run(task, steps, &stream); });
  return stream.try_run(body, {.label = label_of(task)});
}

void TaskRunner::run(Task& task, const std::function<void()>& steps, const device::Stream* asked_on) {
  const bool is_alone = !is_running_.exchange(true, std::memory_order_acquire);
  std::exception_ptr error;
  try {
    TESSERA_CHECK(is_alone, "group ", *task.group, ": operations of rank ", rank_,
                  " must be ordered, got two at once from unordered streams; in captures, order streams with events");
    // Before its number shows that it runs: a caller that then extends the deadline must not lose the extension.
    const std::int64_t now = extended_ns_.load(std::memory_order_relaxed);
    before_ns_.store(task.extended_ns == Task::kAtEachRun ? now : task.extended_ns, std::memory_order_relaxed);
    const std::uint64_t before = sequence_.load(std::memory_order_relaxed);
    sequence_.store(before + 1, std::memory_order_release);
    task.sequence.store(before + 1, std::memory_order_release);
    began_ticks_ = probe::read_ticks(clock_);
    is_begin_noted_ = false;
    asked_on_ = asked_on;
    steps();
  } catch (...) {
    error = std::current_exception();
  }
  task.error = error;
  if (is_alone) {
    note_began(task);  // unless the steps did, or could not
    const std::uint64_t now = probe::read_ticks(clock_);
    task.ran_ns.store(time_of(now - began_ticks_).count(), std::memory_order_relaxed);
    is_running_.store(false, std::memory_order_release);
    task.record->ended(task, now);
  } else if (asked_on != nullptr) {
    task.record->asked(task, *asked_on);
  }
  task.is_done.store(1, std::memory_order_release);
  if (task.error) std::rethrow_exception(task.error);
}

}  // namespace tessera::comm::detail
