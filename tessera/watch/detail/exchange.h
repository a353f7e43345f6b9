// Agreement on one verdict by ranks that do not share a run directory, through their store. Under mpirun and srun there
// is no Tessera launcher, and each machine may have separate directories.
//
//   watch/alarm 1          -> message: an operation failed on a rank; the first such rank sets it
//   watch/1/summary 3      -> summary of rank 3 (summary.h), as soon as it sees the alarm
//   watch/1/joiner         -> the rank that joins them: rank 0, or after a moment the lowest that can
//   watch/1/verdict        -> the result, for all ranks to print
//   watch/end 3            -> the summary of rank 3 when it ended, which takes precedence over its other summaries
//
// A separate thread waits for alarms and makes all store calls: a store whose host is stopped or gone delays that
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
#include "tessera/watch/detail/rank_report.h"
#include "tessera/watch/detail/summary.h"
#include "tessera/watch/verdict_file.h"

namespace tessera::watch::detail {

/// Serializes the verdict of one rank for the others. Throws IoError if it is invalid or too long.
std::string text_of_verdict(const RankReport& told, const std::string& where);
/// A received verdict, and the location of the full report.
struct HeardVerdict {
  RankReport told = {};
  std::string where = {};
};
/// Parses a verdict.
HeardVerdict parse_verdict(const std::string& text);

/// Exchange of summaries and verdicts. Thread-safe.
class SummaryExchange : public std::enable_shared_from_this<SummaryExchange> {
 public:
  using Clock = std::chrono::steady_clock;

  /// Starts the exchange of this rank over this store. Calls `on_verdict` on the thread of the exchange, which keeps
  /// the object alive.
  static std::shared_ptr<SummaryExchange> start(std::shared_ptr<comm::Store> store, Teller teller,
                                                std::function<void()> on_verdict);

  /// Raises the alarm with this message, unless a verdict arrived since `since`, and waits for one until `until`.
  std::optional<Report> ask(const std::string& words, Clock::time_point since, Clock::time_point until);
  /// Returns the verdict that arrived since `since`, if any.
  std::optional<Report> heard(Clock::time_point since);
  /// Stores the final summary of this rank for later alarms, because it ends. Waits at most `patience`.
  void leave(bool has_failed, std::chrono::milliseconds patience);

 private:
  SummaryExchange(std::shared_ptr<comm::Store> store, Teller teller, std::function<void()> on_verdict);
  void run();
  void answer(std::uint64_t number);
  std::string join(std::uint64_t number, const std::string& words);
  void take(const std::string& verdict);
  bool comes(const std::string& key, std::chrono::nanoseconds timeout);

  const std::shared_ptr<comm::Store> store_;
  const Teller teller_;
  const std::function<void()> on_verdict_;
  std::mutex mutex_;  // guards the following members
  std::condition_variable changed_;
  std::uint64_t next_ = 1;  // the next alarm
  bool is_answering_ = false;
  bool is_over_ = false;  // the store is gone
  std::optional<Report> verdict_;
  Clock::time_point heard_at_ = {};
};

}  // namespace tessera::watch::detail
