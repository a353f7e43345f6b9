#include "tessera/base/probe/detail/thread_rows.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace tessera::probe::detail {

ThreadRows::ThreadRows(TableSection& tables, ClockSource clock)
    : table_(tables.find_or_make(kind_number_of<ThreadRow>(), sizeof(ThreadRow), ThreadRow::kRows)), clock_(clock) {}

std::uint64_t ThreadRows::enter() {
  if (table_ == nullptr) return kUnknownThread;
  ThreadRow row{};
  row.tid = static_cast<std::uint32_t>(syscall(SYS_gettid));
  pthread_getname_np(pthread_self(), row.name, sizeof row.name);
  const std::lock_guard lock(mutex_);
  std::uint32_t index = table_->claim(&row);
  if (index == kNoRow && !ended_.empty()) {
    // claimed again, so that the age of the row separates the records of its thread from older ones
    table_->release(ended_.front());
    ended_.pop_front();
    index = table_->claim(&row);
  }
  return index == kNoRow ? kUnknownThread : index;
}

void ThreadRows::leave(std::uint64_t row) {
  if (row == kUnknownThread) return;
  const auto index = static_cast<std::uint32_t>(row);
  const std::lock_guard lock(mutex_);
  ThreadRow contents{};
  table_->load(index, &contents);
  contents.ended = Moment{read_ticks(clock_)};
  table_->store(index, &contents);
  ended_.push_back(index);
}

}  // namespace tessera::probe::detail
