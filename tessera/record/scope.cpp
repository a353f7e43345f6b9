#include "tessera/record/scope.h"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <forward_list>
#include <memory>
#include <vector>

#include "tessera/base/probe/detail/open_recorders.h"
#include "tessera/base/probe/recorder.h"

namespace tessera::record {
namespace {

using probe::Row;
using probe::StringId;

// A name and its id in the record.
struct Known {
  StringId id = {};
  std::uint8_t nbytes = 255;
  char text[27] = {};
};

// Cache of a thread for one record: claimed rows that are unused, and recent names.
struct ThreadMarks {
  explicit ThreadMarks(std::uint64_t id) : recorder(id) {}
  ~ThreadMarks() {
    const bool is_open = probe::detail::with_open_recorder(recorder, [&](probe::Recorder&) { rows.clear(); });
    if (is_open) return;
    for (Row<MarkRow>& row : rows) std::construct_at(&row);  // the rows were destroyed with their record
  }
  ThreadMarks(const ThreadMarks&) = delete;
  ThreadMarks& operator=(const ThreadMarks&) = delete;

  StringId id_of(probe::Recorder& of, std::string_view name) {
    const std::uint64_t spread = reinterpret_cast<std::uintptr_t>(name.data()) * 0x9e3779b97f4a7c15U;
    Known& at = known[spread >> 60];
    const bool is_known = at.nbytes == name.size() && name.size() <= sizeof at.text &&
                          std::memcmp(at.text, name.data(), name.size()) == 0;
    return is_known ? at.id : intern(of, name, at);
  }
  static StringId intern(probe::Recorder& of, std::string_view name, Known& at) {
    const StringId id = of.intern(name.empty() ? std::string_view("(no name)") : name);
    if (name.size() > sizeof at.text) return id;
    at.id = id;
    if (!name.empty()) std::memcpy(at.text, name.data(), name.size());
    at.nbytes = static_cast<std::uint8_t>(name.size());
    return id;
  }
  Row<MarkRow> take_row(probe::Recorder& of) {
    if (rows.empty())
      return of.table<MarkRow>().claim({.value = 0, .since = {}, .name = none, .thread = thread, .depth = 0});
    Row<MarkRow> row = std::move(rows.back());
    rows.pop_back();
    return row;
  }

  std::uint64_t recorder;
  StringId none;  // the empty string
  std::uint32_t thread = 0;
  std::uint32_t depth = 0;
  std::vector<Row<MarkRow>> rows;
  Known known[16];
};

// Caches of a thread, one for each open record in which it had annotations; almost always one.
struct AllMarks {
  ~AllMarks();
  std::forward_list<ThreadMarks> list;  // a single pointer: thread-local storage is scarce
};
[[gnu::tls_model("initial-exec")]] constinit thread_local ThreadMarks* last_marks = nullptr;
constinit thread_local bool is_past_end = false;
AllMarks::~AllMarks() {
  is_past_end = true;
  last_marks = nullptr;
}

// Returns null if the thread is past its end.
ThreadMarks* find_marks(probe::Recorder& recorder, std::uint64_t id) {
  if (is_past_end) return nullptr;
  thread_local AllMarks all;
  const auto found = std::ranges::find(all.list, id, &ThreadMarks::recorder);
  if (found != all.list.end()) return last_marks = &*found;
  std::erase_if(all.list, [](const auto& each) {
    return !probe::detail::with_open_recorder(each.recorder, [](probe::Recorder&) {});
  });
  last_marks = nullptr;
  ThreadMarks& marks = all.list.emplace_front(id);
  marks.none = recorder.intern("");
  marks.thread = static_cast<std::uint32_t>(::gettid());
  marks.rows.reserve(16);
  return last_marks = &marks;
}

// Cache of this thread for the record of its rank, and the time; null if nothing is recorded.
struct Entered {
  probe::Recorder* recorder = nullptr;
  ThreadMarks* marks = nullptr;
  probe::Moment now = {};
};
inline Entered enter() {
  probe::Recorder& recorder = probe::recorder();
  if (!recorder.is_on()) return {};
  const probe::Moment now = recorder.begin();
  const probe::detail::ThreadWriter* writer = probe::detail::last_writer;
  if (writer == nullptr) return {};
  ThreadMarks* marks = last_marks;
  if (marks == nullptr || marks->recorder != writer->recorder) [[unlikely]]
    marks = find_marks(recorder, writer->recorder);
  return {&recorder, marks, now};
}

// Packs two fields into a word.
constexpr std::uint64_t pair(std::uint32_t first, std::uint32_t second) {
  return first | static_cast<std::uint64_t>(second) << 32;
}
static_assert(offsetof(MarkRow, since) == 8 && offsetof(MarkRow, name) == 16 && offsetof(MarkRow, depth) == 24);
static_assert(offsetof(MarkBeginRecord, name) == 8 && offsetof(MarkBeginRecord, depth) == 12);

}  // namespace

Scope::Scope(std::string_view name, std::int64_t value) {
  const auto [recorder, marks, now] = enter();
  if (marks == nullptr) return;
  recorder_ = marks->recorder;
  value_ = value;
  name_ = marks->id_of(*recorder, name);
  depth_ = marks->depth++;
  row_ = marks->take_row(*recorder);
  const auto given = static_cast<std::uint64_t>(value);
  recorder->write_words_at<MarkBeginRecord>(now, probe::Ring::kLaunch, given, pair(name_.value(), depth_));
  row_.put_words({given, now.value(), pair(name_.value(), marks->thread), depth_});
}

Scope::~Scope() {
  if (recorder_ == 0) return;
  const auto [recorder, marks, now] = enter();
  if (marks == nullptr || marks->recorder != recorder_) {
    // The thread works for another rank, or the record of this one is gone.
    const bool is_open = probe::detail::with_open_recorder(recorder_, [&](probe::Recorder&) { row_.release(); });
    if (!is_open) std::construct_at(&row_);
    return;
  }
  const auto given = static_cast<std::uint64_t>(value_);
  recorder->write_words_at<MarkEndRecord>(now, probe::Ring::kLaunch, given, pair(name_.value(), depth_));
  row_.put_words({0, 0, pair(marks->none.value(), marks->thread), 0});
  if (marks->depth > 0) --marks->depth;
  if (row_ && marks->rows.size() < marks->rows.capacity()) marks->rows.push_back(std::move(row_));
}

}  // namespace tessera::record
