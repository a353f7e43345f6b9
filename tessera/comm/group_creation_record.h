// Records group creation (GroupCreationRow in records.h): before a group exists, none of its operations can show which
// rank waits for which. The last few creations are kept with their results. Internal to the
// library and to tests of its readers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/base/ids.h"
#include "tessera/base/probe/recorder.h"
#include "tessera/comm/records.h"

namespace tessera::comm::detail {

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
