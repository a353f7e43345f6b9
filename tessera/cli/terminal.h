// Full-screen use of the terminal: the alternate screen, without echo, drawn in place. The terminal is restored by the
// destructor, when the process is stopped, and when a signal ends it.
//
//   Terminal terminal;                      // the screen is ours
//   terminal.draw(lines);
//   switch (terminal.wait(other_fd)) ...    // a key, a signal, other_fd
#pragma once

#include <termios.h>

#include <csignal>
#include <cstddef>
#include <string>
#include <vector>

namespace tessera::cli {

/// Result of Terminal::wait().
struct TerminalEvent {
  char key = 0;             ///< pressed key; 0: none
  int ending_signal = 0;    ///< signal that requests the end of the process; 0: none
  bool is_changed = false;  ///< the size changed, or the process continues after a stop: redraw
  bool is_other = false;    ///< the other descriptor is readable
  bool is_gone = false;     ///< the terminal was closed
};

/// Takes over the terminal of stdin and stdout. At most one object may exist. During its lifetime, SIGINT, SIGTERM,
/// SIGHUP, SIGQUIT, SIGTSTP and SIGWINCH are blocked in the calling thread and in threads that it starts.
class Terminal {
 public:
  /// Returns true if stdin and stdout are a terminal.
  static bool is_there();
  /// Throws IoError if the terminal cannot be configured.
  Terminal();
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  /// Columns and lines; 80 and 24 if the terminal does not report them.
  struct Size {
    std::size_t width = 80;
    std::size_t height = 24;
  };
  /// Returns the current size.
  [[nodiscard]] static Size size();
  /// Shows these lines from the top, and clears the rest.
  static void draw(const std::vector<std::string>& lines);
  /// Waits for a key, a signal, or until `other` is readable.
  TerminalEvent wait(int other);

 private:
  void enter();
  void leave() noexcept;

  termios shell_ = {};
  sigset_t blocked_before_ = {};
  int signals_ = -1;
};

}  // namespace tessera::cli
