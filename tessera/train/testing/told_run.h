// Runs of a model that trains in no time, on a text of their own, with what they say caught line by line; and what a
// run left, for comparing two of them bit by bit.
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

/// Writes a text to train on into the directory; its path.
std::string write_text(const std::filesystem::path& directory);
/// A small model with dropout on that text, with checkpoints every 2 steps, in `directory`/run.
Config told_config(const std::filesystem::path& directory);

/// A file that hands over each line as it is written, and keeps nothing.
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

/// What a run left: loss.csv, the files of its newest checkpoint that hold tensors, its step and its text "trainer".
/// Makes no tensor, so that a process without a rank may ask.
std::map<std::string, std::string> left_by(const std::filesystem::path& run_directory);
/// How the two differ, in a line; empty: they do not.
std::string difference(const std::map<std::string, std::string>& got, const std::map<std::string, std::string>& want);
/// What is wrong with metrics.jsonl of a run of so many steps and ranks, if not every rank tells of every step once.
std::string wrong_lines(const std::filesystem::path& run_directory, std::int64_t steps, int ranks);

}  // namespace tessera::train::testing
