// What a transport implements: one rank's side of one set of ranks. Groups check arguments, count, record and order
// operations; a communicator moves bytes. A folder of backends/ holds one, named at the foot of its file:
//
//   const BackendRegistration kShm{{.name = "shm", .preference = 20, .why_not = why_not, .connect = connect}};
//
// thread and shm share peer_memory/, since their ranks see each other's memory; mpi, nccl and cuda stand alone.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/base/ids.h"
#include "tessera/comm/operation.h"
#include "tessera/comm/store/store.h"
#include "tessera/device/stream.h"

namespace tessera::comm {

namespace detail {
class GroupRecord;
}

/// What a transport can do. What it cannot is NotSupported, with a word on what can.
struct Capabilities {
  std::uint32_t kinds = 0;         ///< a bit for each OpKind
  std::uint32_t device_kinds = 0;  ///< a bit: 1 host memory, 2 CUDA memory
  bool has_fixed_order = false;    ///< reductions by definition, bit for bit
  bool has_abort = false;          ///< pending operations can be ended
  bool has_shrink = false;         ///< those that are left can make a new group
  bool has_capture = false;        ///< operations may be captured
  bool has_checked_mode = false;   ///< TESSERA_COMM_CHECK: all of a launch is compared before any of it is done
};

/// What runs: the operations of one launch, and how it went. Shared by the launch and its Work. In a graph it runs once
/// a replay, and tells of the latest.
struct Task {
  std::shared_ptr<const std::string> group;  ///< name of the group that asked for it
  std::uint64_t group_digest = 0;            ///< of that name
  detail::GroupRecord* record = nullptr;     ///< of that group, and no longer there than it
  std::uint32_t number = 0;                  ///< launches that were asked of the group, this one counted
  std::span<const Operation> operations;     ///< at least one; kept by whoever made the task
  std::chrono::nanoseconds deadline{0};      ///< from its start
  /// Time by which the deadlines of its communicator had been extended when it was enqueued; kAtEachRun: in a graph,
  /// where only extensions during the replay count.
  std::int64_t extended_ns = 0;
  static constexpr std::int64_t kAtEachRun = -1;  ///< see extended_ns
  /// A digest of the registrations before it (symmetric.h), the same on all ranks; 0: not known, as in a capture.
  std::uint64_t registrations = 0;
  std::atomic<std::uint64_t> sequence{0};  ///< number in its communicator, from 1; 0: not begun
  std::atomic<std::int64_t> ran_ns{0};     ///< from its start on the device to its end, once it has ended
  std::atomic<std::uint32_t> is_done{0};   ///< it has ended, where the host runs it
  std::exception_ptr error;                ///< of one that ended badly, written before is_done
  /// Where a device runs it: asks how it goes, and fills in what is known; `has_ended`: the stream is past it. Called
  /// by its Work, from any thread.
  std::function<void(Task&, bool has_ended)> look;
};

/// Why operations of a group ended.
struct Failure {
  /// What can happen.
  enum class Kind : std::uint8_t {
    kDeadline,  ///< ranks did not come in time
    kDeadRank,  ///< a rank died or left
    kAborted,   ///< a rank said so
    kMismatch,  ///< ranks do different things
    kLost,      ///< a device was lost
  };
  Kind kind = Kind::kAborted;           ///< what happened
  int by = 0;                           ///< the rank that saw it
  std::uint64_t sequence = 0;           ///< operation that it was seen in
  OpKind operation = OpKind::kBarrier;  ///< likewise
  std::vector<int> missing = {};        ///< ranks that did not come, or are dead
  std::string text = {};                ///< what differs, or the reason given to abort()
};

class SymmetricBackend;

/// One rank's side of one set of ranks. Thread-safe.
class TESSERA_API Communicator {
 public:
  virtual ~Communicator() = default;
  /// What it can do.
  [[nodiscard]] virtual const Capabilities& capabilities() const = 0;
  /// Puts the task on the stream. In a capture the task becomes part of the graph and runs once a replay.
  virtual void enqueue(const std::shared_ptr<Task>& task, const device::Stream& stream) = 0;
  /// Runs the task on the calling thread and returns true, if the stream would run it there at once. Its record then
  /// says, before the task waits for other ranks, that it was asked for and began. Else changes nothing.
  virtual bool run_now(Task& task, const device::Stream& stream) {
    (void)task;
    (void)stream;
    return false;
  }
  /// Ends what is pending, on all ranks that can be reached.
  virtual void abort(std::string_view reason) noexcept = 0;
  /// Tells the peers that this rank takes no part any more. Never waits.
  virtual void leave() noexcept {}
  /// Returns the error by which operations of `group` end, or null while the communicator works. Does not wait.
  [[nodiscard]] virtual std::exception_ptr failure(std::string_view group) {
    (void)group;
    return nullptr;
  }
  /// Ranks (by place) that are known to be gone.
  [[nodiscard]] virtual std::vector<int> gone() const = 0;
  /// Gives what runs now or is enqueued this much more time.
  virtual void extend_deadline(std::chrono::nanoseconds by) = 0;
  /// Operations that have begun.
  [[nodiscard]] virtual std::uint64_t sequence() const = 0;
  /// Its side of symmetric memory (symmetric_backend.h), as long as this; null: it has none.
  [[nodiscard]] virtual SymmetricBackend* symmetric() { return nullptr; }
};

/// Who connects: the ranks of the set and how they find each other.
struct ConnectRequest {
  std::string name = {};         ///< of the communicator; the same on all its ranks and never used twice in a world
  std::vector<Rank> ranks = {};  ///< by place
  int rank = 0;                  ///< this one's place
  std::shared_ptr<Store> store = {};    ///< shared by the ranks, for this communicator alone
  std::chrono::nanoseconds timeout{0};  ///< to find each other
};

/// A transport as the registry knows it.
struct BackendInfo {
  std::string_view name;  ///< "shm"
  int preference = 0;     ///< the greatest that can is taken when none is named
  /// Why it cannot serve these ranks (other machines, not built with it, no such device); empty: it can.
  std::string (*why_not)(const ConnectRequest& request) = nullptr;
  /// Connects; called by all ranks of the set.
  std::shared_ptr<Communicator> (*connect)(const ConnectRequest& request) = nullptr;
};
/// Registers a transport for the life of the process; two of one name end it at once.
struct TESSERA_API BackendRegistration {
  /// Registers.
  explicit BackendRegistration(const BackendInfo& info);
};
/// All transports, by name.
TESSERA_API std::vector<BackendInfo> all_backends();

}  // namespace tessera::comm
