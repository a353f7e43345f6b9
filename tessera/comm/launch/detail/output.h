// What ranks write, put together for people: whole lines, each with its rank before it. Lines of different ranks never
// mix, whatever pieces they come in; stdout and stderr go to their own descriptors. A status line stands below them on
// a terminal. Writes never block: who reads slowly slows the ranks down, not the launcher.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera::comm::detail {

/// Cuts bytes into lines. A line end is a newline, a carriage return, or both.
class LineCutter {
 public:
  /// A line longer than this is cut.
  static constexpr std::size_t kMostLineBytes = std::size_t{1} << 20;

  /// Calls `line(text)` for every line that `bytes` completes, without its end.
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
      if (rest_.size() == kMostLineBytes) {
        line(std::string_view(rest_));
        rest_.clear();
      }
    }
  }
  /// The last line, which had no end.
  template <class Line>
  void finish(Line&& line) {
    if (!rest_.empty()) line(std::string_view(rest_));
    rest_.clear();
  }

 private:
  std::string rest_;
  bool was_return_ = false;
};

/// Lines on their way to two descriptors, which may be one file.
class Output {
 public:
  /// Ranks are asked for no more while this many bytes wait.
  static constexpr std::size_t kMostQueued = std::size_t{1} << 20;

  /// For a run of so many ranks.
  Output(int out, int err, int ranks);

  /// A line of a rank.
  void line(int rank, bool is_err, std::string_view text);
  /// A line of the launcher's own, to stderr.
  void say(std::string_view text);
  /// What stands below all lines on a terminal; empty: nothing.
  void set_status(std::string text);
  /// Whether stderr is a terminal, so that there is a status line.
  [[nodiscard]] bool has_status() const { return sinks_[err_sink_].is_terminal; }
  /// Whether so much waits that ranks must wait too.
  [[nodiscard]] bool is_full() const;
  /// Descriptors that have something to take.
  [[nodiscard]] std::vector<int> waiting() const;
  /// Descriptors that have a reader, as far as known.
  [[nodiscard]] std::vector<int> open() const;
  /// Writes some of what waits for this descriptor, which is ready for it.
  void write_some(int fd);
  /// Notes that the reader of this descriptor closed it. What waits for it, and later lines, are dropped.
  void note_closed(int fd);
  /// Whether someone closed what we write to.
  [[nodiscard]] bool is_broken() const;

 private:
  struct Sink {
    int fd = -1;
    bool is_terminal = false;
    bool has_color = false;
    bool is_broken = false;
    std::string queue = {};
    std::size_t at = 0;  // what is before it is out
  };
  void put(Sink& sink, std::string_view text);
  void show_status();

  std::vector<Sink> sinks_;
  std::size_t err_sink_ = 0;  // 0 too where both are one file
  int digits_ = 1;
  std::string status_;
  bool is_status_shown_ = false;
};

}  // namespace tessera::comm::detail
