// The watchdog of the process. See tessera/watch/watchdog.h.
//
// Threads of ranks notify it of groups and failures (GroupObserver). Its own thread, which it shares with device
// polling (comm/polled_object.h), polls and reports. A failing thread waits for the report, so that the report shows
// the ranks as they were.
#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tessera/comm/group_observer.h"
#include "tessera/comm/polled_object.h"
#include "tessera/comm/store/wait_notice.h"
#include "tessera/watch/detail/exchange.h"
#include "tessera/watch/detail/heartbeat.h"
#include "tessera/watch/detail/wait_line.h"
#include "tessera/watch/verdict_file.h"
#include "tessera/watch/watchdog.h"

namespace tessera::watch::detail {

/// The watchdog. Thread-safe; one per process, never destroyed.
class Watchdog final : public comm::detail::GroupObserver, public comm::detail::PolledObject {
 public:
  /// Returns the watchdog of this process.
  static const std::shared_ptr<Watchdog>& of_process();

  void rank_opens(const RankPlace& place, bool is_process) override;
  void rank_is_placed() override;
  void group_opens(comm::detail::ObservedGroup group) override;
  void group_closes(comm::detail::ObservedGroup group) noexcept override;
  void failed(const comm::detail::RankFailure& failure) noexcept override;

  bool look() override;
  [[nodiscard]] std::chrono::milliseconds period() const override { return std::chrono::milliseconds(100); }

  /// Returns the states of all groups, by rank.
  [[nodiscard]] std::vector<GroupStanding> standing();
  /// Called when the rank of this process ends: stores its final summary for ranks that do not see its record.
  void leave(bool has_failed) noexcept;
  /// Sets when an operation that waits for a peer is reported, for tests.
  void set_notice_delays(comm::detail::NoticeDelays delays);
  /// Returns the number of lines printed so far.
  [[nodiscard]] std::uint64_t said();

 private:
  using Clock = std::chrono::steady_clock;
  using RankFailure = comm::detail::RankFailure;

  // A group and the time of its last change.
  struct Seen {
    comm::detail::ObservedGroup group;
    comm::detail::GroupProgress progress = {};
    Clock::time_point since = {};
    bool was_told = false;                                // the current wait was reported
    std::chrono::nanoseconds extended = {};               // all observed extensions of deadlines
    std::chrono::nanoseconds extra = {};                  // those of the launches up to the next field
    std::uint32_t extra_up_to = 0;                        // number of the last launch when they were set
    std::optional<comm::detail::WaitNotice> notice = {};  // while it waits for a peer
  };

  // A failure to report, with its arming: failures before the last arm() are outdated.
  struct Due {
    RankFailure failure;
    std::uint64_t arming = 0;
  };

  void beat();
  std::vector<Due> take_failures();
  std::vector<Due> take_overdue();
  std::vector<LongWait> take_long_waits();
  void tell_of_wait(const LongWait& wait);
  std::optional<RankFailure> overdue(Seen& seen, Clock::time_point now);
  static std::chrono::nanoseconds extension_of(Seen& seen, const comm::detail::GroupProgress& progress);
  [[nodiscard]] std::int64_t smaller_since_ns();
  void tell(const Due& due);
  void tell_of_others();
  // A report, and whether another rank created it, which then prints it in full.
  struct Found {
    std::optional<Report> report = {};
    bool is_of_another = false;
  };
  Found report_of(const RankFailure& failure, const std::string& run_dir, const ReportMark& before);
  std::optional<Report> report_by_claimant(const RankFailure& failure, const std::string& run_dir);
  std::optional<Report> report_of_all(const RankFailure& failure);
  void open_exchange();
  void say(int rank, const Report& report, bool is_of_another, std::uint64_t arming);
  void say(int rank, const std::string& words, const std::string& path, std::uint64_t arming);
  void act(const RankFailure& failure);
  void abort_groups(int rank, const std::string& reason);
  void begin_smaller_world();
  void arm();
  void annotation(const std::string& run_dir);
  [[nodiscard]] ReportMark mark_of(const std::string& run_dir) const;

  std::mutex mutex_;  // guards all following members; never held during a wait
  std::condition_variable told_;
  bool is_started_ = false;
  bool is_process_ = false;
  int process_rank_ = -1;
  int world_size_ = 1;                         // of the process
  std::int64_t smaller_since_ns_ = 0;          // time since 1970 when the world shrank; 0: never
  std::shared_ptr<SummaryExchange> exchange_;  // with ranks that may not see this run directory; null if all do
  std::map<int, std::string> run_dirs_;        // by rank
  std::vector<Seen> groups_;
  comm::detail::NoticeDelays notice_delays_;
  std::vector<Due> failures_;
  bool is_telling_ = false;
  std::uint64_t arming_ = 0;
  std::map<std::string, ReportMark> marks_;  // by run directory, at the last arming: later reports are new
  Clock::time_point armed_at_;               // time of the last arming
  bool is_told_ = false;                     // since then
  std::uint64_t generation_ = 0;             // greatest of the groups at that report
  std::uint64_t reports_ = 0;
  std::uint64_t beats_ = 0;
  probe::Recorder* recorder_ = nullptr;  // of the rank of this process; never destroyed
  probe::Row<HeartbeatRow> heartbeat_;
};

}  // namespace tessera::watch::detail
