#include "tessera/comm/launch/detail/output.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "tessera/base/env.h"

namespace tessera::comm::detail {
namespace {

// A pipe that is ready accepts this many bytes without blocking.
constexpr std::size_t kPieceBytes = 4096;
constexpr const char* kColors[] = {"36", "33", "35", "32", "34", "96", "93", "95", "92", "94"};
constexpr std::string_view kEraseLine = "\r\x1b[2K";

bool is_same_file(int one, int other) {
  struct stat a = {};
  struct stat b = {};
  return ::fstat(one, &a) == 0 && ::fstat(other, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

bool wants_color(bool is_terminal) {
  const std::string_view policy = env::log_color();
  if (policy != "auto") return policy == "always";
  const char* no_color = std::getenv("NO_COLOR");
  return is_terminal && (no_color == nullptr || *no_color == '\0');
}

}  // namespace

Output::Output(int out, int err, int ranks) : digits_(static_cast<int>(std::to_string(ranks - 1).size())) {
  for (const int fd : {out, err}) {
    const bool is_terminal = ::isatty(fd) == 1;
    sinks_.push_back({.fd = fd, .is_terminal = is_terminal, .has_color = wants_color(is_terminal)});
  }
  if (is_same_file(out, err)) {
    sinks_.pop_back();
  } else {
    err_sink_ = 1;
  }
}

// The status line is removed before anything is written to a terminal, and written again after all lines.
void Output::put(Sink& sink, std::string_view text) {
  if (sink.is_broken) return;
  if (is_status_shown_ && sink.is_terminal && !sinks_[err_sink_].is_broken) {
    sinks_[err_sink_].queue += kEraseLine;
    is_status_shown_ = false;
  }
  sink.queue += text;
}

void Output::line(int rank, bool is_err, std::string_view text) {
  Sink& sink = sinks_[is_err ? err_sink_ : 0];
  const std::string number = std::to_string(rank);
  std::string prefix = "[" + std::string(static_cast<std::size_t>(digits_) - number.size(), ' ') + number + "]";
  if (sink.has_color) {
    const char* color = kColors[static_cast<std::size_t>(rank) % std::size(kColors)];
    prefix = "\x1b[" + std::string(color) + "m" + prefix + "\x1b[0m";
  }
  put(sink, prefix + " " + std::string(text) + "\n");
}

void Output::say(std::string_view text) {
  Sink& sink = sinks_[err_sink_];
  const std::string line = "tessera run: " + std::string(text);
  put(sink, sink.has_color ? "\x1b[1m" + line + "\x1b[0m\n" : line + "\n");
}

void Output::set_status(std::string text) {
  Sink& sink = sinks_[err_sink_];
  if (!sink.is_terminal || sink.is_broken || text == status_) return;
  status_ = std::move(text);
  put(sink, "");
  show_status();
}

void Output::show_status() {
  Sink& sink = sinks_[err_sink_];
  if (status_.empty() || is_status_shown_ || sink.is_broken) return;
  sink.queue += status_;
  is_status_shown_ = true;
}

bool Output::is_full() const {
  return std::any_of(sinks_.begin(), sinks_.end(), [](const Sink& sink) { return sink.queue.size() > kMaxQueued; });
}

std::vector<int> Output::waiting() const {
  std::vector<int> fds;
  for (const Sink& sink : sinks_) {
    if (!sink.queue.empty()) fds.push_back(sink.fd);
  }
  return fds;
}

std::vector<int> Output::open() const {
  std::vector<int> fds;
  for (const Sink& sink : sinks_) {
    if (!sink.is_broken) fds.push_back(sink.fd);
  }
  return fds;
}

void Output::note_closed(int fd) {
  for (Sink& sink : sinks_) {
    if (sink.fd != fd) continue;
    sink.is_broken = true;
    sink.queue.clear();
    sink.at = 0;
  }
}

void Output::write_some(int fd) {
  for (Sink& sink : sinks_) {
    if (sink.fd != fd || sink.queue.empty()) continue;
    const ssize_t written =
        ::write(fd, sink.queue.data() + sink.at, std::min(sink.queue.size() - sink.at, kPieceBytes));
    if (written >= 0) {
      sink.at += static_cast<std::size_t>(written);
    } else if (errno != EAGAIN && errno != EINTR) {
      sink.is_broken = true;
    }
    if (sink.is_broken || sink.at == sink.queue.size()) {
      sink.queue.clear();
      sink.at = 0;
    }
  }
  if (waiting().empty()) show_status();
}

bool Output::is_broken() const {
  return std::any_of(sinks_.begin(), sinks_.end(), [](const Sink& sink) { return sink.is_broken; });
}

}  // namespace tessera::comm::detail
