// Merges the output of the ranks: complete lines, each prefixed with its rank. Lines of different ranks never mix,
// however their bytes arrive; stdout and stderr go to separate descriptors. On a terminal, a status line is below them.
// Writes never block: a slow reader slows down the ranks, not the launcher.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera::comm::detail {

/// Splits bytes into lines. A line end is a newline, a carriage return, or both.
class LineCutter {
 public:
  /// Maximum length of a line; longer lines are split.
  static constexpr std::size_t kMaxLineBytes = std::size_t{1} << 20;

  /// Calls `line(text)` for each line that `bytes` completes, without its end.
  template <class Line>
  void feed(std::string_view bytes, Line&& line) {
    for (const char c : bytes) {
      const bool follows_return = std::exchange(was_return_, c == '\r');
      if (c == '\n' && follows_return) continue;
      if (c == '\n' || c == '\r') {
        line(std::string_view(rest_));
        rest_.clear();
        continue;
      }
      rest_ += c;
      if (rest_.size() == kMaxLineBytes) {
        line(std::string_view(rest_));
        rest_.clear();
      }
    }
  }
  /// Calls `line(text)` for the last line if it has no end.
  template <class Line>
  void finish(Line&& line) {
    if (!rest_.empty()) line(std::string_view(rest_));
    rest_.clear();
  }

 private:
  std::string rest_;
  bool was_return_ = false;
};

/// Lines queued for two descriptors, which may be the same file.
class Output {
 public:
  /// Ranks are not read while this many bytes are queued.
  static constexpr std::size_t kMaxQueued = std::size_t{1} << 20;

  /// Creates the output of a run of `ranks` ranks.
  Output(int out, int err, int ranks);

  /// Queues a line of a rank.
  void line(int rank, bool is_err, std::string_view text);
  /// Queues a line of the launcher, for stderr.
  void say(std::string_view text);
  /// Sets the status line below all lines on a terminal; empty: none.
  void set_status(std::string text);
  /// Returns true if stderr is a terminal, so that there is a status line.
  [[nodiscard]] bool has_status() const { return sinks_[err_sink_].is_terminal; }
  /// Returns true if so many bytes are queued that ranks must wait.
  [[nodiscard]] bool is_full() const;
  /// Returns the descriptors with queued bytes.
  [[nodiscard]] std::vector<int> waiting() const;
  /// Returns the descriptors that are not known to be closed by their reader.
  [[nodiscard]] std::vector<int> open() const;
  /// Writes some of the queued bytes to this descriptor, which is ready.
  void write_some(int fd);
  /// Notes that the reader of this descriptor closed it. Queued and later lines are dropped.
  void note_closed(int fd);
  /// Returns true if a reader closed its descriptor.
  [[nodiscard]] bool is_broken() const;

 private:
  struct Sink {
    int fd = -1;
    bool is_terminal = false;
    bool has_color = false;
    bool is_broken = false;
    std::string queue = {};
    std::size_t at = 0;  // bytes before it are written
  };
  void put(Sink& sink, std::string_view text);
  void show_status();

  std::vector<Sink> sinks_;
  std::size_t err_sink_ = 0;  // 0 if both are the same file
  int digits_ = 1;
  std::string status_;
  bool is_status_shown_ = false;
};

}  // namespace tessera::comm::detail
