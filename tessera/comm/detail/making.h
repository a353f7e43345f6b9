// What a rank's record says of groups while they are made: until a group is there no operation of it can say who waits
// for whom. The last few stay, with what came of each.
//
//   comm_making   a group that is being made, or was      table, kRows rows a rank, the oldest overwritten
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/base/ids.h"
#include "tessera/base/probe/ids_only.h"
#include "tessera/base/probe/recorder.h"

namespace tessera::comm::detail {

/// A step in the making of a group to which several ranks must come.
struct CommMakingRow {
  probe::StringId what;                      ///< "split 3 of group world", "group low"; the same on all ranks
  probe::StringId from;                      ///< group that it is made from, of a split; empty: none
  probe::StringId ranks;                     ///< that must come, in the world: "0-3"
  std::uint32_t number;                      ///< of a split among what is made from that group; 0: none
  probe::Moment when;                        ///< it began
  std::uint32_t state;                       ///< 0: it waits; 1: it is done; 2 + ErrorKind: it failed
  std::uint32_t thread;                      ///< of the operating system
  static constexpr std::uint32_t kRows = 8;  ///< of a rank
  TESSERA_RECORD(CommMakingRow, "comm_making", what, from, ranks, number, when, state, thread)
};
static_assert(probe::holds_ids_only<CommMakingRow>());

/// Says so from now on, for the current rank, until done(); without that it was called off.
class Making {
 public:
  /// Nothing is said of a group of one.
  Making(const std::string& what, const std::string& from, std::uint64_t number, const std::vector<Rank>& ranks);
  ~Making();
  Making(const Making&) = delete;
  Making& operator=(const Making&) = delete;
  /// Runs what waits for the others, and says with which error that failed.
  template <class Body>
  auto during(Body&& body) {
    try {
      return body();
    } catch (...) {
      fail();
      throw;
    }
  }
  /// All came.
  void done();

 private:
  void fail() noexcept;
  void tell(std::uint32_t state);
  probe::Recorder* recorder_ = nullptr;  // null: nothing is said
  std::uint32_t at_ = 0;                 // which of the rank's rows
  CommMakingRow row_ = {};
};

}  // namespace tessera::comm::detail
