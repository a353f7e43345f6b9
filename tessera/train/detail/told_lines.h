// A file that a run appends a line a step to (metrics.jsonl, loss.csv), where the disk may be full. A line that cannot
// be written does not end the run: the first is told loudly, all are counted, and lines go on when there is room again.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "tessera/train/metrics.h"
#include "tessera/train/progress.h"

namespace tessera::train::detail {

/// See the head of this file. For one thread.
class ToldLines {
 public:
  /// Opens the file, or makes it: IoError. A first line that is not empty is written before all others into a file that
  /// has none.
  ToldLines(const std::filesystem::path& path, Progress& progress, std::string first_line = {});
  /// Appends a line, or counts it as lost.
  void append(const std::string& line);
  /// Makes the lines durable; a failure is reported, and does not end the run.
  void sync();
  /// Lines that were lost.
  [[nodiscard]] std::int64_t lost() const { return lost_; }
  /// "7 lines of metrics.jsonl: No space left on device"; empty: none was lost.
  [[nodiscard]] std::string missing() const;

 private:
  void note_lost(const std::string& why);

  std::string name_;
  LineFile file_;
  Progress& progress_;
  std::string first_line_;  // empty: it is there
  std::int64_t lost_ = 0;
  bool is_losing_ = false;
  std::string why_;
};

}  // namespace tessera::train::detail
