// A record of this process's own whose launches, marks and collectives happen when a test says so: moments are
// microseconds since it was made, which may be to come.
#pragma once

#include <cstdint>
#include <string>

#include "tessera/base/probe/reader.h"
#include "tessera/base/probe/recorder.h"
#include "tessera/comm/records.h"

namespace tessera::record::testing {

/// See the head of this file.
class TimedRecord {
 public:
  /// With a group "world" of this rank alone.
  TimedRecord();

  /// A launch on a stream; the number of it.
  std::uint64_t launch(std::int64_t us, const std::string& label, std::uint32_t stream = 1,
                       const std::string& device = "host");
  /// Its end, as the host tells it: when it began is not known.
  void launch_end(std::int64_t us, std::uint64_t number, std::uint32_t stream = 1, const std::string& device = "host");
  /// Its end, as devices tell it, some time after.
  void device_end(std::int64_t told_us, std::uint64_t number, std::int64_t begin_us, std::int64_t end_us,
                  std::uint32_t stream = 1, const std::string& device = "cuda:0");
  /// Both, on the host: put on its stream, ended.
  void kernel(std::int64_t asked_us, std::int64_t end_us, const std::string& label, std::uint32_t stream = 1);

  /// A mark of this thread.
  void mark_begin(std::int64_t us, const std::string& name, std::int64_t value, std::uint32_t depth);
  /// Its end.
  void mark_end(std::int64_t us, const std::string& name, std::int64_t value, std::uint32_t depth);

  /// A collective of the world on stream 1 of the host, from asking to its end.
  void collective(comm::OpKind kind, std::int64_t asked_us, std::int64_t begin_us, std::int64_t end_us);

  /// A moment as records hold it.
  [[nodiscard]] probe::Moment at(std::int64_t us) const;
  /// The same in nanoseconds since 1970, as the file tells it.
  [[nodiscard]] std::int64_t wall_ns(std::int64_t us) const;
  /// The file.
  [[nodiscard]] std::string path() const { return recorder_.path(); }
  /// A snapshot of it.
  [[nodiscard]] probe::RecordFile file() const { return probe::RecordFile::open(path()); }

 private:
  probe::Recorder recorder_;
  probe::Row<comm::CommGroupRow> world_;
  double ticks_per_us_ = 1;
  std::uint64_t first_ = 0;
  std::uint64_t number_ = 0;
  std::uint32_t task_ = 0;
};

}  // namespace tessera::record::testing
