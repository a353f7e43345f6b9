#include "tessera/cli/terminal.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "tessera/base/error.h"

namespace tessera::cli {
namespace {

constexpr std::string_view kEnter = "\033[?1049h\033[?25l\033[2J";  // alternate screen, no cursor, cleared
constexpr std::string_view kLeave = "\033[?25h\033[?1049l";

// Ignores write errors: wait() detects the end of the terminal.
void put(std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

sigset_t watched_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGWINCH}) ::sigaddset(&set, signal);
  return set;
}

}  // namespace

bool Terminal::is_there() { return ::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1; }

Terminal::Terminal() {
  TESSERA_CHECK_AS(IoError, ::tcgetattr(STDIN_FILENO, &shell_) == 0,
                   "cannot read the terminal settings: ", std::strerror(errno));
  const sigset_t set = watched_signals();
  ::pthread_sigmask(SIG_BLOCK, &set, &blocked_before_);
  signals_ = ::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  if (signals_ < 0) {
    ::pthread_sigmask(SIG_SETMASK, &blocked_before_, nullptr);
    TESSERA_THROW(IoError, "cannot wait for signals: ", std::strerror(errno));
  }
  enter();
}

Terminal::~Terminal() {
  leave();
  ::close(signals_);
  ::pthread_sigmask(SIG_SETMASK, &blocked_before_, nullptr);
}

void Terminal::enter() {
  termios quiet = shell_;
  quiet.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  quiet.c_cc[VMIN] = 1;
  quiet.c_cc[VTIME] = 0;
  (void)::tcsetattr(STDIN_FILENO, TCSADRAIN, &quiet);
  put(kEnter);
}

void Terminal::leave() noexcept {
  put(kLeave);
  (void)::tcsetattr(STDIN_FILENO, TCSADRAIN, &shell_);
}

Terminal::Size Terminal::size() {
  winsize told = {};
  Size size;
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &told) == 0 && told.ws_col > 0 && told.ws_row > 0) {
    size.width = told.ws_col;
    size.height = told.ws_row;
  }
  return size;
}

void Terminal::draw(const std::vector<std::string>& lines) {
  std::string text = "\033[H";
  for (std::size_t i = 0; i < lines.size(); ++i) {
    // Clears the line before it is written: clearing after a full line would erase the last letter on some terminals.
    text += (i > 0 ? "\r\n\033[K" : "\033[K") + lines[i];
  }
  if (lines.size() < size().height) text += "\r\n\033[J";
  put(text);
}

TerminalEvent Terminal::wait(int other) {
  TerminalEvent event;
  pollfd waits[] = {{STDIN_FILENO, POLLIN, 0}, {signals_, POLLIN, 0}, {other, POLLIN, 0}};
  if (::poll(waits, 3, -1) < 0) {
    TESSERA_CHECK_AS(IoError, errno == EINTR, "waiting for the terminal failed: ", std::strerror(errno));
    return event;
  }
  event.is_other = waits[2].revents != 0;
  if (signalfd_siginfo told = {}; ::read(signals_, &told, sizeof told) == sizeof told) {
    const int signal = static_cast<int>(told.ssi_signo);
    if (signal == SIGTSTP) {
      leave();
      ::kill(::getpid(), SIGSTOP);  // until SIGCONT
      enter();
      event.is_changed = true;
    } else if (signal == SIGWINCH) {
      event.is_changed = true;
    } else {
      event.ending_signal = signal;
    }
  }
  if (waits[0].revents != 0) {
    const ssize_t got = ::read(STDIN_FILENO, &event.key, 1);
    event.is_gone = got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN);
    if (got != 1) event.key = 0;
  }
  return event;
}

}  // namespace tessera::cli
