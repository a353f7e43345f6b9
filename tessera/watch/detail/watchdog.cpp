#include "tessera/watch/detail/watchdog.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <thread>

#include "tessera/analysis/explain.h"
#include "tessera/analysis/read_run.h"
#include "tessera/base/env.h"
#include "tessera/base/log.h"
#include "tessera/comm/communicator.h"
#include "tessera/comm/deadline_text.h"
#include "tessera/comm/world.h"
#include "tessera/watch/detail/ends.h"
#include "tessera/watch/detail/progress.h"
#include "tessera/watch/detail/rank_report.h"

namespace tessera::watch::detail {
namespace {

using namespace std::chrono_literals;
using tessera::detail::concat;

// After a failure: threads that have no report by then continue.
constexpr auto kMaxHeld = 1900ms;
// Lower ranks create the report first, with a short delay per rank.
constexpr auto kEach = 20ms;
constexpr auto kMaxDelay = 300ms;
// If the rank that claimed the report seems to have died.
constexpr auto kTakeOver = 1000ms;
constexpr auto kGiveUp = 1500ms;
// Interval while the evidence is insufficient.
constexpr auto kLookAgain = 100ms;
constexpr auto kSettle = 600ms;
// For the last summary of a rank that ends. Only an unresponsive store or a busy machine takes so long.
constexpr auto kLeave = 1000ms;

// Printed by ranks that did not create the report themselves.
constexpr const char* kReported = "another rank reported a failure";

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// Returns true if the evidence names a fault with more than low confidence.
bool says_enough(const analysis::Evidence& evidence) {
  const analysis::Verdict verdict = analysis::explain(evidence).verdict;
  return verdict.fault != analysis::Fault::kNone && verdict.confidence != analysis::Confidence::kLow;
}

int rank_of(const comm::detail::ObservedGroup& group) { return group.rank().value(); }

struct Registration {
  Registration() { comm::detail::set_group_observer(Watchdog::of_process().get()); }
};
const Registration kRegistration;

}  // namespace

const std::shared_ptr<Watchdog>& Watchdog::of_process() {
  static const auto* only = new std::shared_ptr<Watchdog>(std::make_shared<Watchdog>());
  return *only;
}

void Watchdog::rank_opens(const RankPlace& place, bool is_process) {
  if (place.world_size == 1) return;
  bool starts = false;
  {
    const std::lock_guard lock(mutex_);
    run_dirs_[place.rank.value()] = place.run_dir.empty() ? env::run_dir() : place.run_dir;
    is_process_ |= is_process;
    if (is_process) {
      if (place.world_size < world_size_) begin_smaller_world();
      process_rank_ = place.rank.value();
      world_size_ = place.world_size;
    }
    starts = !std::exchange(is_started_, true);
    if (starts) arm();
    annotation(run_dirs_[place.rank.value()]);
  }
  if (starts) comm::detail::watch(of_process());
}

void Watchdog::rank_is_placed() {
  probe::Recorder& recorder = probe::recorder();
  watch_ends();
  const std::lock_guard lock(mutex_);
  recorder_ = &recorder;
  heartbeat_ = recorder.table<HeartbeatRow>().claim(
      {.pid = static_cast<std::uint64_t>(::getpid()), .beats = 0, .when = recorder.now(), .told = 0});
}

// Groups of the previous world still exist but no longer matter. The current world has no records yet: its ranks have
// not met.
void Watchdog::begin_smaller_world() {
  groups_.clear();
  generation_ = 0;
  smaller_since_ns_ =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  arm();
}

std::int64_t Watchdog::smaller_since_ns() {
  const std::lock_guard lock(mutex_);
  return smaller_since_ns_;
}

void Watchdog::arm() {
  ++arming_;
  is_told_ = false;
  marks_.clear();
  for (const auto& [rank, run_dir] : run_dirs_) annotation(run_dir);
  armed_at_ = Clock::now();
}

void Watchdog::annotation(const std::string& run_dir) {
  if (!run_dir.empty() && !marks_.contains(run_dir)) marks_.emplace(run_dir, mark_report(run_dir));
}

// A report on the larger world may be written late.
ReportMark Watchdog::mark_of(const std::string& run_dir) const {
  const auto found = marks_.find(run_dir);
  ReportMark annotation = found == marks_.end() ? ReportMark{} : found->second;
  if (smaller_since_ns_ != 0) annotation.world_size = world_size_;
  return annotation;
}

// tessera run writes launch.json where its ranks leave their records, and all of them see it. Under other launchers
// each rank may have a separate directory, or none.
void Watchdog::open_exchange() {
  Teller teller;
  {
    const std::lock_guard lock(mutex_);
    if (!is_process_ || exchange_ != nullptr || current_place().rank.value() != process_rank_) return;
    teller = {.rank = process_rank_, .world_size = world_size_, .run_dir = run_dirs_[process_rank_]};
    if (recorder_ != nullptr) teller.record = recorder_->path();
  }
  if (!teller.run_dir.empty() && ::access((teller.run_dir + "/launch.json").c_str(), F_OK) == 0) return;
  const std::shared_ptr<SummaryExchange> exchange =
      SummaryExchange::start(comm::store(), std::move(teller), [] { comm::detail::look_now(); });
  const std::lock_guard lock(mutex_);
  exchange_ = exchange;
}

void Watchdog::leave(bool has_failed) noexcept {
  try {
    std::shared_ptr<SummaryExchange> exchange;
    {
      const std::lock_guard lock(mutex_);
      exchange = exchange_;
    }
    if (exchange != nullptr) exchange->leave(has_failed, kLeave);
  } catch (const std::exception& error) {
    log::debug("watchdog: ", error.what());
  }
}

void Watchdog::group_opens(comm::detail::ObservedGroup group) {
  if (group.ranks().size() == 1) return;
  open_exchange();
  const std::lock_guard lock(mutex_);
  // Ranks that continue after a failure are watched again: with the remaining ranks, or in the next simulation.
  const bool goes_on = groups_.empty() ? !is_process_ : group.generation() > generation_;
  if (goes_on && (is_told_ || is_telling_ || !failures_.empty())) arm();
  generation_ = std::max(generation_, group.generation());
  groups_.push_back({.group = group, .since = Clock::now()});
}

void Watchdog::group_closes(comm::detail::ObservedGroup group) noexcept {
  const std::lock_guard lock(mutex_);
  std::erase_if(groups_, [&](const Seen& seen) { return seen.group == group; });
}

// The operation throws the message after this.
void Watchdog::failed(const RankFailure& failure) noexcept {
  try {
    if (comm::detail::is_watching_thread()) {
      const std::lock_guard lock(mutex_);
      failures_.push_back({failure, arming_});
      return;
    }
    open_exchange();
    std::unique_lock lock(mutex_);
    if (is_process_) note_reason(first_line(failure.words));
    if (!is_told_) {
      const std::uint64_t arming = arming_;
      failures_.push_back({failure, arming});
      lock.unlock();
      comm::detail::look_now();
      lock.lock();
      told_.wait_for(lock, kMaxHeld, [&] { return is_told_ || arming_ != arming; });
    }
    lock.unlock();
    if (failure.kind == ErrorKind::kTimeout) act(failure);
  } catch (const std::exception& error) {
    log::debug("watchdog: ", error.what());
  }
}

void Watchdog::act(const RankFailure& failure) {
  if (failure.on_hang == comm::OnHang::kAbort) {
    abort_groups(failure.rank, concat("a deadline passed: ", first_line(failure.words)));
  } else if (failure.on_hang == comm::OnHang::kExit) {
    save_failure(first_line(failure.words));
    std::fflush(nullptr);
    ::_exit(kExitOnHang);
  }
}

void Watchdog::abort_groups(int rank, const std::string& reason) {
  std::vector<std::shared_ptr<comm::Communicator>> communicators;
  {
    const std::lock_guard lock(mutex_);
    for (const Seen& seen : groups_) {
      if (rank_of(seen.group) != rank || !seen.group.communicator()->capabilities().has_abort) continue;
      communicators.push_back(seen.group.communicator());
    }
  }
  for (const auto& communicator : communicators) communicator->abort(reason);
}

std::vector<GroupStanding> Watchdog::standing() {
  std::vector<GroupStanding> all;
  const std::lock_guard lock(mutex_);
  const Clock::time_point now = Clock::now();
  for (const Seen& seen : groups_) {
    const comm::detail::GroupProgress progress = seen.group.progress();
    all.push_back({.rank = rank_of(seen.group),
                   .group = seen.group.name(),
                   .standing = standing_of(progress),
                   .operation = text_of(progress),
                   .since = progress == seen.progress ? now - seen.since : Clock::duration(0)});
  }
  std::ranges::stable_sort(all, {}, &GroupStanding::rank);
  return all;
}

void Watchdog::beat() {
  const std::lock_guard lock(mutex_);
  if (recorder_ == nullptr || !recorder_->is_on()) return;
  heartbeat_.put(
      {.pid = static_cast<std::uint64_t>(::getpid()), .beats = ++beats_, .when = recorder_->now(), .told = reports_});
}

// Returns the extension of the deadline of the running or next launch.
std::chrono::nanoseconds Watchdog::extension_of(Seen& seen, const comm::detail::GroupProgress& progress) {
  const std::chrono::nanoseconds extended = seen.group.extended();
  const bool is_running = progress.running != progress.ended;
  if (progress.begun + (is_running ? 0 : 1) > seen.extra_up_to) seen.extra = {};
  if (extended != seen.extended) {
    seen.extra += extended - std::exchange(seen.extended, extended);
    seen.extra_up_to = progress.asked;
  }
  return seen.extra;
}

// Returns a failure that no other thread reports: an operation past its deadline that has not started or has kWait.
std::optional<Watchdog::RankFailure> Watchdog::overdue(Seen& seen, Clock::time_point now) {
  const comm::detail::ObservedGroup& group = seen.group;
  const comm::detail::GroupProgress progress = seen.group.progress();
  const std::chrono::nanoseconds extra = extension_of(seen, progress);
  if (progress != seen.progress) {
    seen.progress = progress;
    seen.since = now;
    seen.notice.reset();
    if (std::exchange(seen.was_told, false)) arm();  // it continues: the next stop is reported again
    return std::nullopt;
  }
  const std::chrono::nanoseconds deadline = group.deadline();
  const GroupPhase standing = standing_of(progress);
  const bool is_ours =
      standing == GroupPhase::kOwnStream ||
      (group.on_hang() == comm::OnHang::kWait && (standing == GroupPhase::kPeer || standing == GroupPhase::kMoving));
  if (!is_ours || seen.was_told || now - seen.since - extra < deadline) return std::nullopt;
  seen.was_told = true;
  const std::string time = comm::detail::text_of_deadline(deadline, extra);
  std::string words = standing == GroupPhase::kOwnStream
                          ? concat("group ", group.name(), ": launch ", progress.asked, " did not start within ", time,
                                   ": earlier work of this rank blocks its stream")
                          : concat("group ", group.name(), ": ", text_of(progress), " did not finish within ", time,
                                   ": it ", standing == GroupPhase::kPeer ? "waits for a peer" : "transfers slowly",
                                   "; this rank continues to wait");
  return RankFailure{.rank = rank_of(group),
                     .group = group.name(),
                     .kind = ErrorKind::kTimeout,
                     .words = std::move(words),
                     .on_hang = group.on_hang(),
                     .at = now};
}

std::vector<Watchdog::Due> Watchdog::take_failures() {
  const std::lock_guard lock(mutex_);
  return std::exchange(failures_, {});
}

std::vector<Watchdog::Due> Watchdog::take_overdue() {
  const std::lock_guard lock(mutex_);
  std::vector<Due> all;
  const Clock::time_point now = Clock::now();
  for (Seen& seen : groups_) {
    if (std::optional<RankFailure> found = overdue(seen, now)) all.push_back({*std::move(found), arming_});
  }
  return all;
}

void Watchdog::set_notice_delays(comm::detail::NoticeDelays delays) {
  const std::lock_guard lock(mutex_);
  notice_delays_ = delays;
}

// Returns operations of processes that wait for a peer and whose report is due.
std::vector<LongWait> Watchdog::take_long_waits() {
  const std::lock_guard lock(mutex_);
  std::vector<LongWait> all;
  if (!is_process_ || is_told_) return all;
  for (Seen& seen : groups_) {
    if (standing_of(seen.progress) != GroupPhase::kPeer) continue;
    if (!seen.notice) seen.notice.emplace(seen.since, notice_delays_);
    const auto waited = seen.notice->due(Clock::now());
    if (!waited) continue;
    const int rank = rank_of(seen.group);
    all.push_back({.rank = rank,
                   .group = seen.group.name(),
                   .operation = text_of(seen.progress),
                   .waited = *waited,
                   .run_dir = run_dirs_[rank]});
    for (const Rank each : seen.group.ranks()) all.back().ranks.push_back(each.value());
  }
  return all;
}

void Watchdog::tell_of_wait(const LongWait& wait) {
  if (!log::enabled(log::Level::kInfo)) return;
  try {
    analysis::Evidence evidence;
    if (!wait.run_dir.empty()) evidence = analysis::read_run(wait.run_dir, {.smaller_since_ns = smaller_since_ns()});
    const std::string words = wait_line(wait, evidence);
    if (words.empty()) return;
    const std::string line = concat("tessera: rank ", wait.rank, ": ", words, "\n");
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
  } catch (const std::exception& error) {
    log::debug("watchdog: ", error.what());
  }
}

bool Watchdog::look() {
  beat();
  for (const Due& due : take_failures()) tell(due);
  for (const Due& due : take_overdue()) {
    tell(due);
    act(due.failure);  // no thread of the rank waits for the report
  }
  tell_of_others();
  for (const LongWait& wait : take_long_waits()) tell_of_wait(wait);
  return true;
}

// Returns the report. The lowest rank that can creates it, and the others wait for it.
Watchdog::Found Watchdog::report_of(const RankFailure& failure, const std::string& run_dir, const ReportMark& before) {
  const auto delay = std::min<std::chrono::milliseconds>(failure.rank * kEach, kMaxDelay);
  for (Clock::time_point now = Clock::now(); now < failure.at + kGiveUp; now = Clock::now()) {
    const bool takes_over = now >= failure.at + kTakeOver + delay;
    const bool has_claim = now >= failure.at + delay && claim_report(run_dir, before);
    // Searched after the claim: the previous holder may have created the report and released the claim.
    if (std::optional<Report> made = find_report(run_dir, before)) {
      if (has_claim) release_claim(run_dir);
      return {*std::move(made), true};
    }
    if (takes_over || has_claim) {
      std::optional<Report> report = report_by_claimant(failure, run_dir);
      release_claim(run_dir);
      return {std::move(report), false};
    }
    std::this_thread::sleep_for(10ms);
  }
  return {};
}

// Creates it from the records in this directory if it has those of all ranks, otherwise from the summaries of all.
std::optional<Report> Watchdog::report_by_claimant(const RankFailure& failure, const std::string& run_dir) {
  const analysis::ReadOptions options{.smaller_since_ns = smaller_since_ns()};
  analysis::Evidence evidence = analysis::read_run(run_dir, options);
  const bool has_all =
      std::ranges::none_of(evidence.ranks, [](const analysis::Rank& rank) { return rank.file.empty(); });
  if (!has_all) {
    if (std::optional<Report> report = report_of_all(failure)) return report;
  }
  // The first failing rank reports while others are on their way, later on a busy machine: while the evidence is
  // insufficient, it reads again.
  while (Clock::now() + kLookAgain < failure.at + kSettle && !says_enough(evidence)) {
    std::this_thread::sleep_for(kLookAgain);
    evidence = analysis::read_run(run_dir, options);
  }
  return detail::make_report(evidence, run_dir, first_line(failure.words)).report;
}

std::optional<Report> Watchdog::report_of_all(const RankFailure& failure) {
  std::shared_ptr<SummaryExchange> exchange;
  Clock::time_point since;
  {
    const std::lock_guard lock(mutex_);
    if (smaller_since_ns_ == 0) exchange = exchange_;  // otherwise it would report the previous world
    since = armed_at_;
  }
  if (exchange == nullptr) return std::nullopt;
  return exchange->ask(first_line(failure.words), since, failure.at + kGiveUp);
}

void Watchdog::tell(const Due& due) {
  const RankFailure& failure = due.failure;
  std::string run_dir;
  ReportMark before;
  {
    const std::lock_guard lock(mutex_);
    if (is_told_ || due.arming != arming_) return;
    is_telling_ = true;
    run_dir = run_dirs_[failure.rank];
    before = mark_of(run_dir);
  }
  Found found;
  try {
    found = run_dir.empty() ? Found{report_of_all(failure)} : report_of(failure, run_dir, before);
  } catch (const std::exception& error) {
    release_claim(run_dir);
    log::warn("watchdog: cannot write a report to ", run_dir, ": ", error.what());
  }
  const std::optional<Report>& report = found.report;
  if (report && report->is_verdict()) {
    say(failure.rank, *report, found.is_of_another, due.arming);
  } else {
    say(failure.rank, first_line(failure.words), report ? report->path : "", due.arming);
  }
}

// Of ranks that share a run directory, the one that created the report prints the verdict; the others name the file.
void Watchdog::say(int rank, const Report& report, bool is_of_another, std::uint64_t arming) {
  bool is_short = is_of_another && !report.path.empty();
  {
    const std::lock_guard lock(mutex_);
    is_short &= is_process_ && exchange_ == nullptr;  // ranks of a simulation print one line
  }
  say(rank, is_short ? kReported : report.sentence, report.path, arming);
}

// Prints a report of another rank: this one may be busy or stuck in host code, and not know of it.
void Watchdog::tell_of_others() {
  int rank = 0;
  std::string run_dir;
  ReportMark before;
  std::uint64_t arming = 0;
  std::optional<Report> report;
  {
    const std::lock_guard lock(mutex_);
    if (is_told_ || !is_process_) return;
    arming = arming_;
    rank = process_rank_;
    run_dir = run_dirs_[rank];
    before = mark_of(run_dir);
    if (exchange_ != nullptr) report = exchange_->heard(armed_at_);
  }
  if (!report && !run_dir.empty()) report = find_report(run_dir, before);
  if (report && report->is_verdict()) say(rank, *report, true, arming);
}

std::uint64_t Watchdog::said() {
  const std::lock_guard lock(mutex_);
  return reports_;
}

void Watchdog::say(int rank, const std::string& words, const std::string& path, std::uint64_t arming) {
  std::string world;
  {
    const std::lock_guard lock(mutex_);
    if (smaller_since_ns_ != 0) world = concat("in the shrunk world of ", world_size_, " ranks, ");
  }
  const std::string line = concat("tessera: rank ", rank, ": ", world, words, path.empty() ? "" : "; see ", path, "\n");
  // One write: lines of ranks that share a terminal do not mix.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
  {
    const std::lock_guard lock(mutex_);
    is_told_ |= arming == arming_;  // else the next are at work already
    is_telling_ = false;
    ++reports_;
    for (const Seen& seen : groups_) generation_ = std::max(generation_, seen.group.generation());
  }
  told_.notify_all();
}

}  // namespace tessera::watch::detail
