// The interface that a communication backend implements. A Communicator is the endpoint of one rank in one set of
// ranks. Groups check, count, record and order operations; a communicator transfers the bytes. Each folder of backends/
// implements one backend and registers it at the end of its file:
//
//   const BackendRegistration kShm{{.name = "shm", .preference = 20, .capabilities = peer_capabilities(),
//                                   .why_not = why_not, .connect = connect}};
//
// Other code knows no backend by name: it reads the registered capabilities. The ranks of thread and shm can access
// each other's memory and share detail/peer_memory/; mpi, nccl and cuda do not.
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
#include "tessera/base/small_vector.h"
#include "tessera/comm/operation.h"
#include "tessera/comm/store/store.h"
#include "tessera/device/stream.h"

namespace tessera::comm {

namespace detail {
class GroupRecord;
}

/// Value of Capabilities::kinds for all kinds, including the collectives that programs register.
inline constexpr std::uint32_t kAllOpKinds = ~std::uint32_t{0};
/// Returns the bit of a kind in Capabilities::kinds; 0 if the kind is outside of [0, kMaxOpKinds).
constexpr std::uint32_t bit_of(OpKind kind) {
  const auto at = static_cast<unsigned>(kind);
  return at < kMaxOpKinds ? std::uint32_t{1} << at : 0;
}

/// Features of a backend. Operations that need a missing feature throw NotSupported, which names the alternatives.
struct TESSERA_API Capabilities {
  std::uint32_t kinds = 0;  ///< one bit per supported OpKind
  /// Kinds of devices with supported memory (device::DeviceProperties::kind), as string literals: "host", "cuda".
  SmallVector<std::string_view, 2> device_kinds = {};
  bool has_fixed_order = false;  ///< reductions are deterministic (reduction.h)
  bool has_abort = false;        ///< abort() ends pending operations
  bool has_shrink = false;       ///< surviving ranks can create a new group
  bool has_capture = false;      ///< operations may be captured
  bool has_symmetric = false;    ///< symmetric() returns an interface (symmetric.h)
  /// Supports TESSERA_COMM_CHECK: ranks compare a complete launch before they run any of it.
  bool has_checked_mode = false;

  /// Returns true if operations of this kind are supported.
  [[nodiscard]] bool supports(OpKind kind) const { return (kinds & bit_of(kind)) != 0; }
  /// Returns true if memory of this device is supported.
  [[nodiscard]] bool supports(const device::Device& device) const;
};

/// The operations of one launch and their outcome, shared by the launch and its Work. A captured task runs once per
/// replay and describes the latest replay.
struct Task {
  std::shared_ptr<const std::string> group;  ///< name of the group that enqueued it
  std::uint64_t group_digest = 0;            ///< digest of the group name
  detail::GroupRecord* record = nullptr;     ///< record of the group, valid while the group exists
  std::uint32_t number = 0;                  ///< number of this launch in its group, from 1
  std::span<const Operation> operations;     ///< at least one; owned by the creator of the task
  std::chrono::nanoseconds deadline{0};      ///< time limit after the start of the task
  /// Extension of the communicator's deadlines at the time of the enqueue. kAtEachRun in a graph: only extensions
  /// during the replay count.
  std::int64_t extended_ns = 0;
  static constexpr std::int64_t kAtEachRun = -1;  ///< value of extended_ns in a graph
  /// Digest of the earlier registrations (symmetric.h), equal on all ranks; 0 if unknown, as in a capture.
  std::uint64_t registrations = 0;
  std::atomic<std::uint64_t> sequence{0};  ///< number in its communicator, from 1; 0 before it starts
  std::atomic<std::int64_t> ran_ns{0};     ///< time from its start on the device to its end; set at the end
  std::atomic<std::uint32_t> is_done{0};   ///< nonzero after the end of a task that the host runs
  std::exception_ptr error;                ///< error of a failed task, written before is_done
  /// Polls a task that a device runs and updates the fields above. `has_ended` is true if the stream has passed the
  /// task. Called by its Work, from any thread.
  std::function<void(Task&, bool has_ended)> look;
};

/// The reason why the operations of a group failed.
struct Failure {
  /// Kinds of failure.
  enum class Kind : std::uint8_t {
    kDeadline,  ///< ranks did not arrive before the deadline
    kDeadRank,  ///< a rank died or left
    kAborted,   ///< a rank called abort()
    kMismatch,  ///< ranks enqueued different operations
    kLost,      ///< a device was lost
  };
  Kind kind = Kind::kAborted;           ///< kind of the failure
  int by = 0;                           ///< group rank that detected it
  std::uint64_t sequence = 0;           ///< sequence number of the operation that detected it
  OpKind operation = OpKind::kBarrier;  ///< kind of the operation that detected it
  std::vector<int> missing = {};        ///< group ranks that did not arrive, or are dead
  std::string text = {};                ///< the difference between the ranks, or the reason given to abort()
};

class SymmetricBackend;

/// The endpoint of one rank in one set of ranks. Thread-safe.
class TESSERA_API Communicator {
 public:
  virtual ~Communicator() = default;
  /// Returns the features of this communicator, which are those of its backend.
  [[nodiscard]] virtual const Capabilities& capabilities() const = 0;
  /// Enqueues the task on the stream. In a capture the task becomes part of the graph and runs once per replay.
  virtual void enqueue(const std::shared_ptr<Task>& task, const device::Stream& stream) = 0;
  /// Runs the task on the calling thread and returns true, if the stream would run it there immediately. In that case
  /// the task records its enqueue and its start before it waits for other ranks. Otherwise returns false and changes
  /// nothing.
  virtual bool run_now(Task& task, const device::Stream& stream) {
    (void)task;
    (void)stream;
    return false;
  }
  /// Ends the pending operations on all ranks that can be reached.
  virtual void abort(std::string_view reason) noexcept = 0;
  /// Informs the peers that this rank no longer takes part. Never waits.
  virtual void leave() noexcept {}
  /// Returns the error by which operations of `group` end, or null while the communicator works. Does not wait.
  [[nodiscard]] virtual std::exception_ptr failure(std::string_view group) {
    (void)group;
    return nullptr;
  }
  /// Returns the group ranks that are known to be lost.
  [[nodiscard]] virtual std::vector<int> gone() const = 0;
  /// Extends the deadlines of all running and enqueued operations.
  virtual void extend_deadline(std::chrono::nanoseconds by) = 0;
  /// Returns the number of operations that have started.
  [[nodiscard]] virtual std::uint64_t sequence() const = 0;
  /// Returns the symmetric memory interface (symmetric_backend.h), which lives as long as this object, or null if the
  /// backend has none.
  [[nodiscard]] virtual SymmetricBackend* symmetric() { return nullptr; }
};

/// Arguments of a connection: the ranks of the set and the means to find each other.
struct ConnectRequest {
  std::string name = {};                ///< name of the communicator, equal on all its ranks and unique in a world
  std::vector<Rank> ranks = {};         ///< world ranks, by group rank
  int rank = 0;                         ///< group rank of the calling rank
  std::shared_ptr<Store> store = {};    ///< shared by the ranks; used by this communicator only
  std::chrono::nanoseconds timeout{0};  ///< limit for finding the other ranks
  /// Returns why this rank must stop waiting for the others, or an empty text. Null: it waits until the timeout.
  std::function<std::string()> why_over = {};
};

/// A registered backend.
struct BackendInfo {
  std::string_view name;  ///< for example "shm"
  int preference = 0;     ///< if no backend is named, the usable one with the highest preference is used
  /// Features of the backend. Errors about a missing feature list the backends that have it.
  Capabilities capabilities = {};
  /// Returns why the backend cannot serve these ranks (several machines, not built in, device missing); empty if it
  /// can.
  std::string (*why_not)(const ConnectRequest& request) = nullptr;
  /// Connects the ranks; called by all ranks of the set.
  std::shared_ptr<Communicator> (*connect)(const ConnectRequest& request) = nullptr;
  bool is_suggested = true;  ///< errors and `tessera info` list it; false: it serves special worlds (traffic.h)
};
/// Registers a backend for the lifetime of the process. Two backends of the same name terminate the process.
struct TESSERA_API BackendRegistration {
  /// Registers the backend.
  explicit BackendRegistration(const BackendInfo& info);
};
/// Returns all backends, sorted by name.
TESSERA_API std::vector<BackendInfo> all_backends();

}  // namespace tessera::comm
