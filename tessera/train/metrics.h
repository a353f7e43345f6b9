// metrics.jsonl: one line a step and rank, appended by all ranks to one file of the run directory. A line goes out in
// one write to a file opened for appending, so lines of ranks do not mix, and what was written stays when a rank dies.
// Of a line that finds no room nothing stays.
//
//   {"rank":1,"step":7,"loss":2.5,"grad_norm":0.8,"learning_rate":0.003,"end":"done","tokens":2048,"seconds":0.21,
//    "exposed_seconds":0.02,"tokens_per_second":9752.4,"memory":{"parameters":1048576,...}}
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

/// A file that is appended to, a line in one write. Not thread-safe.
class TESSERA_API LineFile {
 public:
  /// Opens the file, or makes it.
  explicit LineFile(std::filesystem::path path);
  /// Closes it.
  ~LineFile();
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;
  /// Appends the line, to which it adds a line end. IoError: the file system took none or only a part of it, which is
  /// cut off again unless another has appended since.
  void append(std::string line);
  /// Makes all lines and the name of the file durable. Throws IoError. Files that cannot be synced count as synced.
  void sync();

 private:
  void cut_off(std::int64_t nbytes) const;

  std::filesystem::path path_;
  int fd_ = -1;
  bool is_named_ = false;  // its directory was synced
};

/// "done", "skipped_nan", "skipped_spike".
TESSERA_API std::string_view to_string(StepEnd end);

/// The line of a step, without its line end.
TESSERA_API std::string metrics_line(int rank, const StepReport& report, std::span<const OwnedBytes> memory);

}  // namespace tessera::train
