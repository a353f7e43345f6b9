// Runs of a very small model on a generated text, with their output captured line by line; and bitwise comparison of
// the files of two runs.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tessera/train/config.h"

namespace tessera::train::testing {

/// Writes a training text into the directory. Returns its path.
std::string write_text(const std::filesystem::path& directory);
/// Returns a small model with dropout on that text, with checkpoints every 2 steps, in `directory`/run.
Config told_config(const std::filesystem::path& directory);

/// A file that passes on each written line and keeps nothing.
class LineListener {
 public:
  explicit LineListener(std::function<void(const std::string& line)> hear);
  ~LineListener();
  LineListener(const LineListener&) = delete;
  LineListener& operator=(const LineListener&) = delete;
  [[nodiscard]] std::FILE* file() const { return file_; }

 private:
  static ssize_t take(void* self, const char* bytes, std::size_t count);

  std::function<void(const std::string&)> hear_;
  std::string rest_;
  std::FILE* file_ = nullptr;
};

/// Returns the results of a run: loss.csv, the tensor files of its newest checkpoint, its step and its metadata
/// "trainer". Creates no tensor, so that a process without a rank may call it.
std::map<std::string, std::string> left_by(const std::filesystem::path& run_directory);
/// Returns the difference in one line; empty if none.
std::string difference(const std::map<std::string, std::string>& got, const std::map<std::string, std::string>& want);
/// Returns the fault of metrics.jsonl, which must hold every step of every rank once; empty if none.
std::string wrong_lines(const std::filesystem::path& run_directory, std::int64_t steps, int ranks);

}  // namespace tessera::train::testing
