// How ranks that do not share a run directory come to one verdict: through the store that they met in. Under mpirun and
// srun there is no launcher of ours, and directories may be each machine's own.
//
//   watch/alarm 1          -> words: something ended in vain on a rank; whoever comes first sets it
//   watch/1/summary 3      -> what rank 3 can tell (summary.h), as soon as it sees the alarm
//   watch/1/joiner         -> who puts them together: rank 0, or the lowest that can after a moment
//   watch/1/verdict        -> what came of it, for all to say
//   watch/end 3            -> what rank 3 had to tell when it ended, which counts before its summaries
//
// A thread of its own waits for alarms and does all the talking: a store whose host is stopped or gone holds up that
// thread and never the watchdog. It ends with the process, or when the store is gone.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "tessera/comm/store/store.h"
#include "tessera/watch/detail/summary.h"
#include "tessera/watch/detail/told_report.h"
#include "tessera/watch/report.h"

namespace tessera::watch::detail {

/// The verdict of one rank, for the others: as text, and back. IoError: it is none, or too long.
std::string text_of_verdict(const ToldReport& told, const std::string& where);
/// What it says, and where the whole report is.
struct HeardVerdict {
  ToldReport told = {};
  std::string where = {};
};
/// Reads it.
HeardVerdict parse_verdict(const std::string& text);

/// See the head of this file. Thread-safe.
class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  using Clock = std::chrono::steady_clock;

  /// Of this rank over this store; `on_verdict` is called when there is one, on the thread of this. Its thread keeps
  /// it.
  static std::shared_ptr<Exchange> start(std::shared_ptr<comm::Store> store, Teller teller,
                                         std::function<void()> on_verdict);

  /// Raises the alarm with these words, unless there is a verdict since then, and waits for one until then.
  std::optional<Report> ask(const std::string& words, Clock::time_point since, Clock::time_point until);
  /// The verdict that came since then; none: there is none.
  std::optional<Report> heard(Clock::time_point since);
  /// Leaves what this rank has to tell for alarms to come: it ends. Waits no longer than this.
  void leave(bool has_failed, std::chrono::milliseconds patience);

 private:
  Exchange(std::shared_ptr<comm::Store> store, Teller teller, std::function<void()> on_verdict);
  void run();
  void answer(std::uint64_t number);
  std::string join(std::uint64_t number, const std::string& words);
  void take(const std::string& verdict);
  bool comes(const std::string& key, std::chrono::nanoseconds timeout);

  const std::shared_ptr<comm::Store> store_;
  const Teller teller_;
  const std::function<void()> on_verdict_;
  std::mutex mutex_;  // for what follows
  std::condition_variable changed_;
  std::uint64_t next_ = 1;  // the alarm that is waited for
  bool is_answering_ = false;
  bool is_over_ = false;  // the store is gone
  std::optional<Report> verdict_;
  Clock::time_point heard_at_ = {};
};

}  // namespace tessera::watch::detail
