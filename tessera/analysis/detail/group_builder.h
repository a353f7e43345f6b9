// Assembles the launches of one group from records and rows that arrive in any order. Some may be lost.
//
//   asked    by task: what was enqueued                       OperationRecord, CommAskedRow
//   begun    by sequence: each start, including replays       BeginRecord, CommRunningRow
//   ended    by sequence: the result                          EndRecord
//
// A task that did not start is waiting, if it was enqueued after the last started one: a group runs its launches in
// order. An earlier task was captured, or the record of its start is lost.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tessera/analysis/evidence.h"
#include "tessera/base/probe/reader.h"

namespace tessera::analysis::detail {

/// A collective that the program of a record registered.
struct ProgramCollective {
  std::string name;
  bool reduces = false;
  bool has_root = false;
};
/// The collectives of a program by kind.
using ProgramCollectives = std::map<std::uint64_t, ProgramCollective>;

class GroupBuilder {
 public:
  /// Builds this group. `collectives` must outlive the builder. `has_lost` states whether the ring has overwritten
  /// records.
  GroupBuilder(Group group, const ProgramCollectives& collectives, bool has_lost)
      : group_(std::move(group)), collectives_(&collectives), has_lost_(has_lost) {}

  /// Returns the name of the group.
  [[nodiscard]] const std::string& name() const { return group_.name; }

  /// Adds a record or a row. Returns false, and ignores it, if it is invalid.
  bool add_operation(const probe::Record& record);
  bool add_begin(const probe::Record& record);
  bool add_replay(const probe::Record& record);
  bool add_end(const probe::Record& record);
  bool add_asked_row(const probe::RowInfo& row);
  bool add_running_row(const probe::RowInfo& row);
  bool add_replay_row(const probe::RowInfo& row);
  bool add_signal(const probe::Record& record);
  bool add_signal_row(const probe::RowInfo& row);

  /// Returns the group with its last launches.
  Group finish(std::size_t last_launches);

 private:
  struct EnqueuedCall {
    std::map<unsigned, RecordedOperation> operations = {};  // by index
    std::size_t expected = 0;                               // operations; 0: unknown
    bool has_parts = false;                                 // true if the digests of uneven sizes are known
    bool is_from_ring = false;
    std::int64_t when_ns = 0;
    std::string label = {};
    std::string device = {};
    std::uint32_t stream = 0;
    std::uint32_t thread = 0;
  };
  struct Begun {
    std::uint32_t task = 0;
    std::uint64_t collective_number = 0;
    RecordedOperation first = {};
    std::size_t operations = 0;
    std::int64_t when_ns = 0;
    std::int64_t met_ns = 0;
    std::uint64_t replay = 0;
    std::uint32_t node = 0;
  };
  struct EndedCall {
    std::uint32_t task = 0;
    std::int64_t when_ns = 0;
    std::int64_t met_ns = 0;
    std::uint64_t failure = 0;
  };

  template <class Holder>
  std::optional<RecordedOperation> operation_in(const Holder& holder) const;
  template <class Holder>
  bool add_begun(const Holder& holder, std::uint64_t sequence, std::int64_t when_ns);
  template <class Holder>
  bool add_signal_wait(const Holder& holder, std::int64_t ended_ns);
  static void take_ask(CollectiveCall& launch, const EnqueuedCall& asked, std::size_t expected);
  [[nodiscard]] CollectiveCall begun_launch(std::uint64_t sequence, const Begun& begun) const;
  [[nodiscard]] std::vector<CollectiveCall> waiting_launches(std::uint32_t last_begun) const;
  void number_begun();
  // Collectives, and point-to-point operations of one direction with one peer, are counted separately.
  using Counts = std::map<std::pair<int, int>, std::uint64_t>;
  [[nodiscard]] std::optional<Counts> counts_of(const std::vector<CollectiveCall>& begun) const;
  void number_waiting(std::vector<CollectiveCall>& waiting, const std::vector<CollectiveCall>& begun,
                      std::uint32_t last_begun) const;

  Group group_;
  const ProgramCollectives* collectives_;
  bool has_lost_;
  std::map<std::uint32_t, EnqueuedCall> asked_;
  std::map<std::uint64_t, Begun> begun_;
  std::map<std::uint64_t, EndedCall> ended_;                                  // by sequence
  std::map<std::uint32_t, EndedCall> ended_unbegun_;                          // by task: canceled before they started
  std::map<std::uint64_t, std::pair<std::uint64_t, std::uint32_t>> replays_;  // by sequence: replay and node
  std::set<std::uint32_t> captured_;                                          // tasks that were replayed
  std::uint64_t last_ended_ = 0;                                              // sequence in the row
  std::uint64_t last_failed_ = 0;
  std::optional<std::uint64_t> collectives_begun_ = {};  // value in the row, if it has one
  std::optional<std::uint64_t> collectives_ended_ = {};
};

}  // namespace tessera::analysis::detail
