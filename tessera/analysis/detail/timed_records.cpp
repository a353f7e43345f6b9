#include "tessera/analysis/detail/timed_records.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "tessera/analysis/detail/wording.h"
#include "tessera/base/probe/annotation.h"
#include "tessera/device/launch_records.h"

namespace tessera::analysis::detail {
namespace {

using device::LaunchEndRecord;
using device::LaunchRecord;
using probe::RecordFile;
using probe::RecordRef;

constexpr std::int64_t kMaxOff = 3'600'000'000'000;  // ns: maximum error of device clocks

std::int64_t sum(std::int64_t a, std::int64_t b) {
  std::int64_t both = 0;
  if (!__builtin_add_overflow(a, b, &both)) return both;
  return b < 0 ? std::numeric_limits<std::int64_t>::min() : std::numeric_limits<std::int64_t>::max();
}

class Reader {
 public:
  explicit Reader(const RecordFile& file) : file_(file) {}

  TimedRecords read(std::int64_t until_ns) {
    const std::vector<RecordRef>& records = file_.records();
    const auto end = std::partition_point(records.begin(), records.end(),
                                          [&](const RecordRef& ref) { return wall_ns(ref) <= until_ns; });
    std::for_each(records.begin(), end, [this](const RecordRef& ref) { take(ref); });
    for (auto& [thread, open] : threads_) found_.open_marks.insert(found_.open_marks.end(), open.begin(), open.end());
    return std::move(found_);
  }

 private:
  enum class Kind : std::uint8_t { kNew, kOther, kAnnotationBegin, kAnnotationEnd, kLaunch, kLaunchEnd };
  struct Open {
    probe::StringId label;
    std::int64_t asked_ns = 0;
    bool is_graph = false;
  };
  struct StreamState {
    std::unordered_map<std::uint64_t, Open> open;  // by number
    std::int64_t free_since_ns = 0;
  };
  using StreamKey = std::pair<std::uint32_t, std::uint32_t>;  // device and stream

  [[nodiscard]] std::int64_t wall_ns(const RecordRef& ref) const { return file_.info().clock.wall_ns(ref.ticks); }

  // Kinds have separate numbers in each file: a name is compared once per kind, not once per record.
  Kind kind_of(const RecordRef& ref) {
    if (kinds_.size() <= ref.kind) kinds_.resize(static_cast<std::size_t>(ref.kind) + 1, Kind::kNew);
    Kind& kind = kinds_[ref.kind];
    if (kind != Kind::kNew) return kind;
    const std::string name = file_.read(ref).kind;
    if (name == probe::AnnotationBeginRecord::kRecordName) return kind = Kind::kAnnotationBegin;
    if (name == probe::AnnotationEndRecord::kRecordName) return kind = Kind::kAnnotationEnd;
    if (name == LaunchRecord::kRecordName) return kind = Kind::kLaunch;
    if (name == LaunchEndRecord::kRecordName) return kind = Kind::kLaunchEnd;
    return kind = Kind::kOther;
  }

  void take(const RecordRef& ref) {
    switch (kind_of(ref)) {
      case Kind::kAnnotationBegin: return begin_mark(ref);
      case Kind::kAnnotationEnd: return end_mark(ref);
      case Kind::kLaunch: return begin_launch(ref);
      case Kind::kLaunchEnd: return end_launch(ref);
      case Kind::kNew:
      case Kind::kOther: return;
    }
  }

  // Once per thread: reading a complete record takes time. An earlier thread of that number is unknown.
  std::uint32_t tid_of(const RecordRef& ref) {
    std::uint32_t& tid = tids_[ref.thread];
    if (tid != 0) return tid;
    const probe::ThreadInfo thread = file_.read(ref).thread;
    if (thread.tid != 0 && !thread.name.empty()) found_.threads[thread.tid] = thread.name;
    return tid = thread.tid;
  }

  // Annotations of equal or greater depth have ended; the times of their ends are lost.
  void begin_mark(const RecordRef& ref) {
    const auto record = file_.as<probe::AnnotationBeginRecord>(ref);
    if (!record) return;
    std::vector<TimedAnnotation>& open = threads_[ref.thread];
    while (!open.empty() && open.back().depth >= record->depth) open.pop_back();
    open.push_back({.name = record->name,
                    .value = record->value,
                    .tid = tid_of(ref),
                    .thread = ref.thread,
                    .depth = record->depth,
                    .begin_ns = wall_ns(ref)});
  }

  void end_mark(const RecordRef& ref) {
    const auto record = file_.as<probe::AnnotationEndRecord>(ref);
    if (!record) return;
    std::vector<TimedAnnotation>& open = threads_[ref.thread];
    while (!open.empty() && open.back().depth > record->depth) open.pop_back();
    if (open.empty() || open.back().depth != record->depth) return;  // it began before the oldest record
    TimedAnnotation annotation = open.back();
    open.pop_back();
    annotation.end_ns = wall_ns(ref);
    const bool is_same = annotation.name == record->name && annotation.value == record->value;
    if (is_same && annotation.end_ns >= annotation.begin_ns) found_.annotations.push_back(annotation);
  }

  // Usually the same as the last one.
  StreamState& stream_of(probe::StringId device, std::uint32_t stream) {
    const StreamKey key{device.value(), stream};
    if (last_stream_ == nullptr || key != last_key_) {
      last_stream_ = &streams_[key];
      last_key_ = key;
    }
    return *last_stream_;
  }

  void begin_launch(const RecordRef& ref) {
    const auto record = file_.as<LaunchRecord>(ref);
    if (!record) return;
    stream_of(record->device, record->stream).open[record->number] = {record->label, wall_ns(ref), record->graph != 0};
  }

  void end_launch(const RecordRef& ref) {
    const auto record = file_.as<LaunchEndRecord>(ref);
    if (!record) return;
    StreamState& stream = stream_of(record->device, record->stream);
    if (record->number == 0) return end_wait(stream, ref, record->when);
    const auto open = stream.open.find(record->number);
    if (open == stream.open.end()) return;
    const Open begun = open->second;
    stream.open.erase(open);
    const std::int64_t when_ns = file_.info().clock.wall_ns(record->when.value());
    const std::int64_t end_ns = sum(when_ns, record->ended_ns);
    const bool is_begin_known = record->begun_ns != record->ended_ns;
    const std::int64_t begin_ns =
        is_begin_known ? sum(when_ns, record->begun_ns) : std::max(begun.asked_ns, stream.free_since_ns);
    const std::int64_t told_ns = wall_ns(ref);
    if (difference(begin_ns, begun.asked_ns) > kMaxOff || difference(told_ns, end_ns) > kMaxOff) return;
    if (end_ns < begin_ns) return;
    stream.free_since_ns = std::max(stream.free_since_ns, std::min(end_ns, told_ns));
    found_.kernels.push_back({.label = begun.label,
                              .device = record->device,
                              .stream = record->stream,
                              .asked_ns = begun.asked_ns,
                              .begin_ns = begin_ns,
                              .end_ns = end_ns,
                              .is_graph = begun.is_graph});
  }

  void end_wait(StreamState& stream, const RecordRef& ref, probe::Moment when) const {
    const std::int64_t end_ns = file_.info().clock.wall_ns(when.value());
    if (difference(wall_ns(ref), end_ns) <= kMaxOff)
      stream.free_since_ns = std::max(stream.free_since_ns, std::min(end_ns, wall_ns(ref)));
  }

  const RecordFile& file_;
  TimedRecords found_;
  std::vector<Kind> kinds_;
  std::map<std::uint16_t, std::vector<TimedAnnotation>> threads_;  // open annotations, the innermost last
  std::unordered_map<std::uint16_t, std::uint32_t> tids_;
  std::map<StreamKey, StreamState> streams_;
  StreamState* last_stream_ = nullptr;
  StreamKey last_key_ = {};
};

}  // namespace

TimedRecords read_timed_records(const RecordFile& file, std::int64_t until_ns) { return Reader(file).read(until_ns); }

}  // namespace tessera::analysis::detail
