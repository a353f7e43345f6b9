#include "tessera/comm/work.h"

#include "tessera/base/error.h"
#include "tessera/comm/detail/group_record.h"
#include "tessera/comm/detail/work_state.h"
#include "tessera/device/device.h"

namespace tessera::comm {
namespace {

WorkState& state_of(const std::shared_ptr<WorkState>& state) {
  TESSERA_CHECK(state != nullptr,
                "Work must not be empty, as that of a captured operation is; wait for the replay of the graph");
  state->owner.check("work");
  return *state;
}

void look(Task& task, bool has_ended) {
  if (task.look && task.is_done.load(std::memory_order_acquire) == 0) task.look(task, has_ended);
}

}  // namespace

void Work::wait(std::chrono::nanoseconds timeout) const {
  WorkState& work = state_of(state_);
  // The task reports its error, whatever else failed on the stream.
  if (!is_done()) {
    try {
      work.event.synchronize(timeout);
    } catch (...) {
      if (!is_done()) throw;
    }
    look(work.task, true);
  }
  work.task.record->note_noticed(work.task.number);
  if (work.task.error) std::rethrow_exception(work.task.error);
}

void Work::wait_on(const device::Stream& stream) const {
  WorkState& work = state_of(state_);
  if (work.event) stream.wait(work.event);
}

bool Work::is_done() const {
  WorkState& work = state_of(state_);
  if (work.task.is_done.load(std::memory_order_acquire) != 0) return true;
  if (!work.task.look) return false;
  // On a device it has ended when its writes are visible to all, which the event shows.
  try {
    if (!work.event.query()) return false;
  } catch (const std::exception&) {
    // Other work on the stream has failed.
  }
  look(work.task, true);
  return work.task.is_done.load(std::memory_order_acquire) != 0;
}

std::exception_ptr Work::error() const { return is_done() ? state_->task.error : nullptr; }

std::chrono::nanoseconds Work::duration() const {
  const Task& task = state_of(state_).task;
  TESSERA_CHECK(is_done(), "duration: the operation must have finished; wait for it first");
  return std::chrono::nanoseconds(task.ran_ns.load());
}

std::uint64_t Work::sequence() const {
  Task& task = state_of(state_).task;
  look(task, false);
  return task.sequence.load(std::memory_order_acquire);
}

}  // namespace tessera::comm
