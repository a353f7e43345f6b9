#include "tessera/comm/testing/drill.h"

#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>

#include "tessera/base/error.h"
#include "tessera/comm/store/descriptor.h"
#include "tessera/comm/store/store.h"
#include "tessera/comm/testing/forked.h"
#include "tessera/comm/world.h"
#include "tessera/device/device.h"
#include "tessera/memory/allocator.h"

namespace tessera::comm {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::nanoseconds;
using namespace std::chrono_literals;

// Processes that have not ended by then are hung.
constexpr nanoseconds kHung = 40s;

std::int64_t now_ns() { return Clock::now().time_since_epoch().count(); }

void write_line(int fd, const std::string& line) {
  const ssize_t written = ::write(fd, line.data(), line.size());
  TESSERA_CHECK_AS(IoError, written == static_cast<ssize_t>(line.size()), "a rank's report does not fit into the pipe");
}

// One rank's process, seen from outside.
struct Drilled {
  pid_t process = -1;
  detail::Descriptor handle;  // a pidfd
  detail::Descriptor report;
  std::optional<std::int64_t> ended_ns = {};
};

[[noreturn]] void be_rank(const CommDrillFault& fault, DrillRank rank) {
  leave_out_what_the_parent_registered();
  if (!rank.store().empty()) {
    const std::string directory = rank.store().substr(std::string_view("file://").size());
    ::setenv("TESSERA_RECORD_DIR", std::filesystem::path(directory).parent_path().c_str(), 0);
  }
  ::setenv("TESSERA_RECORD_BYTES", "1MiB", 0);  // all of it is touched when a rank starts, which takes time
  std::string words;
  try {
    fault.body(rank);
  } catch (const std::exception& error) {
    words = error.what();
  }
  rank.end(words);
  std::exit(rank.store().empty() && !words.empty() ? 1 : 0);
}

Drilled start_rank(const CommDrillFault& fault, int rank, const std::string& store) {
  int ends[2];
  TESSERA_CHECK_AS(IoError, ::pipe(ends) == 0, "no pipe");
  Drilled started;
  started.report.reset(ends[0]);
  const detail::Descriptor to(ends[1]);
  started.process = ::fork();
  if (started.process == 0) be_rank(fault, DrillRank(rank, store, to.get()));
  started.handle.reset(static_cast<int>(::syscall(SYS_pidfd_open, started.process, 0)));
  return started;
}

// Returns when all have ended. Stopped ranks are resumed after the others have ended; hung ranks are killed.
void look_after(std::vector<Drilled>& ranks, DrillReport& report) {
  const auto until = Clock::now() + kHung;
  while (true) {
    std::vector<pollfd> polled;
    for (const Drilled& rank : ranks) polled.push_back({rank.ended_ns ? -1 : rank.handle.get(), POLLIN, 0});
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
    ::poll(polled.data(), polled.size(), static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
    std::size_t alive = 0;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      if (polled[i].revents != 0) ranks[i].ended_ns = now_ns();
      if (!ranks[i].ended_ns) ++alive;
    }
    if (alive == 0) return;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      if (ranks[i].ended_ns) continue;
      if (alive == 1) ::kill(ranks[i].process, SIGCONT);
      if (Clock::now() < until) continue;
      report.ranks[i].was_hung = true;
      ::kill(ranks[i].process, SIGKILL);
    }
  }
}

// Returns the text after `key` in a line of a rank's report.
std::optional<std::string> find_line(const std::string& text, std::string_view key) {
  const std::size_t at = text.find(key);
  if (at == std::string::npos) return std::nullopt;
  const std::size_t first = at + key.size();
  return text.substr(first, text.find('\n', first) - first);
}

std::string read_all(int fd) {
  std::string text;
  char piece[4096];
  for (ssize_t got = 0; (got = ::read(fd, piece, sizeof piece)) > 0;) text.append(piece, static_cast<std::size_t>(got));
  return text;
}

bool is_as_expected(const DrillEnd& expected, const DrilledRank& rank) {
  if (rank.was_hung) return false;
  if (expected.how == DrillEnd::How::kKilled) return rank.end.signal == SIGKILL;
  if (rank.end.exit_code != 0 || rank.words.empty() != (expected.how == DrillEnd::How::kWell)) return false;
  return std::ranges::all_of(expected.words,
                             [&](std::string_view word) { return rank.words.find(word) != std::string::npos; });
}

}  // namespace

void DrillRank::join(nanoseconds timeout) const {
  if (store_.empty()) return init({.timeout = timeout});
  init({.rank = rank_, .world_size = kDrillRanks, .store = store_, .timeout = timeout});
}

void DrillRank::start(nanoseconds deadline) {
  join();
  group = world();
  const device::Device host = device::Device::get("host");
  stream = host.default_stream();
  constexpr std::size_t kBytes = kDrillElements * sizeof(float);
  in = memory::Allocator::of(host).allocate(kBytes, stream);
  out = memory::Allocator::of(host).allocate(kBytes, stream);
  std::memset(in.data(), 0, kBytes);
  run({.kind = OpKind::kBarrier});
  group.set_deadline(deadline);
}

void DrillRank::begin() const { write_line(report_, "begin " + std::to_string(now_ns()) + "\n"); }

void DrillRank::end(std::string_view words) const {
  std::string line(words);
  std::ranges::replace(line, '\n', ' ');
  write_line(report_, "end " + line + "\n");
}

void DrillRank::die() {
  ::kill(::getpid(), SIGKILL);
  std::abort();
}

void DrillRank::say(const std::string& what) { comm::store()->set("said " + what, ""); }
void DrillRank::hear(const std::string& what) { (void)comm::store()->get("said " + what, kHung); }

void be_launched_rank(const CommDrillFault& fault) {
  const char* rank = std::getenv("RANK");
  TESSERA_CHECK(rank != nullptr, "no launcher started this rank");
  be_rank(fault, DrillRank(std::atoi(rank), "", STDERR_FILENO));
}

DrillReport run_drill(const CommDrillFault& fault) {
  char name[] = "/dev/shm/tessera_drill_XXXXXX";  // also holds the records of ranks that die
  TESSERA_CHECK_AS(IoError, ::mkdtemp(name) != nullptr, "no directory for ranks to meet in");
  std::fflush(nullptr);
  std::vector<Drilled> ranks;
  for (int rank = 0; rank < kDrillRanks; ++rank) {
    ranks.push_back(start_rank(fault, rank, std::string("file://") + name + "/store"));
  }
  DrillReport report;
  report.ranks.resize(ranks.size());
  look_after(ranks, report);
  std::int64_t began = 0;
  std::int64_t ended = 0;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    int status = 0;
    ::waitpid(ranks[i].process, &status, 0);
    DrilledRank& rank = report.ranks[i];
    rank.end =
        WIFEXITED(status) ? ProcessEnd{.exit_code = WEXITSTATUS(status)} : ProcessEnd{.signal = WTERMSIG(status)};
    const std::string text = read_all(ranks[i].report.get());
    rank.words = find_line(text, "end ").value_or("");
    const std::string begin = find_line(text, "begin ").value_or("0");
    std::int64_t at = 0;
    std::from_chars(begin.data(), begin.data() + begin.size(), at);
    began = std::max(began, at);
    ended = std::max(ended, *ranks[i].ended_ns);
  }
  report.seconds_past = std::chrono::duration<double>(nanoseconds(ended - began) - fault.deadline).count();
  std::filesystem::remove_all(name);
  return report;
}

std::string judge(const CommDrillFault& fault, const DrillReport& report) {
  std::string text;
  for (std::size_t i = 0; i < report.ranks.size(); ++i) {
    const DrillEnd expected = fault.expected(static_cast<int>(i));
    const DrilledRank& rank = report.ranks[i];
    if (is_as_expected(expected, rank)) continue;
    text += tessera::detail::concat(fault.name, ": rank ", i, rank.was_hung ? " hung" : " ended", " (exit code ",
                                    rank.end.exit_code, ", signal ", rank.end.signal, ") with \"", rank.words, "\"");
    for (const std::string_view word : expected.words) {
      if (rank.words.find(word) == std::string::npos) text += tessera::detail::concat("; wanted \"", word, "\"");
    }
    if (expected.words.empty()) {
      text += expected.how == DrillEnd::How::kWell ? "; wanted a good end" : "; wanted SIGKILL";
    }
    text += "\n";
  }
  return text;
}

}  // namespace tessera::comm
