// A record of this process whose launches, annotations and collectives have times that a test chooses: microseconds
// since its creation, also in the future.
#pragma once

#include <cstdint>
#include <string>

#include "tessera/base/probe/reader.h"
#include "tessera/base/probe/recorder.h"
#include "tessera/comm/records.h"

namespace tessera::analysis::testing {

/// Recorder with chosen times.
class TimedRecord {
 public:
  /// Creates a group "world" of this rank alone.
  TimedRecord();

  /// Records a launch on a stream. Returns its number.
  std::uint64_t launch(std::int64_t us, const std::string& label, std::uint32_t stream = 1,
                       const std::string& device = "host");
  /// Records its end as the host does: without a start time.
  void launch_end(std::int64_t us, std::uint64_t number, std::uint32_t stream = 1, const std::string& device = "host");
  /// Records its end as devices do, some time later.
  void device_end(std::int64_t told_us, std::uint64_t number, std::int64_t begin_us, std::int64_t end_us,
                  std::uint32_t stream = 1, const std::string& device = "cuda:0");
  /// Records launch and end on the host.
  void kernel(std::int64_t asked_us, std::int64_t end_us, const std::string& label, std::uint32_t stream = 1);

  /// Records the replay of a graph on the host, from its enqueue.
  void replay(std::int64_t asked_us, std::int64_t end_us, std::uint32_t stream = 1);

  /// Records the start of an annotation of this thread.
  void mark_begin(std::int64_t us, const std::string& name, std::int64_t value, std::uint32_t depth);
  /// Records its end.
  void mark_end(std::int64_t us, const std::string& name, std::int64_t value, std::uint32_t depth);

  /// Records a collective of the world on stream 1 of the host, from enqueue to end.
  void collective(comm::OpKind kind, std::int64_t asked_us, std::int64_t begin_us, std::int64_t end_us);

  /// Returns a time as records hold it.
  [[nodiscard]] probe::Moment at(std::int64_t us) const;
  /// Returns the same time in nanoseconds since 1970, as the file states it.
  [[nodiscard]] std::int64_t wall_ns(std::int64_t us) const;
  /// Returns the path of the file.
  [[nodiscard]] std::string path() const { return recorder_.path(); }
  /// Returns a snapshot of the file.
  [[nodiscard]] probe::RecordFile file() const { return probe::RecordFile::open(path()); }

 private:
  probe::Recorder recorder_;
  probe::Row<comm::CommGroupRow> world_;
  double ticks_per_us_ = 1;
  std::uint64_t first_ = 0;
  std::uint64_t number_ = 0;
  std::uint32_t task_ = 0;
};

}  // namespace tessera::analysis::testing
