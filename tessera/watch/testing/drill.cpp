#include "tessera/watch/testing/drill.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <memory>
#include <new>
#include <optional>
#include <set>
#include <thread>
#include <nlohmann/json.hpp>

#include "tessera/analysis/explain.h"
#include "tessera/analysis/read_run.h"
#include "tessera/base/error.h"
#include "tessera/base/probe/annotation.h"
#include "tessera/base/probe/reader.h"
#include "tessera/base/rank.h"
#include "tessera/comm/launch/launch.h"
#include "tessera/comm/store/descriptor.h"
#include "tessera/comm/testing/forked.h"
#include "tessera/comm/world.h"
#include "tessera/device/device.h"
#include "tessera/memory/allocator.h"
#include "tessera/memory/label.h"
#include "tessera/watch/testing/ranks.h"
#include "tessera/watch/verdict_file.h"

namespace tessera::watch {
namespace {

using Clock = std::chrono::steady_clock;
using analysis::Fault;
using analysis::Verdict;
using comm::Operation;
using comm::OpKind;
using std::chrono::nanoseconds;
using namespace std::chrono_literals;

constexpr nanoseconds kJoin = 60s;       // to find each other, on a busy machine
constexpr nanoseconds kHung = 120s;      // longer means a hang, even on a busy machine
constexpr nanoseconds kNotice = 200ms;   // for others to report after a rank has failed
constexpr nanoseconds kGrace = 100ms;    // from SIGTERM to SIGKILL
constexpr nanoseconds kAfterwards = 4s;  // for ranks to end by themselves after the report

std::int64_t now_ns() { return Clock::now().time_since_epoch().count(); }

// The temporary directory of one drill.
class Place {
 public:
  Place() {
    char name[] = "/dev/shm/tessera_drill_XXXXXX";
    TESSERA_CHECK_AS(IoError, ::mkdtemp(name) != nullptr, "no directory for the ranks of a drill to meet in");
    base_ = name;
    void* page = ::mmap(nullptr, sizeof(DrillPage), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    TESSERA_CHECK_AS(IoError, page != MAP_FAILED, "no page for the ranks of a drill to share");
    page_ = new (page) DrillPage;
  }
  ~Place() {
    ::munmap(page_, sizeof(DrillPage));
    std::error_code error;
    std::filesystem::remove_all(base_, error);
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  [[nodiscard]] const std::string& base() const { return base_; }
  [[nodiscard]] std::string run_dir() const { return base_ + "/run"; }
  [[nodiscard]] DrillPage& page() const { return *page_; }

 private:
  std::string base_;
  DrillPage* page_ = nullptr;
};

// First lines of a forked process: redirects its output and records to the directory of the drill.
void settle(const DrillFault& fault, const Place& place) {
  comm::leave_out_what_the_parent_registered();
  ::setenv("TESSERA_RECORD_DIR", place.base().c_str(), 1);
  ::setenv("TESSERA_RUN_DIR", place.run_dir().c_str(), 1);
  ::setenv("TESSERA_RECORD_BYTES", fault.record_bytes.c_str(), 1);
  const comm::detail::Descriptor said(
      ::open((place.base() + "/said").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_APPEND, 0600));
  ::dup2(said.get(), STDERR_FILENO);
}

[[noreturn]] void be_rank(const DrillFault& fault, const Place& place, int rank) {
  settle(fault, place);
  int code = 0;
  try {
    init({.rank = rank, .world_size = fault.ranks, .store = "file://" + place.base() + "/store", .timeout = kJoin});
    WatchDrillRank self(rank, fault.ranks, place.page(), place.run_dir());
    self.run({.kind = OpKind::kBarrier});
    self.world.set_deadline(kDrillDeadline);
    fault.body(self);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d ends with: %s\n", rank, error.what());
    code = 1;
  }
  std::exit(code);
}

[[noreturn]] void be_all_ranks(const DrillFault& fault, const Place& place, std::uint64_t seed) {
  settle(fault, place);
  try {
    simulate(fault.ranks,
             [&] {
               WatchDrillRank self(current_place().rank.value(), fault.ranks, place.page(), place.run_dir());
               self.run({.kind = OpKind::kBarrier});
               fault.body(self);
             },
             {.seed = seed, .run_dir = place.run_dir()});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "the ranks end with: %s\n", error.what());
  }
  std::exit(0);
}

// A process of the drill, seen from outside.
struct Child {
  pid_t process = -1;
  comm::detail::Descriptor handle;  // a pidfd
  bool has_ended = false;
  std::vector<int> sent = {};  // signals that the drill sent, like a launcher
  comm::RankEnd end = {};
};

Child start(const std::function<void()>& body) {
  Child child;
  child.process = ::fork();
  if (child.process == 0) body();
  child.handle.reset(static_cast<int>(::syscall(SYS_pidfd_open, child.process, 0)));
  return child;
}

void collect(Child& child) {
  int status = 0;
  ::waitpid(child.process, &status, 0);
  child.has_ended = true;
  child.end.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
  child.end.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

// Polls the processes for a moment. Returns true if all have ended.
bool wait_a_moment(std::vector<Child>& children) {
  std::vector<pollfd> polled;
  for (const Child& child : children) polled.push_back({child.has_ended ? -1 : child.handle.get(), POLLIN, 0});
  ::poll(polled.data(), polled.size(), 5);
  for (std::size_t i = 0; i < children.size(); ++i) {
    if (!children[i].has_ended && polled[i].revents != 0) collect(children[i]);
  }
  return std::ranges::all_of(children, &Child::has_ended);
}

// Acts like a launcher: after a failure, the others have time to fail too, then receive SIGTERM and SIGKILL.
void end_all(std::vector<Child>& children) {
  const auto has_failed = [](const Child& child) { return child.has_ended && !child.end.is_good(); };
  const auto patience = Clock::now() + kAfterwards;
  while (!wait_a_moment(children) && std::ranges::none_of(children, has_failed) && Clock::now() < patience) continue;
  const auto notice = Clock::now() + kNotice;
  while (!wait_a_moment(children) && Clock::now() < notice) continue;
  for (const int signal : {SIGTERM, SIGKILL}) {
    for (Child& child : children) {
      if (child.has_ended) continue;
      child.sent.push_back(signal);
      ::kill(child.process, signal);
    }
    const auto until = Clock::now() + (signal == SIGTERM ? kGrace : kHung);
    while (!wait_a_moment(children) && Clock::now() < until) continue;
  }
}

std::string text_of_time(std::time_t time) {
  std::tm parts = {};
  ::gmtime_r(&time, &parts);
  char text[64];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

// Returns the signals that a launcher records: for the first failed rank, otherwise because the run was ended.
nlohmann::json signals_of(const Child& child, const std::string& now, const std::optional<std::string>& failure) {
  nlohmann::json signals = nlohmann::json::array();
  const std::string why = failure.value_or("the launcher received SIGTERM");
  for (const int number : child.sent) {
    const bool is_kill = number == SIGKILL;
    signals.push_back({{"signal", number},
                       {"name", is_kill ? "SIGKILL" : "SIGTERM"},
                       {"time", now},
                       {"reason", is_kill   ? "grace_expired"
                                  : failure ? "rank_failed"
                                            : "received"},
                       {"text", is_kill ? "it did not end within 100ms of SIGTERM (" + why + ")" : why}});
  }
  return signals;
}

// Writes the launch.json of a launcher that started these ranks and ended the remaining ones.
void write_launch_file(const Place& place, const std::vector<Child>& children, std::time_t began) {
  using Json = nlohmann::json;
  const std::string now = text_of_time(std::time(nullptr));
  std::optional<std::string> failure;
  for (std::size_t i = 0; i < children.size() && !failure; ++i) {
    if (children[i].sent.empty() && !children[i].end.is_good())
      failure = tessera::detail::concat("rank ", i, " ", comm::to_string(children[i].end));
  }
  Json ranks = Json::array();
  for (std::size_t i = 0; i < children.size(); ++i) {
    const Child& child = children[i];
    Json rank = {{"rank", i},
                 {"pid", child.process},
                 {"end", comm::to_string(child.end)},
                 {"exit_code", child.end.exit_code},
                 {"signal", child.end.signal},
                 {"time", now}};
    if (!child.sent.empty()) rank["signals"] = signals_of(child, now, failure);
    ranks.push_back(std::move(rank));
  }
  const Json json = {{"ranks", children.size()},
                     {"exit_code", 1},
                     {"ended", now},
                     {"starts", {{{"time", text_of_time(began)}, {"ranks", ranks}}}}};
  std::ofstream(place.run_dir() + "/launch.json") << json.dump();
}

std::vector<Verdict> verdicts_of(const std::string& run_dir) {
  const auto json = nlohmann::json::parse(content(run_dir + "/explain.json"), nullptr, /*allow_exceptions=*/false);
  std::vector<Verdict> verdicts;
  if (!json.is_object()) return verdicts;
  const auto add = [&](const nlohmann::json& one) {
    Verdict& verdict = verdicts.emplace_back();
    const std::string fault = one.value("fault", "");
    for (int at = 0; at <= static_cast<int>(Fault::kUnknown); ++at) {
      if (to_string(static_cast<Fault>(at)) == fault) verdict.fault = static_cast<Fault>(at);
    }
    verdict.culprits = one.value("culprits", std::vector<int>());
    verdict.group = one.value("group", "");
    verdict.sentence = one.value("sentence", "");
    verdict.advice = one.value("advice", "");
  };
  add(json.at("verdict"));
  for (const auto& other : json.at("others")) add(other);
  return verdicts;
}

// Returns when a verdict exists: from the watchdog of a rank, or created here after all have ended or hang.
void wait_for_the_verdict(const DrillFault& fault, bool is_told_at_the_end, const Place& place,
                          std::vector<Child>& children, Drilled& drilled) {
  const auto until = Clock::now() + kJoin + kHung;
  bool has_ended = false;
  bool has_report = false;
  while (!has_report) {
    has_ended = wait_a_moment(children);
    if (!is_told_at_the_end && !fault.is_looked_at) {
      has_report = find_report(place.run_dir()).has_value();
    }
    const bool are_ready = fault.is_looked_at && place.page().ready >= fault.ranks;
    if (!has_report && (has_ended || are_ready || Clock::now() > until)) {
      if (is_told_at_the_end || fault.is_looked_at || place.page().began_ns == 0) place.page().began_ns = now_ns();
      (void)make_report(place.run_dir());
      has_report = true;
    }
  }
  const bool is_made_here = is_told_at_the_end || fault.is_looked_at;
  const std::int64_t known_since = place.page().began_ns + (is_made_here ? 0 : fault.deadline.count());
  drilled.seconds = std::max(0.0, std::chrono::duration<double>(nanoseconds(now_ns() - known_since)).count());
  drilled.verdicts = verdicts_of(place.run_dir());
  place.page().is_over = true;
  const auto patience = Clock::now() + kAfterwards;
  while (!has_ended && fault.is_looked_at && Clock::now() < patience) has_ended = wait_a_moment(children);
}

void count_files(const Place& place, Drilled& drilled) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(place.run_dir())) {
    const std::string name = entry.path().filename().string();
    // .part files are still being written
    const bool is_record = name.rfind("rank-", 0) == 0 && !name.ends_with(".part");
    if (is_record && std::filesystem::exists(entry.path())) names.push_back(entry.path().string());
  }
  const analysis::Evidence evidence = analysis::read_run(place.run_dir());
  for (const std::string& name : names) {
    ++drilled.files;
    const auto is_about = [&](const std::string& problem) { return problem.find(name) != std::string::npos; };
    try {
      (void)probe::RecordFile::open(name);
      if (std::ranges::none_of(evidence.problems, is_about)) ++drilled.readable;
      for (const std::string& problem : evidence.problems) {
        if (is_about(problem)) drilled.said += "not readable: " + problem + "\n";
      }
    } catch (const Error& error) {
      drilled.said += tessera::detail::concat("not readable: ", error.what(), "\n");
    }
  }
}

std::string text_of(const std::vector<int>& ranks) {
  std::string text;
  for (const int rank : ranks) text += (text.empty() ? "" : ", ") + std::to_string(rank);
  return "{" + text + "}";
}

// Returns what this verdict lacks; empty if nothing.
std::string lacks(const Expected& expected, const Verdict& verdict) {
  if (std::ranges::find(expected.faults, verdict.fault) == expected.faults.end()) return "the kind of the fault";
  const bool is_nobody = verdict.culprits.empty() && (expected.may_blame_nobody || verdict.fault == Fault::kNone);
  if (!is_nobody && verdict.culprits != expected.culprits) return "the culprits";
  if (!expected.group.empty() && verdict.group != expected.group) return "the group";
  for (const std::string& word : expected.words) {
    if ((verdict.sentence + verdict.advice).find(word) == std::string::npos) return "the word '" + word + "'";
  }
  return "";
}

// After all ranks are gone, the explanation must equal that during the hang.
void compare_after_the_end(const Place& place, bool has_late_rank, Drilled& drilled) {
  const analysis::Explanation found = analysis::explain(analysis::read_run(place.run_dir()));
  if (drilled.verdicts.empty()) return;
  const Verdict& live = drilled.verdicts.front();
  const bool is_late = has_late_rank && live.fault == Fault::kAbsent && found.verdict.fault == Fault::kSlow;
  drilled.has_changed = (found.verdict.fault != live.fault && !is_late) || found.verdict.culprits != live.culprits;
  if (!drilled.has_changed) return;
  drilled.said += tessera::detail::concat("after the end: ", to_string(found.verdict.fault), " of ",
                                          text_of(found.verdict.culprits), ": ", found.verdict.sentence,
                                          "; before: ", live.sentence, "\n");
}

}  // namespace

std::string to_string(DrillForm form) { return form == DrillForm::kProcesses ? "processes" : "threads"; }

WatchDrillRank::WatchDrillRank(int rank, int ranks, DrillPage& page, std::string run_dir)
    : rank_(rank), ranks_(ranks), page_(&page), run_dir_(std::move(run_dir)) {
  world = comm::world();
  const device::Device host = device::Device::get("host");
  stream = host.default_stream();
  constexpr std::size_t kBytes = kDrillElements * sizeof(float);
  in_ = memory::Allocator::of(host).allocate(kBytes, stream);
  out_ = memory::Allocator::of(host).allocate(kBytes, stream);
  std::memset(in_.data(), 0, kBytes);
}

void WatchDrillRank::run(const comm::ProcessGroup& group, const Operation& operation) const {
  group.launch(operation, stream).wait();
}

void WatchDrillRank::steps(int count) const {
  for (int step = 0; step < count; ++step) {
    const probe::Annotation scope("step", step);
    {
      const memory::Label label("forward");
      Operation gather = all_reduce(100);
      gather.kind = OpKind::kAllGather;
      run(gather);
    }
    const memory::Label label("backward");
    run(all_reduce());
    run(broadcast());
  }
}

void WatchDrillRank::begin() const {
  const std::int64_t now = now_ns();
  std::int64_t before = page_->began_ns;
  while (before < now && !page_->began_ns.compare_exchange_weak(before, now)) continue;
}

void WatchDrillRank::wait_for_the_end() const {
  say_ready();
  while (!page_->is_over) std::this_thread::yield();
}

void WatchDrillRank::wait_for_ready(int ranks) const {
  while (page_->ready < ranks) std::this_thread::yield();
}

Operation WatchDrillRank::all_reduce(std::int64_t count) const {
  return {.kind = OpKind::kAllReduce, .dtype = DType::kF32, .in = in_.data(), .out = out_.data(), .count = count};
}
Operation WatchDrillRank::broadcast(int root) const {
  Operation operation = all_reduce();
  operation.kind = OpKind::kBroadcast;
  operation.root = root;
  return operation;
}
Operation WatchDrillRank::send(int peer, std::int64_t count) const {
  Operation operation = all_reduce(count);
  operation.kind = OpKind::kSend;
  operation.peer = peer;
  return operation;
}
Operation WatchDrillRank::recv(int peer, std::int64_t count) const {
  Operation operation = all_reduce(count);
  operation.kind = OpKind::kRecv;
  operation.peer = peer;
  return operation;
}

std::vector<DrillFault> all_drill_faults() {
  std::vector<DrillFault> all;
  for (const auto& part :
       {faults_of_differences(), faults_of_absences(), faults_of_ends(), faults_of_cycles(), faults_of_none()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

void judge(const std::vector<Expected>& expected, Drilled& drilled) {
  std::set<int> guilty;
  for (const Expected& one : expected) guilty.insert(one.culprits.begin(), one.culprits.end());
  std::set<int> innocents;
  for (const Verdict& verdict : drilled.verdicts) {
    for (const int rank : verdict.culprits) {
      if (!guilty.contains(rank)) innocents.insert(rank);
    }
  }
  drilled.innocents = static_cast<int>(innocents.size());
  if (drilled.verdicts.empty()) drilled.wrong = "there is no verdict; ";
  if (!innocents.empty()) drilled.wrong += "ranks are blamed that did nothing; ";
  if (expected.empty() && !drilled.verdicts.empty() && drilled.verdicts[0].fault != Fault::kNone) {
    drilled.wrong += "there was no fault; ";
  }
  for (const Expected& one : expected) {
    std::string least;
    bool is_found = false;
    for (const Verdict& verdict : drilled.verdicts) {
      const std::string lacking = lacks(one, verdict);
      is_found = is_found || lacking.empty();
      least = lacking;
    }
    if (is_found) continue;
    drilled.wrong += "wanted " + to_string(one.faults.at(0)) + " of " + text_of(one.culprits) + ", and " +
                     (least.empty() ? "nothing was found" : least + " differs") + "; ";
  }
  if (drilled.wrong.empty()) return;
  for (const Verdict& verdict : drilled.verdicts) {
    drilled.wrong += "found " + to_string(verdict.fault) + " of " + text_of(verdict.culprits) + " in '" +
                     verdict.group + "': " + verdict.sentence + "; ";
  }
}

Drilled run_drill(const DrillFault& fault, DrillForm form, std::uint64_t seed,
                  const std::function<void(const std::string& run_dir)>& look) {
  const Place place;
  const std::time_t began = std::time(nullptr);
  std::fflush(nullptr);
  std::vector<Child> children;
  if (form == DrillForm::kThreads) {
    children.push_back(start([&] { be_all_ranks(fault, place, seed); }));
  } else {
    for (int rank = 0; rank < fault.ranks; ++rank) children.push_back(start([&] { be_rank(fault, place, rank); }));
  }
  Drilled drilled{.name = fault.name + (form == DrillForm::kThreads ? " (threads)" : "")};
  try {
    const bool is_told_at_the_end = fault.is_told_at_the_end || form == DrillForm::kThreads;
    wait_for_the_verdict(fault, is_told_at_the_end, place, children, drilled);
    count_files(place, drilled);
    if (look) look(place.run_dir());
  } catch (const std::exception& error) {
    drilled.wrong = tessera::detail::concat("the drill failed: ", error.what(), "; ");
  }
  end_all(children);
  drilled.said += content(place.base() + "/said");
  judge(fault.expected, drilled);
  if (form == DrillForm::kProcesses && !fault.is_looked_at) {
    write_launch_file(place, children, began);
    compare_after_the_end(place, fault.has_late_rank, drilled);
  }
  return drilled;
}

DrillTally run_drills(const std::vector<DrillFault>& faults, const std::function<void(const Drilled&)>& tell) {
  DrillTally tally;
  for (const DrillFault& fault : faults) {
    for (const DrillForm form : fault.forms) {
      const Drilled drilled = run_drill(fault, form, static_cast<std::uint64_t>(tally.drills) + 1);
      tell(drilled);
      ++tally.drills;
      tally.right += drilled.wrong.empty() ? 1 : 0;
      tally.innocents += drilled.innocents;
      tally.changed += drilled.has_changed ? 1 : 0;
      tally.files += drilled.files;
      tally.readable += drilled.readable;
      tally.slowest_seconds = std::max(tally.slowest_seconds, drilled.seconds);
    }
  }
  return tally;
}

}  // namespace tessera::watch
