#include "tessera/base/probe/annotation.h"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <forward_list>
#include <memory>
#include <vector>

#include "tessera/base/probe/detail/open_recorders.h"
#include "tessera/base/probe/recorder.h"

namespace tessera::probe {
namespace {

// A name and its id in the record.
struct Known {
  StringId id = {};
  std::uint8_t nbytes = 255;
  char text[27] = {};
};

// Cache of a thread for one record: claimed rows that are unused, and recent names.
struct ThreadAnnotations {
  explicit ThreadAnnotations(std::uint64_t id) : recorder(id) {}
  ~ThreadAnnotations() {
    const bool is_open = detail::with_open_recorder(recorder, [&](Recorder&) { rows.clear(); });
    if (is_open) return;
    for (Row<AnnotationRow>& row : rows) std::construct_at(&row);  // the rows were destroyed with their record
  }
  ThreadAnnotations(const ThreadAnnotations&) = delete;
  ThreadAnnotations& operator=(const ThreadAnnotations&) = delete;

  StringId id_of(Recorder& of, std::string_view name) {
    const std::uint64_t spread = reinterpret_cast<std::uintptr_t>(name.data()) * 0x9e3779b97f4a7c15U;
    Known& at = known[spread >> 60];
    const bool is_known = at.nbytes == name.size() && name.size() <= sizeof at.text &&
                          std::memcmp(at.text, name.data(), name.size()) == 0;
    return is_known ? at.id : intern(of, name, at);
  }
  static StringId intern(Recorder& of, std::string_view name, Known& at) {
    const StringId id = of.intern(name.empty() ? std::string_view("(no name)") : name);
    if (name.size() > sizeof at.text) return id;
    at.id = id;
    if (!name.empty()) std::memcpy(at.text, name.data(), name.size());
    at.nbytes = static_cast<std::uint8_t>(name.size());
    return id;
  }
  Row<AnnotationRow> take_row(Recorder& of) {
    if (rows.empty())
      return of.table<AnnotationRow>().claim({.value = 0, .since = {}, .name = none, .thread = thread, .depth = 0});
    Row<AnnotationRow> row = std::move(rows.back());
    rows.pop_back();
    return row;
  }

  std::uint64_t recorder;
  StringId none;  // the empty string
  std::uint32_t thread = 0;
  std::uint32_t depth = 0;
  std::vector<Row<AnnotationRow>> rows;
  Known known[16];
};

// Caches of a thread, one for each open record in which it had annotations; almost always one.
struct AllMarks {
  ~AllMarks();
  std::forward_list<ThreadAnnotations> list;  // a single pointer: thread-local storage is scarce
};
[[gnu::tls_model("initial-exec")]] constinit thread_local ThreadAnnotations* last_annotations = nullptr;
constinit thread_local bool is_past_end = false;
AllMarks::~AllMarks() {
  is_past_end = true;
  last_annotations = nullptr;
}

// Returns null if the thread is past its end.
ThreadAnnotations* find_annotations(Recorder& recorder, std::uint64_t id) {
  if (is_past_end) return nullptr;
  thread_local AllMarks all;
  const auto found = std::ranges::find(all.list, id, &ThreadAnnotations::recorder);
  if (found != all.list.end()) return last_annotations = &*found;
  std::erase_if(all.list,
                [](const auto& each) { return !detail::with_open_recorder(each.recorder, [](Recorder&) {}); });
  last_annotations = nullptr;
  ThreadAnnotations& annotations = all.list.emplace_front(id);
  annotations.none = recorder.intern("");
  annotations.thread = static_cast<std::uint32_t>(::gettid());
  annotations.rows.reserve(16);
  return last_annotations = &annotations;
}

// Cache of this thread for the record of its rank, and the time; null if nothing is recorded.
struct Entered {
  Recorder* recorder = nullptr;
  ThreadAnnotations* annotations = nullptr;
  Moment now = {};
};
inline Entered enter() {
  Recorder& own = recorder();
  if (!own.is_on()) return {};
  const Moment now = own.begin();
  const detail::ThreadWriter* writer = detail::last_writer;
  if (writer == nullptr) return {};
  ThreadAnnotations* annotations = last_annotations;
  if (annotations == nullptr || annotations->recorder != writer->recorder) [[unlikely]]
    annotations = find_annotations(own, writer->recorder);
  return {&own, annotations, now};
}

// Packs two fields into a word.
constexpr std::uint64_t pair(std::uint32_t first, std::uint32_t second) {
  return first | static_cast<std::uint64_t>(second) << 32;
}
static_assert(offsetof(AnnotationRow, since) == 8 && offsetof(AnnotationRow, name) == 16 &&
              offsetof(AnnotationRow, depth) == 24);
static_assert(offsetof(AnnotationBeginRecord, name) == 8 && offsetof(AnnotationBeginRecord, depth) == 12);

}  // namespace

Annotation::Annotation(std::string_view name, std::int64_t value) {
  const auto [recorder, annotations, now] = enter();
  if (annotations == nullptr) return;
  recorder_ = annotations->recorder;
  value_ = value;
  name_ = annotations->id_of(*recorder, name);
  depth_ = annotations->depth++;
  row_ = annotations->take_row(*recorder);
  const auto given = static_cast<std::uint64_t>(value);
  recorder->write_words_at<AnnotationBeginRecord>(now, Ring::kLaunch, given, pair(name_.value(), depth_));
  row_.put_words({given, now.value(), pair(name_.value(), annotations->thread), depth_});
}

Annotation::~Annotation() {
  if (recorder_ == 0) return;
  const auto [recorder, annotations, now] = enter();
  if (annotations == nullptr || annotations->recorder != recorder_) {
    // The thread works for another rank, or the record of this one is gone.
    const bool is_open = detail::with_open_recorder(recorder_, [&](Recorder&) { row_.release(); });
    if (!is_open) std::construct_at(&row_);
    return;
  }
  const auto given = static_cast<std::uint64_t>(value_);
  recorder->write_words_at<AnnotationEndRecord>(now, Ring::kLaunch, given, pair(name_.value(), depth_));
  row_.put_words({0, 0, pair(annotations->none.value(), annotations->thread), 0});
  if (annotations->depth > 0) --annotations->depth;
  if (row_ && annotations->rows.size() < annotations->rows.capacity()) annotations->rows.push_back(std::move(row_));
}

}  // namespace tessera::probe
