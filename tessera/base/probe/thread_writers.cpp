// The writers of a thread, one per open recorder that it has written to; almost always one.
#include <forward_list>

#include "tessera/base/probe/detail/open_recorders.h"
#include "tessera/base/probe/recorder.h"

namespace tessera::probe {
namespace detail {

constinit thread_local ThreadWriter* last_writer = nullptr;

struct ThreadWriters {
  std::forward_list<ThreadWriter> list;  // a single pointer: thread-local storage is scarce

  ThreadWriter* find_or_add(Recorder& recorder, std::uint64_t id) {
    for (ThreadWriter& writer : list) {
      if (writer.recorder == id) return &writer;
    }
    std::erase_if(list, [](const auto& writer) { return !with_open_recorder(writer.recorder, [](Recorder&) {}); });
    const auto thread = recorder.enter_thread_row();
    ThreadWriter& writer = list.emplace_front();
    writer.recorder = id;
    writer.thread = thread;
    return &writer;
  }

  ~ThreadWriters();
};

namespace {

// Set when the writers are destroyed but the thread still runs: destructors of other thread-local objects may record.
constinit thread_local bool is_past_end = false;

ThreadWriters& thread_writers() {
  thread_local ThreadWriters own;
  return own;
}

}  // namespace

ThreadWriters::~ThreadWriters() {
  is_past_end = true;
  last_writer = nullptr;
  for (const ThreadWriter& writer : list) {
    with_open_recorder(writer.recorder, [&](Recorder& recorder) { recorder.leave_thread_row(writer.thread); });
  }
}

}  // namespace detail

detail::ThreadWriter* Recorder::enter_thread() {
  if (detail::is_past_end) return nullptr;
  detail::last_writer = detail::thread_writers().find_or_add(*this, id_);
  return detail::last_writer;
}

}  // namespace tessera::probe
