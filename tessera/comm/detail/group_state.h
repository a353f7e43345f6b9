// What a group is on one rank.
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
  std::uint64_t digest = 0;  // of the name
  std::vector<Rank> ranks;   // by place
  int rank = 0;              // this one's place
  std::string backend;
  std::shared_ptr<Communicator> communicator;
  std::shared_ptr<detail::SymmetricRegistry> symmetric;  // one for each communicator
  std::uint64_t generation = 0;                          // how many failures came before
  bool has_fixed_order = true;
  std::atomic<std::int64_t> deadline_ns{0};
  std::atomic<std::int64_t> extended_ns{0};  // all extensions of deadlines so far
  OnHang on_hang = OnHang::kRaise;
  std::atomic<std::uint64_t> made{0};  // groups made from this one: all ranks count alike

  std::mutex launch_mutex;  // for the order of launches and last_stream; goes after the record, which uses it
  device::Stream last_stream;

  detail::GroupRecord record;

  detail::ObservedGroup observed;  // the last, so that nobody looks at what goes
};

}  // namespace tessera::comm
