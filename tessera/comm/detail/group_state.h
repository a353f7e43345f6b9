// The state of a group on one rank.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tessera/base/fork.h"
#include "tessera/comm/communicator.h"
#include "tessera/comm/detail/group_hooks.h"
#include "tessera/comm/detail/group_record.h"
#include "tessera/comm/process_group.h"

namespace tessera::comm {

namespace detail {
struct SymmetricRegistry;
}

struct GroupState {
  const OwnerProcess owner;
  std::string name;
  std::uint64_t digest = 0;  // digest of the name
  std::vector<Rank> ranks;   // by group rank
  int rank = 0;              // group rank of this rank
  std::string backend;
  std::shared_ptr<Communicator> communicator;
  std::shared_ptr<detail::SymmetricRegistry> symmetric;  // one per communicator
  std::uint64_t generation = 0;                          // number of failures before this group
  bool has_fixed_order = true;
  std::atomic<std::int64_t> deadline_ns{0};
  std::atomic<std::int64_t> extended_ns{0};  // sum of all extensions of deadlines
  OnHang on_hang = OnHang::kRaise;
  std::atomic<std::uint64_t> made{0};  // number of groups created from this one; equal on all ranks
  // Number of calls of agree(). Separate: after a failure, some ranks have begun to create groups that others have not.
  std::atomic<std::uint64_t> agreements{0};

  std::mutex launch_mutex;  // orders launches and protects last_stream; destroyed after the record, which uses it
  device::Stream last_stream;

  detail::GroupRecord record;

  detail::GroupObservation observed;  // last member, so that no observer sees a group during its destruction
};

}  // namespace tessera::comm
