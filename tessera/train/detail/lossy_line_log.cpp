#include "tessera/train/detail/lossy_line_log.h"

#include <utility>

#include "tessera/base/error.h"
#include "tessera/base/log.h"

namespace tessera::train::detail {

LossyLineLog::LossyLineLog(const std::filesystem::path& path, Progress& progress, std::string first_line)
    : name_(path.filename().string()), file_(path), progress_(progress), first_line_(std::move(first_line)) {
  std::error_code none;
  if (std::filesystem::file_size(path, none) > 0 && !none) first_line_.clear();
}

void LossyLineLog::append(const std::string& line) {
  try {
    if (!first_line_.empty()) file_.append(first_line_);
    first_line_.clear();
    file_.append(line);
  } catch (const IoError& error) {
    return note_lost(error.message());
  }
  if (!std::exchange(is_losing_, false)) return;
  const std::string words = name_ + " can be written again; " + std::to_string(lost_) + " lines are missing";
  log::warn(words);
  progress_.say(words + "\n");
}

void LossyLineLog::sync() {
  try {
    file_.sync();
  } catch (const IoError& error) {
    log::error(name_, ": ", error.message(), "; its lines may not survive a crash of the machine");
  }
}

void LossyLineLog::note_lost(const std::string& why) {
  lost_ += 1;
  why_ = why;
  if (std::exchange(is_losing_, true)) return;
  log::error("a line of ", name_, " is lost: ", why, "; the run continues and counts lost lines");
  progress_.say("a line of " + name_ + " is lost: " + why + "\nthe run continues and counts lost lines\n");
}

std::string LossyLineLog::missing() const {
  if (lost_ == 0) return {};
  return std::to_string(lost_) + (lost_ == 1 ? " line of " : " lines of ") + name_ + ": " + why_;
}

}  // namespace tessera::train::detail
