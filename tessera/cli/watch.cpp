// `tessera watch`: shows the current state of a run in the terminal. It only reads files of the run directory. A
// separate thread reads for at most half of the time, so that keys respond while a large run is read.
#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "tessera/analysis/explain.h"
#include "tessera/analysis/live.h"
#include "tessera/analysis/read_run.h"
#include "tessera/analysis/torch_pickles.h"
#include "tessera/base/atomic_file.h"
#include "tessera/base/error.h"
#include "tessera/cli/newest_run.h"
#include "tessera/cli/table.h"
#include "tessera/cli/terminal.h"
#include "tessera/cli/verb.h"

namespace tessera::cli {
namespace {

using Seconds = std::chrono::duration<double>;

constexpr std::size_t kLaunches = 256;  // per group and rank: only the last are shown
constexpr const char* kHelpText =
    "q    quit\n"
    "e    switch between the explanation and the table\n"
    "r    read now\n"
    "p    request a profile of the next steps (training runs: docs/profiling.md)\n"
    "j k  scroll down and up; space and b scroll by a page\n"
    "?    switch between this page and the table\n"
    "\n"
    "STATE      state of the process: running, stopped, ended, failed, died; 'no record': no record file yet\n"
    "STEP       current step (annotation 'step'), or the last step in metrics.jsonl\n"
    "RATE       tokens/s of that step, or finished group operations per second\n"
    "MEMORY     memory in use on all devices\n"
    "FOR        time since the operation started, or was enqueued if it is queued\n"
    "IN FLIGHT  group, collective number, operation; 'queued': the stream has not reached it; 'waits for others': "
    "other\n"
    "           ranks have not arrived; 'moves bytes': all ranks have arrived\n"
    "\n"
    "This command only reads files of the run directory. The key p also writes profile.request there, which the run\n"
    "removes when it writes the profile.";

struct Options {
  std::string run;
  double interval = 0.5;
  double hung_after = 10;
  bool once = false;
};

// One snapshot of the run.
struct Reading {
  analysis::Evidence evidence;
  analysis::LiveView view;
  std::optional<analysis::Explanation> found;  // if a failure was found
  std::string problem;                         // reason if it could not be read
};

std::shared_ptr<const Reading> read_once(const Options& options, const Reading* before) {
  auto reading = std::make_shared<Reading>();
  reading->evidence = analysis::has_torch_pickles(options.run)
                          ? analysis::read_torch_pickles(options.run)
                          : analysis::read_run(options.run, {.last_launches = kLaunches});
  const auto metrics = analysis::read_metrics(options.run, reading->evidence.world_size);
  reading->view = analysis::live_view(reading->evidence, metrics, before == nullptr ? nullptr : &before->view,
                                      static_cast<std::int64_t>(options.hung_after * 1e9));
  if (reading->view.is_hung) {
    analysis::Explanation found = analysis::explain(reading->evidence);
    if (found.verdict.fault != analysis::Fault::kNone) reading->found = std::move(found);
  }
  return reading;
}

// Returns true if no rank can take a step: only the next start of the run would answer a request.
bool is_over(const analysis::Evidence& evidence) {
  return std::ranges::none_of(evidence.ranks, [](const analysis::Rank& rank) {
    using enum analysis::RankState;
    return rank.state == kRunning || rank.state == kStopped || rank.state == kUnknown;
  });
}

// Requests a profile of the next steps and returns the message to show.
std::string ask_for_profile(const std::string& run, const analysis::Evidence& evidence) {
  if (is_over(evidence)) return "No rank is running; no steps remain to profile.";
  try {
    write_file(run + "/profile.request", "a profile of the next steps\n", FileKind::kRun);
    return "Profile requested; see profile-STEP in the run directory.";
  } catch (const IoError& error) {
    return error.message();
  }
}

std::string last_line(const Reading& reading) {
  if (!reading.problem.empty()) return reading.problem;
  if (!reading.found) return "No hang detected.   q quit   e explain   r read now   p profile   ? help";
  return reading.found->verdict.sentence + "   (e explains)";
}

// Reads the run repeatedly and signals new snapshots through a descriptor.
class Reader {
 public:
  Reader(const Options& options, std::shared_ptr<const Reading> first)
      : options_(options), latest_(std::move(first)), told_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    TESSERA_CHECK_AS(IoError, told_ >= 0, "cannot create an event descriptor");
    thread_ = std::thread([this] { work(); });
  }
  ~Reader() {
    {
      const std::lock_guard lock(mutex_);
      is_stopped_ = true;
    }
    changed_.notify_all();
    thread_.join();
    ::close(told_);
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  [[nodiscard]] int descriptor() const { return told_; }
  // Returns the latest snapshot and resets the descriptor.
  std::shared_ptr<const Reading> take() {
    std::uint64_t count = 0;
    (void)!::read(told_, &count, sizeof count);
    const std::lock_guard lock(mutex_);
    return latest_;
  }
  void read_now() {
    {
      const std::lock_guard lock(mutex_);
      is_wanted_ = true;
    }
    changed_.notify_all();
  }

 private:
  void work() {
    const Seconds interval(options_.interval);
    Seconds pause = interval;
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait_for(lock, pause, [this] { return is_stopped_ || is_wanted_; });
      if (is_stopped_) return;
      is_wanted_ = false;
      const std::shared_ptr<const Reading> before = latest_;
      lock.unlock();
      const auto begin = std::chrono::steady_clock::now();
      std::shared_ptr<const Reading> now = read_or_say(*before);
      const Seconds cost = std::chrono::steady_clock::now() - begin;
      pause = std::max(interval - cost, std::min(cost, Seconds(5)));
      lock.lock();
      latest_ = std::move(now);
      const std::uint64_t one = 1;
      (void)!::write(told_, &one, sizeof one);
    }
  }

  [[nodiscard]] std::shared_ptr<const Reading> read_or_say(const Reading& before) const {
    try {
      return read_once(options_, &before);
    } catch (const std::exception& error) {  // the directory was removed: the last snapshot remains on the screen
      auto same = std::make_shared<Reading>(before);
      const auto* ours = dynamic_cast<const Error*>(&error);
      same->problem = ours != nullptr ? ours->message() : error.what();
      return same;
    }
  }

  const Options options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_stopped_ = false;
  bool is_wanted_ = false;
  std::shared_ptr<const Reading> latest_;
  int told_;
  std::thread thread_;
};

// The content of the screen.
class Watch {
 public:
  Watch(std::string run, std::shared_ptr<const Reading> first) : run_(std::move(run)), reading_(std::move(first)) {}

  void draw() {
    const Terminal::Size size = Terminal::size();
    analysis::Screen screen{size.width, size.height, first_, std::getenv("NO_COLOR") == nullptr};
    switch (page_) {
      case Page::kTable:
        return Terminal::draw(
            analysis::live_lines(reading_->view, answer_.empty() ? last_line(*reading_) : answer_, screen));
      case Page::kHelp: return Terminal::draw(analysis::page_lines(kHelpText, "? back   q quit", screen));
      case Page::kExplanation:
        return Terminal::draw(analysis::page_lines(explanation(), "e back   j k scroll   q quit", screen));
    }
  }

  void take(std::shared_ptr<const Reading> reading) { reading_ = std::move(reading); }

  // Returns false if the key ends the program.
  bool press(char key, Reader& reader) {
    const std::size_t page = std::max<std::size_t>(Terminal::size().height, 3) - 2;
    answer_.clear();
    switch (key) {
      case 'q': return false;
      case 'e': turn_to(Page::kExplanation); break;
      case '?': turn_to(Page::kHelp); break;
      case 'r': reader.read_now(); break;
      case 'p': answer_ = ask_for_profile(run_, reading_->evidence); break;
      case 'j': move(1, true); break;
      case 'k': move(1, false); break;
      case ' ': move(page, true); break;
      case 'b': move(page, false); break;
      default: break;
    }
    return true;
  }

 private:
  enum class Page { kTable, kExplanation, kHelp };

  // Switches to the page, or back to the table.
  void turn_to(Page page) {
    page_ = page_ == page ? Page::kTable : page;
    first_ = 0;
  }
  void move(std::size_t lines, bool is_down) {
    constexpr std::size_t kMax = 100'000;
    first_ = is_down ? std::min(first_ + lines, kMax) : first_ - std::min(first_, lines);
  }
  [[nodiscard]] std::string explanation() const {
    const analysis::Explanation found = reading_->found ? *reading_->found : analysis::explain(reading_->evidence);
    return analysis::to_text(reading_->evidence, found);
  }

  std::string run_;
  std::shared_ptr<const Reading> reading_;
  std::string answer_;  // response to the last key, until the next
  Page page_ = Page::kTable;
  std::size_t first_ = 0;
};

int watch(const Options& options, const std::shared_ptr<const Reading>& first) {
  std::optional<Terminal> terminal(std::in_place);
  Reader reader(options, first);  // after the terminal, so that its thread has the signals blocked
  Watch watch(options.run, first);
  watch.draw();
  while (true) {
    const TerminalEvent event = terminal->wait(reader.descriptor());
    const bool is_quit = event.key != 0 && !watch.press(event.key, reader);
    if (is_quit || event.ending_signal != 0 || event.is_gone) {
      terminal.reset();  // immediately: the destructor of the reader waits for a read in progress
      return event.ending_signal != 0 ? 128 + event.ending_signal : static_cast<int>(kDone);
    }
    if (event.is_other) watch.take(reader.take());
    if (event.is_other || event.is_changed || event.key != 0) watch.draw();
  }
}

int show_once(const Reading& reading) {
  const Style style = stdout_style();
  for (const std::string& problem : reading.evidence.problems) std::fprintf(stderr, "tessera: %s\n", problem.c_str());
  if (style.is_terminal) {
    const analysis::Screen screen{style.width == 0 ? 80 : style.width, 0, 0, std::getenv("NO_COLOR") == nullptr};
    const std::string last = reading.found ? reading.found->verdict.sentence : "No hang detected.";
    for (const std::string& line : analysis::live_lines(reading.view, last, screen)) std::printf("%s\n", line.c_str());
    return kDone;
  }
  Table table{analysis::live_headings(), {}};
  for (const analysis::LiveRow& row : reading.view.rows) table.rows.push_back(analysis::live_cells(row));
  print_tables({table});
  if (!reading.evidence.before.empty()) std::printf("\n%s\n", analysis::printable(reading.evidence.before).c_str());
  if (reading.found) std::printf("\n%s\n", analysis::printable(reading.found->verdict.sentence).c_str());
  return kDone;
}

Body declare(Command& command) {
  const auto options = std::make_shared<Options>();
  command.add("RUN_DIR", &options->run, "Run directory (default: the newest under ./runs)",
              {.paths = Paths::kDirectories});
  command.add("--interval", &options->interval, "Seconds between readings",
              {.type = "S", .shows_default = true, .range = Range{0.05, 3600.0}});
  command.add("--hung-after", &options->hung_after, "Seconds after which an operation in flight counts as hung",
              {.type = "S", .shows_default = true, .range = Range{0.0, 1e6}});
  command.add("--once", &options->once, "Print one table and exit; the default without a terminal");
  command.footer =
      "Shows one row per rank: state, step, loss, rate, memory, and the operation in flight with its age. Keys: q "
      "quits,\n"
      "e explains, r reads again, p requests a profile of the next steps of a training run, ? shows help. Apart from "
      "the\n"
      "profile request, the command only reads files of the run directory.\n"
      "  tessera watch runs/night\n"
      "  tessera watch runs/night --once | cut -f 1,2,8";
  return [options]() -> int {
    try {
      options->run = run_or_newest(options->run);
      const std::shared_ptr<const Reading> first = read_once(*options, nullptr);
      return options->once || !Terminal::is_there() ? show_once(*first) : watch(*options, first);
    } catch (const IoError& error) {  // a missing or invalid directory: the source location does not matter
      std::fprintf(stderr, "tessera: %s\n", error.message().c_str());
      return kFailed;
    }
  };
}

const VerbRegistration kWatch({"watch", "Show the current state of each rank of a run in the terminal", declare});

}  // namespace
}  // namespace tessera::cli
