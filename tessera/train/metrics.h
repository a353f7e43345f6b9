// metrics.jsonl: one line per step and rank, appended by all ranks to one file of the run directory. Each line is one
// write to a file opened for appending, so lines of different ranks do not mix, and lines survive the death of a rank.
// A line that does not fit on the disk is removed entirely.
//
//   {"rank":1,"step":7,"loss":2.5,"grad_norm":0.8,"learning_rate":0.003,"end":"done","tokens":2048,"seconds":0.21,
//    "exposed_seconds":0.02,"tokens_per_second":9752.4,"time":1795032437.512,"memory":{"parameters":1048576,...}}
//
// A loss or norm that is not finite is null.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "tessera/base/export.h"
#include "tessera/train/trainer.h"

namespace tessera::train {

/// File to which each line is appended with one write. Not thread-safe.
class TESSERA_API LineFile {
 public:
  /// Opens the file and creates it if needed.
  explicit LineFile(std::filesystem::path path);
  /// Closes the file.
  ~LineFile();
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;
  /// Appends the line and a line end. Throws IoError if the write is incomplete. A partially written line is then
  /// removed, unless another process has appended since.
  void append(std::string line);
  /// Makes all lines and the name of the file durable. Throws IoError. Files that cannot be synced count as synced.
  void sync();

 private:
  void cut_off(std::int64_t nbytes) const;

  std::filesystem::path path_;
  int fd_ = -1;
  bool is_named_ = false;  // its directory was synced
};

/// Returns "done", "skipped_nan" or "skipped_spike".
TESSERA_API std::string_view to_string(StepEnd end);

/// Returns the line of a step, without a line end.
TESSERA_API std::string metrics_line(int rank, const StepReport& report, std::span<const OwnedBytes> memory);

}  // namespace tessera::train
