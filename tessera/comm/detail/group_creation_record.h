// Records group creation: before a group exists, none of its operations can show which rank waits for which. The last
// few creations are kept with their results.
//
//   comm_making   a group creation, active or ended       table, kRows rows per rank, the oldest overwritten
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/base/ids.h"
#include "tessera/base/probe/ids_only.h"
#include "tessera/base/probe/recorder.h"

namespace tessera::comm::detail {

/// A step of a group creation that several ranks must reach.
struct GroupCreationRow {
  probe::StringId what;                      ///< "split 3 of group world", "group low"; equal on all ranks
  probe::StringId from;                      ///< parent group of a split, or empty
  probe::StringId ranks;                     ///< world ranks that must arrive: "0-3"
  std::uint32_t number;                      ///< number of the split in its parent group; 0 for other groups
  probe::Moment when;                        ///< start of the step
  std::uint32_t state;                       ///< 0: waiting, 1: done, 2 + ErrorKind: failed
  std::uint32_t thread;                      ///< operating system id
  static constexpr std::uint32_t kRows = 8;  ///< rows per rank
  TESSERA_RECORD(GroupCreationRow, "comm_making", what, from, ranks, number, when, state, thread)
};
static_assert(probe::holds_ids_only<GroupCreationRow>());

/// Records a group creation of the current rank, until done() is called. Destruction without done() records that it was
/// cancelled.
class GroupCreationRecord {
 public:
  /// Starts the record. Records nothing for a group of one rank.
  GroupCreationRecord(const std::string& what, const std::string& from, std::uint64_t number,
                      const std::vector<Rank>& ranks);
  ~GroupCreationRecord();
  GroupCreationRecord(const GroupCreationRecord&) = delete;
  GroupCreationRecord& operator=(const GroupCreationRecord&) = delete;
  /// Runs `body`, which waits for the other ranks, and records its error.
  template <class Body>
  auto during(Body&& body) {
    try {
      return body();
    } catch (...) {
      fail();
      throw;
    }
  }
  /// Records that all ranks arrived.
  void done();

 private:
  void fail() noexcept;
  void tell(std::uint32_t state);
  probe::Recorder* recorder_ = nullptr;  // null if nothing is recorded
  std::uint32_t at_ = 0;                 // row of this rank
  GroupCreationRow row_ = {};
};

}  // namespace tessera::comm::detail
