#include "tessera/base/probe/detail/open_recorders.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <vector>

#include "tessera/base/probe/recorder.h"

namespace tessera::probe::detail {
namespace {

struct OpenRecorder {
  std::uint64_t id;
  Recorder* recorder;
  std::function<void(int)> end;
  std::function<void()> disown;
};

struct OpenRecorders {
  std::mutex mutex;  // not recursive: a recursive mutex cannot be unlocked in a forked child
  std::vector<OpenRecorder> list;
};

void close_all(int exit_code, void* unused);

void before_fork();
void after_fork_in_parent();
void after_fork_in_child();

OpenRecorders& open_recorders() {
  static auto* only = [] {
    ::on_exit(close_all, nullptr);  // atexit does not tell the exit code
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    return new OpenRecorders;  // never destroyed: threads may outlive main
  }();
  return *only;
}

// The mappings stay: other threads may still be writing.
void close_all(int exit_code, void* /*unused*/) {
  OpenRecorders& open = open_recorders();
  const std::lock_guard lock(open.mutex);
  while (!open.list.empty()) {
    open.list.back().end(exit_code);
    open.list.pop_back();
  }
}

void before_fork() {
  open_recorders().mutex.lock();
  lock_kind_registry();
}
void after_fork_in_parent() {
  unlock_kind_registry();
  open_recorders().mutex.unlock();
}
std::atomic<bool> is_child_of_recorded{false};

void after_fork_in_child() {
  if (!open_recorders().list.empty()) is_child_of_recorded.store(true);
  for (const OpenRecorder& open : open_recorders().list) open.disown();
  open_recorders().list.clear();
  after_fork_in_parent();
}

}  // namespace

bool has_recording_parent() { return is_child_of_recorded.load(std::memory_order_relaxed); }

std::uint64_t new_recorder_id() {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1) + 1;
}

void add_open_recorder(std::uint64_t id, Recorder* recorder, std::function<void(int)> end,
                       std::function<void()> disown) {
  OpenRecorders& open = open_recorders();
  const std::lock_guard lock(open.mutex);
  open.list.push_back({id, recorder, std::move(end), std::move(disown)});
}

void remove_open_recorder(std::uint64_t id) {
  OpenRecorders& open = open_recorders();
  const std::lock_guard lock(open.mutex);
  std::erase_if(open.list, [id](const OpenRecorder& each) { return each.id == id; });
}

bool with_open_recorder(std::uint64_t id, const std::function<void(Recorder&)>& use) {
  OpenRecorders& open = open_recorders();
  const std::lock_guard lock(open.mutex);
  for (const OpenRecorder& each : open.list) {
    if (each.id == id) {
      use(*each.recorder);
      return true;
    }
  }
  return false;
}

}  // namespace tessera::probe::detail
