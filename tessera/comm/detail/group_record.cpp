#include "tessera/comm/detail/group_record.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <mutex>
#include <vector>

#include "tessera/base/mutant.h"
#include "tessera/base/rank.h"
#include "tessera/comm/communicator.h"
#include "tessera/comm/detail/group_state.h"
#include "tessera/comm/detail/world_state.h"
#include "tessera/device/device.h"

namespace tessera::comm::detail {

// The groups that one rank records. Made after the recorder, and so destroyed before it.
class RankRecords : public std::enable_shared_from_this<RankRecords> {
 public:
  ~RankRecords() {
    for (GroupRecord* record : records) record->detach();
  }
  std::mutex mutex;
  std::vector<GroupRecord*> records;
  std::uint32_t last = 0;
};

namespace {

// Records are made of whole words: the recorder reads them as such, and small fields stored one by one just before that
// would keep it waiting, longer than all the rest takes. Fields that share a word are put together here.
constexpr std::uint64_t pair(std::uint32_t first, std::uint32_t second) {
  return first | static_cast<std::uint64_t>(second) << 32;
}
// kind, dtype, reduction, a number up to 255, root or peer.
std::uint64_t what(const Operation& operation, std::size_t number) {
  const auto low = static_cast<std::uint32_t>(operation.kind) | static_cast<std::uint32_t>(operation.dtype) << 8 |
                   static_cast<std::uint32_t>(operation.reduction.kind) << 16 |
                   static_cast<std::uint32_t>(std::min<std::size_t>(number, 255)) << 24;
  return pair(low, static_cast<std::uint32_t>(is_message(operation.kind) ? operation.peer : operation.root));
}
template <class Record>
Record of_words(const std::array<std::uint64_t, sizeof(Record) / 8>& words) {
  return std::bit_cast<Record>(words);
}
static_assert(offsetof(OperationRecord, task) == 8 && offsetof(OperationRecord, stream) == 16 &&
              offsetof(OperationRecord, parts) == 24 && offsetof(OperationRecord, kind) == 32);
static_assert(offsetof(BeginRecord, task) == 16 && offsetof(BeginRecord, kind) == 24);
static_assert(offsetof(EndRecord, task) == 8 && offsetof(EndRecord, failure) == 16);
static_assert(offsetof(CommAskedRow, when) == 8 && offsetof(CommAskedRow, task) == 16 &&
              offsetof(CommAskedRow, kind) == 24);
static_assert(offsetof(CommRunningRow, count) == 24 && offsetof(CommRunningRow, task) == 40 &&
              offsetof(CommRunningRow, kind) == 48);

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
  if (const auto shared = shared_.lock()) {
    const std::lock_guard lock(shared->mutex);
    std::erase(shared->records, this);
  }
}

void GroupRecord::open(GroupState& group) {
  group_ = &group;
  probe::Recorder& recorder = probe::recorder();
  RankRecords& shared = current_rank()->part<RankRecords>([] { return std::make_shared<RankRecords>(); });
  if (!recorder.is_on()) return;
  asking_mutex_ = &group.launch_mutex;
  shared_ = shared.weak_from_this();
  const std::lock_guard lock(shared.mutex);
  shared.records.push_back(this);
  number_ = ++shared.last;
  group_row_ = recorder.table<CommGroupRow>().claim({.group = number_,
                                                     .rank = group.rank,
                                                     .size = static_cast<std::int32_t>(group.ranks.size()),
                                                     .name = recorder.intern(group.name),
                                                     .ranks = recorder.intern(text_of(group.ranks)),
                                                     .backend = recorder.intern(group.backend)});
  CommAskedRow nothing = {};
  nothing.group = number_;
  asked_row_ = recorder.table<CommAskedRow>().claim(nothing);
  last_.who = pair(0, number_);
  running_row_ = recorder.table<CommRunningRow>().claim(std::bit_cast<CommRunningRow>(last_));
  running_ = &recorder;
  asking_ = &recorder;
}

void GroupRecord::detach() noexcept {
  const std::lock_guard asking(*asking_mutex_);
  const Held held(flag_);
  asking_ = nullptr;
  running_ = nullptr;
  group_row_.release();
  asked_row_.release();
  running_row_.release();
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

[[gnu::flatten]] void GroupRecord::asked(Task& task, const device::Stream& stream) {
  task.number = ++tasks_;
  probe::Recorder* recorder = asking_;
  if (recorder == nullptr || !recorder->is_on()) return;
  const probe::Moment now = recorder->begin();
  const std::uint64_t who = pair(task.number, number_);
  const std::uint64_t where = pair(stream.id().value(), device_string(stream).value());
  const std::uint32_t label = label_string(memory::detail::current_label).value();
  for (std::size_t i = 0; i < task.operations.size(); ++i) {
    const Operation& operation = task.operations[i];
    const auto parts = static_cast<std::uint32_t>(digest_of_parts(operation));
    recorder->write_at(now, probe::Ring::kComm,
                       of_words<OperationRecord>({static_cast<std::uint64_t>(operation.count), who, where,
                                                  pair(parts, label), what(operation, i)}));
  }
  const Operation& first = task.operations[0];
  asked_row_.put(of_words<CommAskedRow>(
      {static_cast<std::uint64_t>(first.count), now.value(), who, what(first, task.operations.size())}));
}

Launched Launched::of(const Task& task) {
  const Operation& first = task.operations[0];
  return {.count = static_cast<std::uint64_t>(first.count),
          .what = comm::detail::what(first, task.operations.size()),
          .number = task.number};
}

inline void GroupRecord::note_begin(const Launched& launched, std::uint64_t sequence) {
  const Held held(flag_);
  most_begun_ = std::max(most_begun_, launched.number);
  probe::Recorder* recorder = running_;
  if (recorder == nullptr || !recorder->is_on()) return;
  const probe::Moment now = recorder->begin();
  const std::uint64_t who = pair(launched.number, number_);
  // Set well before it is read again below, which would wait for stores that are just made.
  const bool is_latest = sequence >= last_.begun;
  if (is_latest) {
    last_ = {.begun = sequence,
             .ended = last_.ended,
             .failed = last_.failed,
             .count = launched.count,
             .when = now.value(),
             .who = who,
             .what = launched.what};
  }
  if (!TESSERA_MUTANT("comm.begin_not_recorded")) {
    recorder->write_at(now, probe::Ring::kComm, of_words<BeginRecord>({sequence, launched.count, who, launched.what}));
  }
  if (is_latest) running_row_.put(std::bit_cast<CommRunningRow>(last_));
}

inline void GroupRecord::note_end(std::uint32_t number, std::uint64_t sequence, const std::exception_ptr& error) {
  const Held held(flag_);
  probe::Recorder* recorder = running_;
  if (recorder == nullptr || !recorder->is_on()) return;
  last_.ended = std::max(last_.ended, sequence);
  const std::uint8_t failure = failure_of(error);
  if (failure != 0) last_.failed = sequence;
  recorder->write(probe::Ring::kComm, of_words<EndRecord>({sequence, pair(number, number_), failure}));
  if (!TESSERA_MUTANT("comm.end_not_in_table")) running_row_.put(std::bit_cast<CommRunningRow>(last_));
}

[[gnu::flatten]] void GroupRecord::began(const Task& task) {
  note_begin(Launched::of(task), task.sequence.load(std::memory_order_relaxed));
}
[[gnu::flatten]] void GroupRecord::ended(const Task& task) {
  note_end(task.number, task.sequence.load(std::memory_order_relaxed), task.error);
  if (task.error) [[unlikely]]
    tell(task.error);
}
void GroupRecord::began(const Launched& launched, std::uint64_t sequence) { note_begin(launched, sequence); }
void GroupRecord::ended(const Launched& launched, std::uint64_t sequence, const std::exception_ptr& error) {
  note_end(launched.number, sequence, error);
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
  progress.begun = most_begun_;
  progress.running = last_.begun;
  progress.ended = last_.ended;
  progress.what = last_.what;
  progress.count = last_.count;
  progress.last = static_cast<std::uint32_t>(last_.who);
  return progress;
}

}  // namespace tessera::comm::detail
