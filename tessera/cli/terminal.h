// The terminal as a screen: another one than the shell's, without echo, drawn in place. It is given back as it was when
// the object goes, when the process is stopped, and when a signal ends it.
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

/// What happened.
struct TerminalEvent {
  char key = 0;             ///< that was pressed; 0: none
  int ending_signal = 0;    ///< that asks the process to end; 0: none
  bool is_changed = false;  ///< the size changed, or the process goes on after it was stopped: draw anew
  bool is_other = false;    ///< the other descriptor can be read
  bool is_gone = false;     ///< nobody is at the terminal any more
};

/// Takes the terminal of stdin and stdout. One at a time. SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP and SIGWINCH are
/// blocked in the calling thread, and in threads it starts, as long as it lives.
class Terminal {
 public:
  /// Whether stdin and stdout are one.
  static bool is_there();
  /// IoError when it cannot be set.
  Terminal();
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  /// Columns and lines; 80 and 24 where it does not say.
  struct Size {
    std::size_t width = 80;   ///< columns
    std::size_t height = 24;  ///< lines
  };
  /// As it is now.
  [[nodiscard]] static Size size();
  /// Shows these lines from the top, and nothing else.
  static void draw(const std::vector<std::string>& lines);
  /// Waits for a key, a signal or the other descriptor.
  TerminalEvent wait(int other);

 private:
  void enter();
  void leave() noexcept;

  termios shell_ = {};
  sigset_t blocked_before_ = {};
  int signals_ = -1;
};

}  // namespace tessera::cli
