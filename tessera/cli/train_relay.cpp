#include "tessera/cli/train_relay.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/cli/table.h"
#include "tessera/train/progress.h"

namespace tessera::cli {
namespace {

void skip_color(std::string_view& text) {
  if (text.starts_with("\x1b[")) text.remove_prefix(std::min(text.find('m'), text.size() - 1) + 1);
}

}  // namespace

std::string_view without_prefix_of_first(std::string_view line) {
  std::string_view text = line;
  if (!train::is_bar_line(text)) skip_color(text);
  if (!text.starts_with('[')) return line;
  text.remove_prefix(1);
  while (text.starts_with(' ')) text.remove_prefix(1);
  if (!text.starts_with("0]")) return line;
  text.remove_prefix(2);
  skip_color(text);
  if (!text.starts_with(' ')) return line;
  return text.substr(1);
}

TrainRelay::TrainRelay() {
  const bool has_pipes = ::pipe2(out_, O_CLOEXEC) == 0 && ::pipe2(err_, O_CLOEXEC) == 0;
  TESSERA_CHECK_AS(IoError, has_pipes, "cannot create pipes for the output of the ranks: ", std::strerror(errno));
  // The launcher handles signals.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { pass_on(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

TrainRelay::~TrainRelay() {
  ::close(out_[1]);
  ::close(err_[1]);
  thread_.join();
  for (const int end : {out_[0], err_[0]}) {
    if (end >= 0) ::close(end);
  }
}

void TrainRelay::pass_on() {
  // Polls stdout and stderr only to detect that their reader closed them.
  pollfd ends[] = {{.fd = out_[0], .events = POLLIN, .revents = 0},
                   {.fd = err_[0], .events = POLLIN, .revents = 0},
                   {.fd = ::fileno(stdout), .events = 0, .revents = 0},
                   {.fd = ::fileno(stderr), .events = 0, .revents = 0}};
  std::string rests[2];
  while (ends[0].fd >= 0 || ends[1].fd >= 0) {
    if (::poll(ends, 4, -1) < 0) continue;
    for (const int i : {0, 1}) {
      if (ends[i].fd < 0) continue;
      std::FILE* to = i == 0 ? stdout : stderr;
      const bool is_closed = (ends[2 + i].revents & (POLLERR | POLLHUP)) != 0;
      if (!is_closed && (ends[i].revents == 0 || take(ends[i].fd, rests[i], to)) && std::ferror(to) == 0) continue;
      ends[2 + i].fd = -1;
      ends[i].fd = -1;
      // The launcher detects that its output has no reader, and decides how the run continues.
      if (is_closed || std::ferror(to) != 0) ::close(std::exchange(i == 0 ? out_[0] : err_[0], -1));
    }
  }
}

// Reads once and prints the complete lines. Returns false at the end of the input.
bool TrainRelay::take(int fd, std::string& rest, std::FILE* to) {
  char bytes[65536];
  const ssize_t count = ::read(fd, bytes, sizeof bytes);
  if (count < 0) return errno == EINTR;
  rest.append(bytes, static_cast<std::size_t>(count));
  std::size_t begin = 0;
  for (auto end = rest.find('\n'); end != std::string::npos; end = rest.find('\n', begin)) {
    put(std::string_view(rest).substr(begin, end - begin), to);
    begin = end + 1;
  }
  rest.erase(0, begin);
  std::fflush(to);
  return count > 0;
}

void TrainRelay::put(std::string_view line, std::FILE* to) {
  const std::string_view text = without_prefix_of_first(line);
  if (train::is_bar_line(text)) {
    const std::size_t width = stdout_style().width;
    // The erase sequence takes no column.
    const std::size_t bar = text.find('K') + 1;
    const std::string shown =
        std::string(text.substr(0, bar)) +
        (width > 0 ? train::fitted_bar(std::string(text.substr(bar)), width - 1) : std::string(text.substr(bar)));
    std::fwrite(shown.data(), 1, shown.size(), to);
    std::fputc('\r', to);
    is_bar_drawn_ = true;
    return;
  }
  // If rank 0 prints a line, the bar is finished and remains; a line of another rank replaces it.
  if (is_bar_drawn_) {
    std::fputs(text.size() < line.size() && to == stdout ? "\n" : "\x1b[K", stdout);
    std::fflush(stdout);
  }
  is_bar_drawn_ = false;
  std::fwrite(text.data(), 1, text.size(), to);
  std::fputc('\n', to);
}

}  // namespace tessera::cli
