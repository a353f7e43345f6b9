// Runs the command in a pseudo terminal, presses keys and waits for its output.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string>
#include <vector>

namespace tessera::cli::testing {

/// A program in a pseudo terminal. The destructor kills it.
class PseudoTerminal {
 public:
  /// Starts `tessera` with these arguments on a screen of this size.
  PseudoTerminal(const std::vector<std::string>& arguments, unsigned short columns, unsigned short lines) {
    master_ = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (master_ < 0 || ::grantpt(master_) != 0 || ::unlockpt(master_) != 0) return;
    const char* name = ::ptsname(master_);
    if (name == nullptr) return;
    slave_ = ::open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (slave_ < 0) return;
    resize(columns, lines);
    std::vector<char*> words = {const_cast<char*>(TESSERA_PROGRAM)};
    for (const std::string& word : arguments) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    child_ = ::fork();
    if (child_ != 0) return;
    ::setsid();
    ::ioctl(slave_, TIOCSCTTY, 0);
    for (const int fd : {0, 1, 2}) ::dup2(slave_, fd);
    ::execv(words[0], words.data());
    ::_exit(127);
  }
  ~PseudoTerminal() {
    if (child_ > 0) {
      ::kill(child_, SIGKILL);
      ::waitpid(child_, nullptr, 0);
    }
    if (slave_ >= 0) ::close(slave_);
    if (master_ >= 0) ::close(master_);
  }
  PseudoTerminal(const PseudoTerminal&) = delete;
  PseudoTerminal& operator=(const PseudoTerminal&) = delete;

  /// Returns true if the system provided a pseudo terminal.
  [[nodiscard]] bool is_there() const { return child_ > 0; }
  /// Returns all output so far.
  [[nodiscard]] const std::string& shown() const { return shown_; }
  /// Waits until the output since the last successful wait contains the text.
  [[nodiscard]] bool wait_for(const std::string& text) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (true) {
      const std::size_t found = shown_.find(text, seen_);
      if (found != std::string::npos) {
        seen_ = found + text.size();
        return true;
      }
      if (std::chrono::steady_clock::now() > until || !read_more()) return false;
    }
  }
  /// Sends keys.
  void press(const std::string& keys) {
    ASSERT_EQ(::write(master_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
  }
  /// Closes the terminal, like a closed window or a lost connection. The kernel sends SIGHUP.
  void hang_up() {
    ::close(slave_);
    ::close(master_);
    slave_ = -1;
    master_ = -1;
  }
  /// Changes the size; the program receives SIGWINCH.
  void resize(unsigned short columns, unsigned short lines) {
    const winsize size = {lines, columns, 0, 0};
    ASSERT_EQ(::ioctl(slave_, TIOCSWINSZ, &size), 0);
  }
  /// Returns the process ID of the program.
  [[nodiscard]] pid_t process() const { return child_; }
  /// Waits for the program to end and returns its exit code, or -1 - signal. Reads the remaining output.
  int end() {
    while (master_ >= 0 && read_more()) {
    }
    int status = 0;
    ::waitpid(child_, &status, 0);
    child_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1 - WTERMSIG(status);
  }
  /// Returns the terminal settings.
  [[nodiscard]] tcflag_t settings() const {
    termios now = {};
    EXPECT_EQ(::tcgetattr(slave_, &now), 0);
    return now.c_lflag;
  }

 private:
  // Returns false if the program has ended and all output is read, or if nothing arrived for a long time.
  bool read_more() {
    for (int tries = 0; tries < 2400; ++tries) {
      pollfd wait = {master_, POLLIN, 0};
      if (::poll(&wait, 1, 50) > 0) {
        char part[4096];
        const ssize_t got = ::read(master_, part, sizeof part);
        if (got <= 0) return false;
        shown_.append(part, static_cast<std::size_t>(got));
        return true;
      }
      siginfo_t told = {};
      if (::waitid(P_PID, static_cast<id_t>(child_), &told, WEXITED | WNOHANG | WNOWAIT) == 0 && told.si_pid == child_)
        return false;
    }
    return false;
  }

  int master_ = -1;
  int slave_ = -1;
  pid_t child_ = -1;
  std::string shown_;
  std::size_t seen_ = 0;
};

}  // namespace tessera::cli::testing
