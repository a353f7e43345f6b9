#include "tessera/comm/detail/group_record.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <vector>

#include "tessera/base/rank.h"
#include "tessera/comm/collectives/collective.h"
#include "tessera/comm/communicator.h"
#include "tessera/comm/detail/group_state.h"
#include "tessera/comm/detail/world_state.h"
#include "tessera/device/device.h"
#include "tessera/device/replay.h"

namespace tessera::comm::detail {

// The groups that one rank records. The groups keep this object, and its lock, alive.
struct RankBook {
  std::mutex mutex;
  std::vector<GroupRecord*> records;
  std::uint32_t last = 0;
  std::uint32_t asked_rows = 0;  // rows that groups use
};

namespace {

// Owned by the rank alone: created after its recorder, and so destroyed before it, by the thread that ends the rank.
class RankRecords {
 public:
  RankRecords() = default;
  ~RankRecords() {
    const std::lock_guard lock(book->mutex);
    for (GroupRecord* record : book->records) record->detach();
    book->records.clear();
  }
  RankRecords(const RankRecords&) = delete;
  RankRecords& operator=(const RankRecords&) = delete;
  // Writes the collectives of the program, once. Their rows stay, since records refer to them.
  void put_collectives(probe::Recorder& recorder) {
    const std::lock_guard lock(book->mutex);
    if (std::exchange(has_put_collectives, true)) return;
    for (const CollectiveDef& def : all_collectives()) {
      if (static_cast<int>(def.kind) < kFirstCustomOpKind) continue;
      auto row = recorder.table<CollectiveRow>().claim({.name = recorder.intern(def.name),
                                                        .kind = def.kind,
                                                        .reduces = def.reduces ? std::uint8_t{1} : std::uint8_t{0},
                                                        .is_rooted = def.has_root ? std::uint8_t{1} : std::uint8_t{0}});
      row.leave();
    }
  }
  bool has_put_collectives = false;
  const std::shared_ptr<RankBook> book = std::make_shared<RankBook>();
};

// Records consist of complete words: the recorder reads words, and small fields stored one by one just before that
// would stall it for longer than all other work takes. Fields that share a word are combined here.
constexpr std::uint64_t pair(std::uint32_t first, std::uint32_t second) {
  return first | static_cast<std::uint64_t>(second) << 32;
}
// Packs kind, dtype, reduction, a number up to 255, and root or peer.
std::uint64_t what(const Operation& operation, std::size_t number) {
  const auto low = static_cast<std::uint32_t>(operation.kind) | static_cast<std::uint32_t>(operation.dtype) << 8 |
                   static_cast<std::uint32_t>(operation.reduction.kind) << 16 |
                   static_cast<std::uint32_t>(std::min<std::size_t>(number, 255)) << 24;
  return pair(low, static_cast<std::uint32_t>(is_message(operation.kind) ? operation.peer : operation.root));
}
static_assert(offsetof(OperationRecord, task) == 8 && offsetof(OperationRecord, stream) == 16 &&
              offsetof(OperationRecord, parts) == 24 && offsetof(OperationRecord, kind) == 32);
static_assert(offsetof(BeginRecord, task) == 16 && offsetof(BeginRecord, kind) == 24 &&
              offsetof(BeginRecord, collective_number) == 32);
static_assert(offsetof(EndRecord, task) == 8 && offsetof(EndRecord, met) == 16 && offsetof(EndRecord, failure) == 24);
static_assert(offsetof(CommAskedRow, when) == 8 && offsetof(CommAskedRow, task) == 16 &&
              offsetof(CommAskedRow, stream) == 24 && offsetof(CommAskedRow, parts) == 32 &&
              offsetof(CommAskedRow, kind) == 40 && offsetof(CommAskedRow, thread) == 48);
static_assert(offsetof(CommRunningRow, count) == 24 && offsetof(CommRunningRow, task) == 40 &&
              offsetof(CommRunningRow, kind) == 48 && offsetof(CommRunningRow, collective_number) == 56 &&
              offsetof(CommRunningRow, collectives_ended) == 80);

constexpr std::uint64_t kShortMeeting = 50'000;  // ticks: about 20 us

// Returns the operation that represents a launch: a collective, if there is one.
const Operation& told_by(const Task& task) {
  for (const Operation& operation : task.operations) {
    if (!is_message(operation.kind)) return operation;
  }
  return task.operations[0];
}
bool is_collective(const Task& task) { return !is_message(told_by(task).kind); }
std::uint32_t slot_of(const Operation& message) {
  return 2 * static_cast<std::uint32_t>(message.peer) + (message.kind == OpKind::kRecv ? 1 : 0);
}

// Returns the elements of this rank: its own if chunks are uneven, all that it sends in an uneven all_to_all.
std::uint64_t count_of(const Operation& operation, int rank) {
  if (operation.in_counts.empty() && operation.out_counts.empty()) [[likely]]
    return static_cast<std::uint64_t>(operation.count);
  if (operation.kind == OpKind::kAllToAll) {
    std::int64_t sum = 0;
    for (const std::int64_t count : operation.in_counts) sum += count;
    return static_cast<std::uint64_t>(sum);
  }
  const auto& counts = operation.in_counts.empty() ? operation.out_counts : operation.in_counts;
  const auto at = static_cast<std::size_t>(rank);
  return static_cast<std::uint64_t>(at < counts.size() ? counts[at] : operation.count);
}

// Operating system id, queried once per thread; a forked process has a thread with another id.
[[gnu::tls_model("initial-exec")]] constinit thread_local std::uint32_t own_thread = 0;
std::uint32_t ask_thread() {
  [[maybe_unused]] static const int forks = ::pthread_atfork(nullptr, nullptr, [] { own_thread = 0; });
  own_thread = static_cast<std::uint32_t>(::gettid());
  return own_thread;
}
std::uint32_t this_thread() { return own_thread != 0 ? own_thread : ask_thread(); }

std::uint8_t failure_of(const std::exception_ptr& error) {
  if (error == nullptr) return 0;
  try {
    std::rethrow_exception(error);
  } catch (const Error& known) {
    return static_cast<std::uint8_t>(1 + static_cast<int>(known.kind()));
  } catch (...) {
    return 255;
  }
}

}  // namespace

GroupRecord::~GroupRecord() {
  if (book_ == nullptr) return;
  // The rank may end now: its record stays until the lock is released.
  const std::lock_guard lock(book_->mutex);
  std::erase(book_->records, this);
  book_->asked_rows -= static_cast<std::uint32_t>(asked_rows_.size());
  release_rows();
}

void GroupRecord::release_rows() noexcept {
  group_row_.release();
  for (auto& row : asked_rows_) row.release();
  running_row_.release();
  replay_row_.release();
  for (auto& [row, what] : signal_rows_) row.release();
}

void GroupRecord::open(GroupState& group) {
  group_ = &group;
  probe::Recorder& recorder = probe::recorder();
  RankRecords& records = current_rank()->part<RankRecords>([] { return std::make_shared<RankRecords>(); });
  if (!recorder.is_on()) return;
  records.put_collectives(recorder);
  asking_mutex_ = &group.launch_mutex;
  book_ = records.book;
  messages_.assign(2 * group.ranks.size(), 0);
  const std::lock_guard lock(book_->mutex);
  book_->records.push_back(this);
  number_ = ++book_->last;
  claim_rows(group);
  clock_ = recorder.clock_source();
  running_ = &recorder;
  asking_ = &recorder;
}

// Tables take their room in the file in this order. A group gets at most a quarter of the remaining operation rows, so
// that later groups get some.
void GroupRecord::claim_rows(GroupState& group) {
  probe::Recorder& recorder = probe::recorder();
  const CommGroupRow self{.group = number_,
                          .rank = group.rank,
                          .size = static_cast<std::int32_t>(group.ranks.size()),
                          .name = recorder.intern(group.name),
                          .ranks = recorder.intern(text_of(group.ranks)),
                          .backend = recorder.intern(group.backend)};
  group_row_ = recorder.table<CommGroupRow>().claim(self);
  recorder.write(probe::Ring::kComm, self);  // the row disappears with the group, which may end before the rank
  last_.who = pair(0, number_);
  CommRunningRow nothing_runs = {};
  nothing_runs.group = number_;
  running_row_ = recorder.table<CommRunningRow>().claim(nothing_runs);
  auto table = recorder.table<CommAskedRow>();
  const std::uint32_t left = table.rows() - std::min(table.rows(), book_->asked_rows);
  CommAskedRow nothing = {};
  nothing.group = number_;
  for (std::uint32_t wanted = std::clamp(left / 4, 1U, CommAskedRow::kEach); wanted > 0; --wanted) {
    auto row = table.claim(nothing);
    if (!row) break;
    asked_rows_.push_back(std::move(row));
  }
  book_->asked_rows += static_cast<std::uint32_t>(asked_rows_.size());
  ReplayRecord no_replay = {};
  no_replay.group = number_;
  replay_row_ = recorder.table<ReplayRecord>().claim(no_replay);
}

void GroupRecord::detach() noexcept {
  const std::lock_guard asking(*asking_mutex_);
  const Held held(flag_);
  asking_ = nullptr;
  running_ = nullptr;
  release_rows();
}

probe::StringId GroupRecord::label_string(memory::LabelId label) {
  if (label == label_) return label_string_;
  label_ = label;
  label_string_ = label == 0 ? probe::StringId{} : asking_->intern(memory::Label::text_of(label));
  return label_string_;
}

probe::StringId GroupRecord::device_string(const device::Stream& stream) {
  if (stream.state().get() == stream_) return device_string_;
  stream_ = stream.state().get();
  device_string_ = asking_->intern(stream.device().name());
  return device_string_;
}

[[gnu::flatten]] void GroupRecord::asked(const Task& task, const device::Stream& stream, std::uint64_t ticks) {
  probe::Recorder* recorder = asking_;
  if (recorder == nullptr || !recorder->is_on()) return;
  const probe::Moment now = ticks != 0 ? probe::Moment{ticks} : recorder->begin();
  const std::uint64_t who = pair(task.number, number_);
  const std::uint64_t where = pair(stream.id().value(), device_string(stream).value());
  const std::uint32_t label = label_string(memory::detail::current_label).value();
  const std::uint64_t by = pair(this_thread(), static_cast<std::uint32_t>(task.operations.size()));
  for (std::size_t i = 0; i < task.operations.size(); ++i) {
    const Operation& operation = task.operations[i];
    const std::uint64_t count = count_of(operation, group_->rank);
    const bool is_even = operation.in_counts.empty() && operation.out_counts.empty() && operation.targets.empty();
    const std::uint64_t digest = is_even ? 0 : digest_of_parts(operation);
    const std::uint64_t parts = pair(static_cast<std::uint32_t>(digest), label);
    const std::uint64_t kind = what(operation, i);
    recorder->write_words_at<OperationRecord>(now, probe::Ring::kComm, count, who, where, parts, kind);
    if (asked_rows_.empty()) continue;
    asked_rows_[next_asked_].put_words({count, now.value(), who, where, parts, kind, by});
    if (++next_asked_ == asked_rows_.size()) next_asked_ = 0;
  }
}

Launched Launched::of(const Task& task, int rank) {
  const Operation& first = told_by(task);
  Launched launched{.count = count_of(first, rank),
                    .what = comm::detail::what(first, task.operations.size()),
                    .number = task.number,
                    .is_collective = !is_message(first.kind)};
  for (const Operation& operation : task.operations) {
    if (is_message(operation.kind)) launched.messages.push_back(slot_of(operation));
  }
  return launched;
}

// Counts messages and returns the number of the first.
std::uint64_t GroupRecord::count_messages(std::span<const std::uint32_t> messages) {
  std::uint64_t first = 0;
  for (const std::uint32_t message : messages) {
    const std::uint64_t number = ++messages_[message];
    if (first == 0) first = number;
  }
  return first;
}

// Records the replay and the node of a launch in a graph. Rare, so kept out of line.
[[gnu::noinline]] void GroupRecord::note_replay(probe::Recorder& recorder, probe::Moment now, const Told& told) {
  const device::RunningNode at = device::running_node();
  const ReplayRecord replay{.sequence = told.sequence,
                            .replay = at.replay,
                            .task = told.number,
                            .group = number_,
                            .graph = at.graph,
                            .node = at.node};
  recorder.write_at(now, probe::Ring::kComm, replay);
  replay_row_.put(replay);
}

// `count(is_collective)` counts its operations and returns the collective_number of a launch of messages.
template <class Count>
inline void GroupRecord::note_begin(const Told& told, const Count& count) {
  const Held held(flag_);
  max_begun_ = std::max(max_begun_, told.number);
  probe::Recorder* recorder = running_;
  if (recorder == nullptr || !recorder->is_on()) return;
  const probe::Moment now = told.ticks != 0 ? probe::Moment{told.ticks} : recorder->begin();
  const std::uint64_t who = pair(told.number, number_);
  bool has_collective = false;
  std::uint64_t collective_number = count(has_collective);
  if (has_collective) collective_number = ++last_.collectives_begun;
  // Set well before it is read below, since a read directly after a store would stall.
  const bool is_latest = told.sequence >= last_.begun;
  if (is_latest) {
    met_.store(0, std::memory_order_relaxed);
    begun_at_.store(now.value(), std::memory_order_relaxed);
    last_ = {.begun = told.sequence,
             .ended = last_.ended,
             .failed = last_.failed,
             .count = told.count,
             .when = now.value(),
             .who = who,
             .what = told.what,
             .collective_number = collective_number,
             .collectives_begun = last_.collectives_begun,
             .collectives_ended = last_.collectives_ended};
  }
  recorder->write_words_at<BeginRecord>(now, probe::Ring::kComm, told.sequence, told.count, who, told.what,
                                        collective_number);
  if (device::running_node().replay != 0) note_replay(*recorder, now, told);
  if (is_latest) put_running();
}

inline void GroupRecord::put_running() {
  running_row_.put_words({last_.begun, last_.ended, last_.failed, last_.count, last_.when, last_.who, last_.what,
                          last_.collective_number, met_.load(std::memory_order_relaxed), last_.collectives_begun,
                          last_.collectives_ended});
}

void GroupRecord::met(const Task& task) {
  if (!clock_) return;
  const std::uint64_t now = probe::read_ticks(*clock_);
  met_.store(now, std::memory_order_relaxed);
  // If no rank had to be awaited, the end follows soon and reports it.
  if (now - begun_at_.load(std::memory_order_relaxed) < kShortMeeting) return;
  const Held held(flag_);
  const probe::Recorder* recorder = running_;
  if (recorder == nullptr || !recorder->is_on()) return;
  if (last_.begun == task.sequence.load(std::memory_order_relaxed)) put_running();
}

inline void GroupRecord::note_end(std::uint32_t number, bool is_collective, std::uint64_t sequence,
                                  const std::exception_ptr& error, std::uint64_t ticks) {
  const Held held(flag_);
  probe::Recorder* recorder = running_;
  if (recorder == nullptr || !recorder->is_on()) return;
  last_.ended = std::max(last_.ended, sequence);
  last_.collectives_ended += is_collective ? 1 : 0;
  const std::uint8_t failure = failure_of(error);
  if (failure != 0) last_.failed = sequence;
  const std::uint64_t met = last_.begun == sequence ? met_.load(std::memory_order_relaxed) : 0;
  const probe::Moment now = ticks != 0 ? probe::Moment{ticks} : recorder->begin();
  recorder->write_words_at<EndRecord>(now, probe::Ring::kComm, sequence, pair(number, number_), met,
                                      std::uint64_t{failure});
  put_running();
}

[[gnu::flatten]] void GroupRecord::began(const Task& task, std::uint64_t ticks) {
  const Operation& first = told_by(task);
  const Told told{.count = count_of(first, group_ != nullptr ? group_->rank : 0),
                  .what = what(first, task.operations.size()),
                  .sequence = task.sequence.load(std::memory_order_relaxed),
                  .number = task.number,
                  .ticks = ticks};
  note_begin(told, [&](bool& has_collective) {
    std::uint64_t collective_number = 0;
    for (const Operation& operation : task.operations) {
      if (!is_message(operation.kind)) {
        has_collective = true;
        continue;
      }
      const std::uint64_t number = ++messages_[slot_of(operation)];
      if (collective_number == 0) collective_number = number;
    }
    return collective_number;
  });
}
[[gnu::flatten]] void GroupRecord::ended(const Task& task, std::uint64_t ticks) {
  note_end(task.number, is_collective(task), task.sequence.load(std::memory_order_relaxed), task.error, ticks);
  if (task.error) [[unlikely]]
    tell(task.error);
}
void GroupRecord::began(const Launched& launched, std::uint64_t sequence) {
  note_begin({.count = launched.count, .what = launched.what, .sequence = sequence, .number = launched.number},
             [&](bool& has_collective) {
               has_collective = launched.is_collective;
               return count_messages(launched.messages);
             });
}
void GroupRecord::ended(const Launched& launched, std::uint64_t sequence, const std::exception_ptr& error) {
  note_end(launched.number, launched.is_collective, sequence, error);
  if (error) tell(error);
}

std::size_t GroupRecord::signal_waits(const std::string& pool, const char* what, int peer, int channel,
                                      std::uint64_t number) {
  const Held held(flag_);
  probe::Recorder* recorder = running_;
  if (recorder == nullptr || !recorder->is_on()) return 0;
  const CommSignalRow waits{.number = number,
                            .when = recorder->begin(),
                            .group = number_,
                            .peer = peer,
                            .channel = channel,
                            .failure = 0,
                            .pool = recorder->intern(pool),
                            .what = recorder->intern(what)};
  auto row = recorder->table<CommSignalRow>().claim(waits);
  if (!row) return 0;
  auto free = std::ranges::find_if(signal_rows_, [](const auto& each) { return !each.first; });
  if (free == signal_rows_.end()) free = signal_rows_.emplace(signal_rows_.end());
  *free = {std::move(row), waits};
  return static_cast<std::size_t>(free - signal_rows_.begin()) + 1;
}

void GroupRecord::signal_ended(std::size_t handle, const std::exception_ptr& error) {
  {
    const Held held(flag_);
    probe::Recorder* recorder = running_;
    if (handle == 0 || recorder == nullptr) return;
    auto& [row, what] = signal_rows_[handle - 1];
    if (const std::uint8_t failure = failure_of(error); failure != 0 && recorder->is_on()) {
      what.failure = failure;
      recorder->write(probe::Ring::kComm, what);
    }
    row.release();
  }
  if (error) tell(error);
}

void GroupRecord::tell(const std::exception_ptr& error) const noexcept {
  if (group_ == nullptr) return;
  tell_failed(group_->ranks[static_cast<std::size_t>(group_->rank)].value(), group_->name, group_->on_hang, error);
}

GroupProgress GroupRecord::progress() {
  GroupProgress progress{.asked = expected_.load(std::memory_order_relaxed),
                         .noticed = noticed_.load(std::memory_order_relaxed)};
  const Held held(flag_);
  progress.begun = max_begun_;
  progress.running = last_.begun;
  progress.ended = last_.ended;
  progress.what = last_.what;
  progress.count = last_.count;
  progress.last = static_cast<std::uint32_t>(last_.who);
  progress.has_met = met_.load(std::memory_order_relaxed) != 0;
  return progress;
}

}  // namespace tessera::comm::detail
