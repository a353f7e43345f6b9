// A file with one line per step (metrics.jsonl, loss.csv) on a disk that may be full. A line that cannot be written
// does not end the run: the first one is reported, all are counted, and writing continues when there is space again.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "tessera/train/metrics.h"
#include "tessera/train/progress.h"

namespace tessera::train::detail {

/// Appends lines and counts lost ones. Not thread-safe.
class LossyLineLog {
 public:
  /// Opens the file and creates it if needed. Throws IoError. A nonempty `first_line` is written before all others into
  /// an empty file.
  LossyLineLog(const std::filesystem::path& path, Progress& progress, std::string first_line = {});
  /// Appends a line, or counts it as lost.
  void append(const std::string& line);
  /// Makes the lines durable. A failure is reported and does not end the run.
  void sync();
  /// Returns the number of lost lines.
  [[nodiscard]] std::int64_t lost() const { return lost_; }
  /// Returns "7 lines of metrics.jsonl: No space left on device"; empty if none was lost.
  [[nodiscard]] std::string missing() const;

 private:
  void note_lost(const std::string& why);

  std::string name_;
  LineFile file_;
  Progress& progress_;
  std::string first_line_;  // empty: already written
  std::int64_t lost_ = 0;
  bool is_losing_ = false;
  std::string why_;
};

}  // namespace tessera::train::detail
