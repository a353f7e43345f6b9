#include "tessera/comm/launch/launch.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/base/probe/orphans.h"
#include "tessera/comm/launch/detail/child.h"
#include "tessera/comm/launch/detail/core_shares.h"
#include "tessera/comm/launch/detail/launch_record.h"
#include "tessera/comm/launch/detail/output.h"
#include "tessera/comm/launch/detail/rank_watch.h"
#include "tessera/comm/launch/detail/signal_desk.h"
#include "tessera/comm/store/detail/proof.h"
#include "tessera/comm/store/tcp_store_server.h"

namespace tessera::comm {
namespace {

using Clock = std::chrono::steady_clock;
using detail::Child;
using detail::ChildRequest;
using detail::Descriptor;
using detail::LineCutter;
using detail::ReceivedSignal;
using detail::SentSignal;
using detail::SignalReason;

// Ranks that notice the failure of another report it and write the hang report; this is their time limit.
constexpr std::chrono::milliseconds kNotice{1500};
// Time limit for ranks to report what the launcher wrote because none of them did.
constexpr std::chrono::milliseconds kShortNotice{500};

// Ranks that stop because the reader of their output is gone may have a checkpoint to write: a minute by default.
constexpr int kGracesWithoutReader = 20;

std::string ranks_text(std::size_t count) { return std::to_string(count) + (count == 1 ? " rank" : " ranks"); }

// One process of the run.
struct RankProcess {
  Child child;
  LineCutter lines[2];
  std::optional<RankEnd> end = {};
};

class Launcher {
 public:
  explicit Launcher(const LaunchOptions& options)
      : options_(options),
        shares_(options.pinned ? detail::divide_cores(usable_cores(), options.ranks) : std::vector<std::vector<int>>()),
        record_(options),
        watch_(record_.directory(), options.patience),
        output_(options.out, options.err, options.ranks) {}

  LaunchReport run();

 private:
  void start();
  void look_after();
  void keep_records();
  void wait_for_something();
  void read_from(RankProcess& process, int rank, bool is_err);
  void drain(RankProcess& process, int rank);
  void take_signals();
  void reap();
  void note_end(const RankEnd& end);
  void tell_problem();
  void settle_shrunk();
  void stop_without_reader();
  void stop_others(SentSignal why, std::chrono::nanoseconds grace);
  void signal_all(const SentSignal& signal);
  void check_time();
  void look_at_ranks();
  void speak_for_silent();
  void stop_when_told();
  void find_verdict();
  void show_status();
  void flush_output();
  [[nodiscard]] std::size_t alive() const;

  const LaunchOptions& options_;
  const std::vector<std::vector<int>> shares_;  // cores of each rank; empty if ranks are not pinned
  detail::SignalDesk signals_;
  detail::LaunchJournal record_;
  detail::RankWatch watch_;
  detail::Output output_;
  std::unique_ptr<TcpStoreServer> server_;
  std::vector<RankProcess> processes_;
  std::optional<RankEnd> first_failure_;
  std::optional<RankEnd> last_failure_;
  std::optional<Clock::time_point> stop_at_;  // when to stop the other ranks, which may have something to report
  std::optional<Clock::time_point> kill_at_;
  std::string verdict_;
  bool is_stopping_ = false;             // ranks that end from now on were requested to
  int stops_asked_ = 0;                  // INT, TERM and HUP received so far
  std::chrono::nanoseconds grace_ = {};  // time until they are killed
  SentSignal stop_ = {};                 // the last SIGTERM that the launcher decided to send
  bool is_output_broken_ = false;
  bool has_records_to_keep_ = true;  // of ranks that ended, or of an earlier run
  Clock::time_point began_ = Clock::now();
};

void Launcher::start() {
  processes_.clear();
  first_failure_.reset();
  stop_at_.reset();
  kill_at_.reset();
  verdict_.clear();
  keep_records();
  is_stopping_ = false;
  server_.reset();  // frees its port for the next start
  const std::string secret = detail::random_secret();
  server_ = std::make_unique<TcpStoreServer>(TcpStoreServerOptions{.port = options_.port, .secret = secret});
  const std::string port = std::to_string(server_->port());
  const std::string size = std::to_string(options_.ranks);
  std::vector<int> pids;
  for (int rank = 0; rank < options_.ranks; ++rank) {
    const std::string number = std::to_string(rank);
    std::vector<std::pair<std::string, std::string>> environment = {{"RANK", number},
                                                                    {"WORLD_SIZE", size},
                                                                    {"LOCAL_RANK", number},
                                                                    {"LOCAL_WORLD_SIZE", size},
                                                                    {"MASTER_ADDR", "127.0.0.1"},
                                                                    {"MASTER_PORT", port},
                                                                    {"TESSERA_STORE", "tcp://127.0.0.1:" + port},
                                                                    {"TESSERA_STORE_SECRET", secret},
                                                                    {"TESSERA_RUN_DIR", record_.directory()},
                                                                    {"TESSERA_RUN_DIR_LOCK", record_.lock_identity()}};
    ChildRequest request{options_.command, environment, signals_.mask_before()};
    cpu_set_t cores;
    if (options_.pinned) {
      const std::vector<int>& share = shares_[static_cast<std::size_t>(rank)];
      cores = detail::core_set(share);
      request.cores = &cores;
      if (std::getenv("TESSERA_THREADS") == nullptr)
        environment.emplace_back("TESSERA_THREADS", std::to_string(share.size()));
    }
    processes_.emplace_back();
    processes_.back().child = Child(request);
    pids.push_back(processes_.back().child.pid());
  }
  record_.started(pids, "tcp://127.0.0.1:" + port);
  watch_.started(pids);
}

std::size_t Launcher::alive() const {
  return static_cast<std::size_t>(
      std::count_if(processes_.begin(), processes_.end(), [](const RankProcess& each) { return !each.end; }));
}

LaunchReport Launcher::run() {
  LaunchReport report;
  report.run_dir = record_.directory();
  for (;;) {
    start();
    look_after();
    settle_shrunk();
    if (first_failure_ && stops_asked_ == 0 && !is_output_broken_) find_verdict();
    if (first_failure_ && !verdict_.empty()) output_.say(verdict_);
    const bool is_over =
        !first_failure_ || stops_asked_ > 0 || is_output_broken_ || report.restarts == options_.restarts;
    if (is_over) break;
    if (const std::string lost = record_.lost_directory(); !lost.empty()) {
      output_.say(lost + "; no restart");
      break;
    }
    ++report.restarts;
    output_.say(tessera::detail::concat("restarting all ", ranks_text(processes_.size()), " (restart ", report.restarts,
                                        " of ", options_.restarts, ")"));
  }
  report.first_failure = first_failure_;
  for (const RankProcess& each : processes_) report.ends.push_back(*each.end);
  if (first_failure_)
    report.exit_code = first_failure_->signal != 0 ? 128 + first_failure_->signal : first_failure_->exit_code;
  if (is_output_broken_ && report.exit_code == 0) report.exit_code = 128 + SIGPIPE;
  report.exit_code = record_.finished(report.exit_code);
  tell_problem();
  flush_output();
  return report;
}

void Launcher::look_after() {
  while (alive() > 0) {
    if (!stop_at_ && !kill_at_ && !is_stopping_) keep_records();
    show_status();
    wait_for_something();
    take_signals();
    look_at_ranks();
    check_time();
    stop_without_reader();
  }
  output_.set_status("");
  keep_records();
}

// Under nohup the run continues, and its output is dropped. A run that was requested to stop already has a time limit.
void Launcher::stop_without_reader() {
  if (is_output_broken_ || !output_.is_broken() || signals_.ignores_hangup() || stops_asked_ > 0) return;
  is_output_broken_ = true;
  is_stopping_ = true;
  stop_others({.reason = SignalReason::kOutputClosed, .text = "the reader of the launcher's output closed it"},
              options_.grace * kGracesWithoutReader);
}

// The record of a killed rank is in memory, where a reboot or a copy of the run directory would lose it.
void Launcher::keep_records() {
  if (!std::exchange(has_records_to_keep_, false) || !record_.lost_directory().empty()) return;
  try {
    for (const std::string& problem : probe::adopt_records(record_.directory()).problems) output_.say(problem);
  } catch (const IoError& error) {  // /dev/shm cannot be listed
    output_.say("records of ended ranks are not moved to the run directory: " + error.message());
  }
}

// Sleeps until a rank writes or ends, a signal arrives, an output is ready, or a deadline passes; transfers the bytes.
void Launcher::wait_for_something() {
  std::vector<pollfd> ready;
  ready.push_back({signals_.fd(), POLLIN, 0});
  const std::vector<int> waiting = output_.waiting();
  for (const int fd : output_.open()) {
    const bool has_lines = std::ranges::find(waiting, fd) != waiting.end();
    // Without lines, only polls whether it is closed.
    ready.push_back({fd, static_cast<short>(has_lines ? POLLOUT : 0), 0});
  }
  const std::size_t first_pipe = ready.size();
  struct Source {
    RankProcess* process;
    int rank;
    bool is_err;
  };
  std::vector<Source> sources;
  for (int rank = 0; rank < options_.ranks && !output_.is_full(); ++rank) {
    RankProcess& process = processes_[static_cast<std::size_t>(rank)];
    for (const bool is_err : {false, true}) {
      const Descriptor& pipe = is_err ? process.child.err : process.child.out;
      if (!pipe) continue;
      ready.push_back({pipe.get(), POLLIN, 0});
      sources.push_back({&process, rank, is_err});
    }
  }
  auto until = Clock::now() + std::chrono::seconds(output_.has_status() ? 1 : 60);
  until = std::min(until, watch_.next_look());
  if (stop_at_) until = std::min({until, *stop_at_, Clock::now() + std::chrono::milliseconds(50)});
  if (kill_at_) until = std::min(until, *kill_at_);
  const auto pause = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
  ::poll(ready.data(), ready.size(), static_cast<int>(std::max<std::int64_t>(pause.count(), 0)));
  for (std::size_t i = 1; i < first_pipe; ++i) {
    if ((ready[i].revents & (POLLERR | POLLHUP)) != 0) {
      output_.note_closed(ready[i].fd);
    } else if (ready[i].revents != 0) {
      output_.write_some(ready[i].fd);
    }
  }
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (ready[first_pipe + i].revents != 0) read_from(*sources[i].process, sources[i].rank, sources[i].is_err);
  }
}

void Launcher::read_from(RankProcess& process, int rank, bool is_err) {
  Descriptor& pipe = is_err ? process.child.err : process.child.out;
  LineCutter& lines = process.lines[is_err ? 1 : 0];
  const auto line = [&](std::string_view text) { output_.line(rank, is_err, text); };
  char piece[65536];
  const ssize_t got = ::read(pipe.get(), piece, sizeof piece);
  if (got > 0) {
    lines.feed({piece, static_cast<std::size_t>(got)}, line);
  } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
    lines.finish(line);
    pipe.reset();
  }
}

// Reads the remaining output of an ended rank. Does not wait until the pipes close, since its descendants may hold
// them.
void Launcher::drain(RankProcess& process, int rank) {
  for (const bool is_err : {false, true}) {
    Descriptor& pipe = is_err ? process.child.err : process.child.out;
    LineCutter& lines = process.lines[is_err ? 1 : 0];
    const auto line = [&](std::string_view text) { output_.line(rank, is_err, text); };
    char piece[65536];
    for (ssize_t got = 0; pipe && (got = ::read(pipe.get(), piece, sizeof piece)) > 0;)
      lines.feed({piece, static_cast<std::size_t>(got)}, line);
    lines.finish(line);
    pipe.reset();
  }
}

// Records first: a reader that sees a rank killed by us also sees why.
void Launcher::signal_all(const SentSignal& signal) {
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < processes_.size(); ++rank) {
    if (!processes_[rank].end) ranks.push_back(static_cast<int>(rank));
  }
  record_.signalled(ranks, signal);
  tell_problem();
  for (const int rank : ranks) processes_[static_cast<std::size_t>(rank)].child.signal(signal.number);
}

void Launcher::take_signals() {
  while (const std::optional<ReceivedSignal> signal = signals_.next()) {
    if (signal->number == SIGCHLD) reap();
    if (std::ranges::find(detail::kForwardedSignals, signal->number) == std::end(detail::kForwardedSignals)) continue;
    // A terminal that closes sends SIGHUP to its jobs, and its shell sends another.
    if (signal->number == SIGHUP && stops_asked_ > 0) continue;
    SentSignal sent{.number = signal->number,
                    .reason = SignalReason::kReceived,
                    .text = to_string(*signal),
                    .sender_pid = signal->sender,
                    .sender_uid = signal->uid};
    if (signal->is_stop && ++stops_asked_ > 1) {
      output_.say("second request to stop; killing the ranks");
      sent.number = SIGKILL;
      sent.reason = SignalReason::kReceivedAgain;
      sent.text += "; a stop was already requested";
    }
    if (signal->is_stop) {
      is_stopping_ = true;
      // The sender of the signal decides how long the ranks may take; the limit for a missing reader no longer applies.
      if (is_output_broken_) kill_at_.reset();
    }
    signal_all(sent);
  }
}

void Launcher::reap() {
  for (std::size_t rank = 0; rank < processes_.size(); ++rank) {
    RankProcess& process = processes_[rank];
    if (process.end) continue;
    std::optional<RankEnd> end = process.child.reap();
    if (!end) continue;
    end->rank = static_cast<int>(rank);
    drain(process, end->rank);
    process.end = end;
    has_records_to_keep_ = true;
    note_end(*end);
  }
}

void Launcher::tell_problem() {
  const std::string problem = record_.take_problem();
  if (!problem.empty()) output_.say("launch.json is out of date: " + problem);
}

void Launcher::note_end(const RankEnd& end) {
  record_.ended(end);
  tell_problem();
  watch_.ended(end.rank);
  if (end.is_good() || is_output_broken_) return;
  const bool is_first = !first_failure_;
  if (is_first) first_failure_ = end;
  last_failure_ = end;
  const bool was_asked = kill_at_.has_value() && !is_first;
  if (!was_asked) output_.say(tessera::detail::concat("rank ", end.rank, " ", to_string(end)));
  if (is_first && !is_stopping_ && options_.on_failure == OnFailure::kKill) {
    watch_.read_heartbeats();
    stop_at_ = Clock::now() + (watch_.has_heartbeats() ? kNotice : std::chrono::milliseconds(0));
    stop_when_told();
  }
}

// If ranks continued without those that failed, their ends determine the result.
void Launcher::settle_shrunk() {
  if (options_.on_failure != OnFailure::kShrink || !first_failure_) return;
  const bool is_good = std::any_of(processes_.begin(), processes_.end(),
                                   [](const RankProcess& each) { return each.end && each.end->is_good(); });
  first_failure_ = is_good ? std::nullopt : last_failure_;
}

void Launcher::stop_when_told() {
  if (!stop_at_) return;
  if (watch_.has_report()) watch_.read_heartbeats();
  if (Clock::now() < *stop_at_ && !(watch_.has_report() && watch_.have_all_told())) return;
  const bool knew = watch_.has_report();
  find_verdict();  // while the ranks are unchanged
  if (!knew && watch_.has_report() && watch_.has_heartbeats()) {
    stop_at_ = Clock::now() + kShortNotice;
    return;
  }
  stop_at_.reset();
  const std::size_t left = alive();
  if (left == 0 || is_stopping_) return;
  speak_for_silent();
  output_.say(tessera::detail::concat("stopping the other ", ranks_text(left)));
  stop_others({.reason = SignalReason::kRankFailed,
               .text = tessera::detail::concat("rank ", first_failure_->rank, " ", to_string(*first_failure_)),
               .failed_rank = first_failure_->rank},
              options_.grace);
}

void Launcher::find_verdict() {
  if (!verdict_.empty() || !options_.verdict || !record_.lost_directory().empty()) return;
  verdict_ = options_.verdict(record_.directory());
}

void Launcher::look_at_ranks() {
  for (const std::string& line : watch_.look()) output_.say(line);
  if (!is_stopping_ && !kill_at_) speak_for_silent();
}

void Launcher::speak_for_silent() {
  if (!watch_.has_report()) return;
  for (const std::string& line : watch_.silent()) output_.say(line);
}

void Launcher::stop_others(SentSignal why, std::chrono::nanoseconds grace) {
  if (alive() == 0) return;
  grace_ = grace;
  why.number = SIGTERM;
  stop_ = std::move(why);
  signal_all(stop_);
  kill_at_ = Clock::now() + grace;
}

void Launcher::check_time() {
  stop_when_told();
  if (!kill_at_ || Clock::now() < *kill_at_) return;
  for (std::size_t rank = 0; rank < processes_.size(); ++rank) {
    if (processes_[rank].end) continue;
    output_.say(tessera::detail::concat("rank ", rank, " did not exit within ", grace_, " of SIGTERM; killing it"));
  }
  SentSignal kill = stop_;
  kill.number = SIGKILL;
  kill.reason = SignalReason::kGraceExpired;
  kill.text = tessera::detail::concat("it did not exit within ", grace_, " of SIGTERM (", stop_.text, ")");
  signal_all(kill);
  kill_at_ = Clock::now() + std::chrono::hours(1);  // a killed process ends when the kernel permits it
}

void Launcher::show_status() {
  if (!output_.has_status()) return;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - began_).count();
  char time[32];
  std::snprintf(time, sizeof time, "%02lld:%02lld:%02lld", static_cast<long long>(seconds / 3600),
                static_cast<long long>(seconds / 60 % 60), static_cast<long long>(seconds % 60));
  output_.set_status(tessera::detail::concat(alive(), " of ", ranks_text(processes_.size()), " running, ", time));
}

// Writes the last lines. A signal ends it, since the reader may never read them.
void Launcher::flush_output() {
  for (std::vector<int> waiting = output_.waiting(); !waiting.empty(); waiting = output_.waiting()) {
    std::vector<pollfd> ready = {{signals_.fd(), POLLIN, 0}};
    for (const int fd : waiting) ready.push_back({fd, POLLOUT, 0});
    ::poll(ready.data(), ready.size(), -1);
    while (const std::optional<ReceivedSignal> signal = signals_.next()) {
      if (signal->is_stop) return;
    }
    for (std::size_t i = 1; i < ready.size(); ++i) {
      if (ready[i].revents != 0) output_.write_some(ready[i].fd);
    }
  }
}

}  // namespace

std::string to_string(const RankEnd& end) {
  if (end.signal == 0) return tessera::detail::concat("exited with ", end.exit_code);
  return tessera::detail::concat("was killed by signal ", end.signal, " (", ::strsignal(end.signal), ")");
}

LaunchReport launch(const LaunchOptions& options) {
  TESSERA_CHECK(!options.command.empty() && !options.command.front().empty(), "launch: command must name a program");
  TESSERA_CHECK(options.ranks >= 1 && options.ranks <= 4096, "launch: ranks must be in [1, 4096], got ", options.ranks);
  TESSERA_CHECK(options.restarts >= 0, "launch: restarts must not be negative, got ", options.restarts);
  Launcher launcher(options);
  return launcher.run();
}

}  // namespace tessera::comm
