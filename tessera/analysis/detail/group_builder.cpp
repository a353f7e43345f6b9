#include "tessera/analysis/detail/group_builder.h"

#include <algorithm>
#include <limits>

#include "tessera/analysis/detail/field_values.h"
#include "tessera/base/error.h"
#include "tessera/comm/collectives/collective.h"

namespace tessera::analysis::detail {
namespace {

using comm::OpKind;

// Returns the collective of this kind; nothing for one of a later version, or of a program that did not record it. The
// kinds of programs mean other collectives in the process that reads.
std::optional<ProgramCollective> collective_of(std::uint64_t number, const ProgramCollectives& of_program) {
  if (const auto found = of_program.find(number); found != of_program.end()) return found->second;
  if (number >= static_cast<std::uint64_t>(comm::kFirstCustomOpKind)) return std::nullopt;
  const auto kind = static_cast<OpKind>(number);
  if (!comm::is_message(kind) && comm::find_definition(kind) == nullptr) return std::nullopt;
  return ProgramCollective{std::string(comm::to_string(kind)), comm::reduces(kind), comm::has_root(kind)};
}

std::string failure_text(std::uint64_t failure) {
  if (failure == 0) return {};
  const std::uint64_t kind = failure - 1;
  return kind <= static_cast<std::uint64_t>(ErrorKind::kIo) ? std::string(to_string(static_cast<ErrorKind>(kind)))
                                                            : "exception";
}

using Class = std::pair<int, int>;
constexpr Class kCollectives = {-1, 0};
Class class_of(const RecordedOperation& operation) {
  return operation.peer < 0 ? kCollectives : Class{operation.peer, operation.kind == "send" ? 0 : 1};
}
// Counts a launch and returns its number: a collective counts once, a point-to-point operation each.
std::uint64_t count_launch(std::map<Class, std::uint64_t>& counts, const std::vector<RecordedOperation>& operations) {
  const Class own = class_of(operations.front());
  const std::uint64_t number = counts[own] + 1;
  if (own == kCollectives) ++counts[own];
  for (const RecordedOperation& operation : operations) {
    if (operation.peer >= 0) ++counts[class_of(operation)];
  }
  return number;
}

}  // namespace

template <class Holder>
std::optional<RecordedOperation> GroupBuilder::operation_in(const Holder& holder) const {
  const std::uint64_t number = number_in(holder, "kind");
  RecordedOperation operation;
  operation.count = integer_in(holder, "count");
  operation.parts = word_in(holder, "parts");
  const std::uint64_t dtype = number_in(holder, "dtype");
  const auto root = static_cast<int>(integer_in(holder, "root"));
  const auto size = static_cast<int>(group_.ranks.size());
  if (operation.count < 0 || dtype >= kAllDTypes.size()) return std::nullopt;
  const auto kind = static_cast<OpKind>(number);
  const std::optional<ProgramCollective> collective = collective_of(number, *collectives_);
  operation.kind = collective ? collective->name : "operation " + std::to_string(number);
  if (!collective) return operation;
  if (kind != OpKind::kBarrier) operation.dtype = to_string(static_cast<DType>(dtype));
  const std::uint64_t reduction = number_in(holder, "reduction");
  if (collective->reduces) {
    if (reduction > static_cast<std::uint64_t>(Reduction::kPremultiply)) return std::nullopt;
    operation.reduction = to_string(static_cast<Reduction>(reduction));
  }
  if (!collective->has_root && !comm::is_message(kind)) return operation;
  if (root < 0 || root >= size) return std::nullopt;
  (comm::is_message(kind) ? operation.peer : operation.root) = root;
  return operation;
}

bool GroupBuilder::add_operation(const probe::Record& record) {
  const std::uint32_t task = word_in(record, "task");
  const auto operation = operation_in(record);
  if (task == 0 || !operation) return false;
  EnqueuedCall& asked = asked_[task];
  auto place = static_cast<unsigned>(number_in(record, "place"));
  while (place >= 255 && asked.operations.contains(place)) ++place;
  asked.operations.insert_or_assign(place, *operation);
  asked.has_parts = true;
  asked.is_from_ring = true;
  asked.when_ns = record.wall_ns;
  asked.label = text_in(record, "label");
  asked.device = text_in(record, "device");
  asked.stream = word_in(record, "stream");
  asked.thread = record.thread.tid;
  return true;
}

bool GroupBuilder::add_asked_row(const probe::RowInfo& row) {
  const std::uint32_t task = word_in(row, "task");
  if (task == 0 || integer_in(row, "when") == 0) return true;  // nothing was enqueued yet
  const auto operation = operation_in(row);
  if (!operation) return false;
  group_.asked = std::max<std::uint64_t>(group_.asked, task);
  EnqueuedCall& asked = asked_[task];
  asked.expected = static_cast<std::size_t>(number_in(row, "operations"));
  if (asked.is_from_ring) return true;
  auto place = static_cast<unsigned>(number_in(row, "place"));
  while (place >= 255 && asked.operations.contains(place)) ++place;
  asked.operations.insert_or_assign(place, *operation);
  asked.has_parts = row.find("parts") != nullptr;
  asked.when_ns = integer_in(row, "when");
  asked.label = text_in(row, "label");
  asked.device = text_in(row, "device");
  asked.stream = word_in(row, "stream");
  asked.thread = word_in(row, "thread");
  return true;
}

template <class Holder>
bool GroupBuilder::add_begun(const Holder& holder, std::uint64_t sequence, std::int64_t when_ns) {
  const auto first = operation_in(holder);
  const std::uint32_t task = word_in(holder, "task");
  if (!first || sequence == 0 || task == 0) return false;
  Begun& begun = begun_[sequence];
  begun.task = task;
  begun.first = *first;
  begun.collective_number = number_in(holder, "collective_number");
  begun.operations = static_cast<std::size_t>(number_in(holder, "operations"));
  begun.when_ns = when_ns;
  begun.met_ns = std::max(begun.met_ns, integer_in(holder, "met"));
  begun.replay = std::max(begun.replay, number_in(holder, "replay"));
  if (begun.replay != 0) begun.node = word_in(holder, "node");
  return true;
}

template <class Holder>
bool GroupBuilder::add_signal_wait(const Holder& holder, std::int64_t ended_ns) {
  const auto peer = static_cast<int>(integer_in(holder, "peer"));
  const std::int64_t channel = integer_in(holder, "channel");
  const std::uint64_t failure = number_in(holder, "failure");
  if (peer < 0 || peer >= static_cast<int>(group_.ranks.size()) || channel < 0) return false;
  CollectiveCall wait{
      .sequence = 0,
      .collective_number = number_in(holder, "number"),
      .operations = {{.kind = text_in(holder, "what"), .peer = peer, .channel = static_cast<int>(channel)}},
      .stage = failure == 0 ? Stage::kBegun : Stage::kFailed,
      .asked_ns = integer_in(holder, "when"),
      .begun_ns = integer_in(holder, "when"),
      .ended_ns = failure == 0 ? 0 : ended_ns,
      .failure = failure_text(failure),
      .label = text_in(holder, "pool")};
  group_.signals.push_back(std::move(wait));
  return true;
}

bool GroupBuilder::add_signal(const probe::Record& record) { return add_signal_wait(record, record.wall_ns); }
bool GroupBuilder::add_signal_row(const probe::RowInfo& row) { return add_signal_wait(row, 0); }

bool GroupBuilder::add_begin(const probe::Record& record) {
  return add_begun(record, number_in(record, "sequence"), record.wall_ns);
}

bool GroupBuilder::add_running_row(const probe::RowInfo& row) {
  last_ended_ = number_in(row, "ended");
  last_failed_ = number_in(row, "failed");
  group_.begun = number_in(row, "begun");
  group_.ended = last_ended_;
  collectives_begun_ = find_number(row, "collectives_begun");
  collectives_ended_ = find_number(row, "collectives_ended");
  return group_.begun == 0 || add_begun(row, group_.begun, integer_in(row, "when"));
}

bool GroupBuilder::add_replay(const probe::Record& record) {
  replays_[number_in(record, "sequence")] = {number_in(record, "replay"), word_in(record, "node")};
  captured_.insert(word_in(record, "task"));
  return true;
}
bool GroupBuilder::add_replay_row(const probe::RowInfo& row) {
  if (number_in(row, "sequence") == 0) return true;  // nothing was replayed yet
  replays_[number_in(row, "sequence")] = {number_in(row, "replay"), word_in(row, "node")};
  captured_.insert(word_in(row, "task"));
  return true;
}

bool GroupBuilder::add_end(const probe::Record& record) {
  const std::uint64_t sequence = number_in(record, "sequence");
  const EndedCall ended{.task = word_in(record, "task"),
                        .when_ns = record.wall_ns,
                        .met_ns = integer_in(record, "met"),
                        .failure = number_in(record, "failure")};
  if (ended.task == 0) return false;
  if (sequence == 0) {
    ended_unbegun_[ended.task] = ended;
  } else {
    ended_[sequence] = ended;
  }
  return true;
}

void GroupBuilder::take_ask(CollectiveCall& launch, const EnqueuedCall& asked, std::size_t expected) {
  launch.label = asked.label;
  launch.device = asked.device;
  launch.stream = asked.stream;
  launch.thread = asked.thread;
  if (expected == 0) expected = asked.expected;
  const bool has_all = asked.operations.size() >= std::max<std::size_t>(expected, 1);
  launch.is_whole = has_all && asked.has_parts;
  if (!has_all && !launch.operations.empty()) return;  // its start record already describes its first operation
  launch.operations.clear();
  for (const auto& [place, operation] : asked.operations) launch.operations.push_back(operation);
  std::stable_partition(launch.operations.begin(), launch.operations.end(),
                        [](const RecordedOperation& operation) { return operation.peer < 0; });
}

CollectiveCall GroupBuilder::begun_launch(std::uint64_t sequence, const Begun& begun) const {
  CollectiveCall launch{.task = begun.task,
                        .sequence = sequence,
                        .collective_number = begun.collective_number,
                        .operations = {begun.first},
                        .stage = Stage::kBegun,
                        .begun_ns = begun.when_ns,
                        .met_ns = begun.met_ns,
                        .replay = begun.replay,
                        .node = begun.node,
                        .is_whole = false};
  if (const auto replay = replays_.find(sequence); replay != replays_.end()) {
    launch.replay = replay->second.first;
    launch.node = replay->second.second;
  }
  if (const auto asked = asked_.find(begun.task); asked != asked_.end()) {
    take_ask(launch, asked->second, begun.operations);
    if (launch.replay == 0) launch.asked_ns = asked->second.when_ns;
  }
  const auto ended = ended_.find(sequence);
  if (ended != ended_.end()) {
    launch.ended_ns = ended->second.when_ns;
    launch.met_ns = std::max(launch.met_ns, ended->second.met_ns);
    launch.failure = failure_text(ended->second.failure);
    launch.stage = ended->second.failure == 0 ? Stage::kDone : Stage::kFailed;
  } else if (sequence <= last_ended_) {  // its end record is lost
    launch.stage = sequence == last_failed_ ? Stage::kFailed : Stage::kDone;
    if (launch.stage == Stage::kFailed) launch.failure = failure_text(std::numeric_limits<std::uint8_t>::max());
  } else if (launch.met_ns != 0) {
    launch.stage = Stage::kMet;
  }
  return launch;
}

// Returns the launches that were enqueued and did not start.
std::vector<CollectiveCall> GroupBuilder::waiting_launches(std::uint32_t last_begun) const {
  std::vector<CollectiveCall> launches;
  // After eager launches a graph may have been replayed, whose tasks are older.
  const bool is_replayed = !begun_.empty() && captured_.contains(begun_.rbegin()->second.task);
  const std::int64_t replayed_ns = is_replayed ? begun_.rbegin()->second.when_ns : 0;
  for (const auto& [task, asked] : asked_) {
    const auto ended = ended_unbegun_.find(task);
    const bool was_called_off = ended != ended_unbegun_.end();
    const bool has_begun = task <= last_begun || asked.when_ns < replayed_ns;
    if (asked.operations.empty() || (has_begun && !was_called_off)) continue;
    CollectiveCall launch{.task = task, .asked_ns = asked.when_ns};
    take_ask(launch, asked, 0);
    if (was_called_off) {
      launch.stage = Stage::kFailed;
      launch.ended_ns = ended->second.when_ns;
      launch.failure = failure_text(ended->second.failure);
    }
    launches.push_back(std::move(launch));
  }
  return launches;
}

// For files without launch numbers: counts if all started launches are known.
void GroupBuilder::number_begun() {
  const bool is_numbered =
      std::any_of(begun_.begin(), begun_.end(), [](const auto& each) { return each.second.collective_number != 0; });
  if (is_numbered) return;
  std::map<Class, std::uint64_t> counts;
  std::uint64_t expected = 1;
  for (auto& [sequence, begun] : begun_) {
    if (has_lost_ && sequence != expected) return;
    expected = sequence + 1;
    CollectiveCall launch{.operations = {begun.first}};
    if (const auto asked = asked_.find(begun.task); asked != asked_.end())
      take_ask(launch, asked->second, begun.operations);
    begun.collective_number = count_launch(counts, launch.operations);
  }
}

// Returns the number of started launches of each class; a class is missing if overwritten records make it unknown.
std::optional<std::map<Class, std::uint64_t>> GroupBuilder::counts_of(const std::vector<CollectiveCall>& begun) const {
  std::map<Class, std::uint64_t> counts;
  if (collectives_begun_) counts[kCollectives] = *collectives_begun_;
  for (const CollectiveCall& launch : begun) {
    if (launch.collective_number == 0 || launch.replay != 0) return std::nullopt;
    const Class front = class_of(launch.operations.front());
    std::map<Class, std::uint64_t> own;
    (void)count_launch(own, launch.operations);
    for (const auto& [which, count] : own) {
      if (which == front) {
        counts[which] = std::max(counts[which], launch.collective_number + count - 1);
      } else if (!has_lost_ || counts.contains(which)) {
        counts[which] += count;
      }
    }
  }
  return counts;
}

// Sets the future numbers of waiting launches: only if the group replays nothing that may come between, and as far as
// all waiting ones are known.
void GroupBuilder::number_waiting(std::vector<CollectiveCall>& waiting, const std::vector<CollectiveCall>& begun,
                                  std::uint32_t last_begun) const {
  auto counts = captured_.empty() ? counts_of(begun) : std::nullopt;
  if (!counts) return;
  std::uint32_t expected = last_begun + 1;
  for (CollectiveCall& launch : waiting) {
    if (launch.stage != Stage::kAsked || launch.task != expected++) return;
    const bool is_known = !has_lost_ || counts->contains(class_of(launch.operations.front()));
    const std::uint64_t number = count_launch(*counts, launch.operations);
    if (is_known) launch.collective_number = number;
  }
}

Group GroupBuilder::finish(std::size_t last_launches) {
  number_begun();
  std::uint32_t last_begun = 0;
  std::vector<CollectiveCall> launches;
  launches.reserve(begun_.size());
  bool has_messages = false;
  for (const auto& [sequence, begun] : begun_) {
    last_begun = std::max(last_begun, begun.task);
    launches.push_back(begun_launch(sequence, begun));
    has_messages |= launches.back().is_message();
  }
  std::vector<CollectiveCall> waiting = waiting_launches(last_begun);
  number_waiting(waiting, launches, last_begun);
  launches.insert(launches.end(), std::make_move_iterator(waiting.begin()), std::make_move_iterator(waiting.end()));
  if (!asked_.empty()) group_.asked = std::max<std::uint64_t>(group_.asked, asked_.rbegin()->first);
  if (!begun_.empty()) group_.begun = std::max(group_.begun, begun_.rbegin()->first);
  if (!ended_.empty()) group_.ended = std::max(group_.ended, ended_.rbegin()->first);
  if (!has_messages && collectives_begun_ && collectives_ended_) {  // other groups may share the sequence
    group_.begun = *collectives_begun_;
    group_.ended = *collectives_ended_;
  }
  if (launches.size() > last_launches)
    launches.erase(launches.begin(), launches.end() - static_cast<std::ptrdiff_t>(last_launches));
  group_.launches = std::move(launches);
  return std::move(group_);
}

}  // namespace tessera::analysis::detail
