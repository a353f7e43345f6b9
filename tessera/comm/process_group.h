// A group of ranks that work together. All its ranks ask for the same operations in the same order; each operation goes
// to a stream, like a launch, and runs when the work before it is done.
//
//   const comm::ProcessGroup world = comm::world();
//   world.all_reduce(x, x, n, DType::kF32, {}, stream);
//   comm::Work work = world.all_gather(part, whole, n, DType::kF32, side);
//   work.wait_on(stream);
//
// Numbers of operations are counted where they run, so that replays of a captured graph count too and ranks that
// capture mix with ranks that do not. Operations of one group on several streams run in the order they were asked for.
//
// When a rank dies, is too late or aborts, every pending operation of the group ends with an error on every other rank
// that names group, number, operation and the missing ranks, and so does every later one. Then agree() and shrink()
// make a new group of those that are left.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/base/ids.h"
#include "tessera/comm/operation.h"
#include "tessera/comm/work.h"
#include "tessera/device/stream.h"

namespace tessera::comm {

class Communicator;
struct GroupState;

/// What happens when an operation of a group has not ended by its deadline, after that was told (docs/watchdog.md).
enum class OnHang : std::uint8_t {
  kRaise,  ///< it throws TimeoutError on all ranks, and the group is of no more use
  kAbort,  ///< likewise, and all other groups of the rank are aborted with it
  kExit,   ///< the process exits, with 124
  kWait,   ///< it goes on waiting, for ever
};

/// How a group is made. What is not given is as in the group it is made from.
struct GroupOptions {
  std::string name = {};     ///< shown everywhere; not given: "world/0-3", "split 2", ...
  std::string backend = {};  ///< "thread", "shm", ...; not given: the best one
  std::optional<std::chrono::nanoseconds> deadline =
      {};                                ///< of each operation, from its start; unset: TESSERA_DEADLINE
  std::optional<bool> fixed_order = {};  ///< reductions bit for bit by definition; at first true
  std::optional<OnHang> on_hang = {};    ///< at a deadline; at first as TESSERA_ON_HANG says
};

/// A group of ranks. A shared handle; thread-safe.
class TESSERA_API ProcessGroup {
 public:
  /// No group: also what a rank gets that is not in a new group.
  ProcessGroup() = default;
  /// Made by the functions below.
  explicit ProcessGroup(std::shared_ptr<GroupState> state) : state_(std::move(state)) {}
  /// Whether there is one.
  explicit operator bool() const { return state_ != nullptr; }

  /// Its name.
  [[nodiscard]] const std::string& name() const;
  /// This rank's place in it.
  [[nodiscard]] int rank() const;
  /// How many there are.
  [[nodiscard]] int size() const;
  /// Its ranks in the world, by place.
  [[nodiscard]] const std::vector<Rank>& ranks() const;
  /// The backend it runs on.
  [[nodiscard]] std::string_view backend() const;
  /// The deadline of operations.
  [[nodiscard]] std::chrono::nanoseconds deadline() const;
  /// Sets the deadline of operations that start from now on.
  void set_deadline(std::chrono::nanoseconds deadline) const;
  /// Gives each operation that runs or is enqueued now this much more time, and none that is enqueued later. Graphs:
  /// the replay that runs. Errors quote the extended deadline. Throws InvalidArgument unless `by` is positive.
  void extend_deadline(std::chrono::nanoseconds by) const;
  /// Operations that have begun to run.
  [[nodiscard]] std::uint64_t sequence() const;

  // Each operation below is asked for on every rank; `in` and `out` are device memory of the stream's device, `count`
  // as Operation::count says.

  /// out = reduction over ranks of in; may be the same memory.
  Work all_reduce(const void* in, void* out, std::int64_t count, DType dtype, const Reduction& reduction,
                  const device::Stream& stream) const;
  /// out = the inputs of all ranks, `count` elements each, one after the other.
  Work all_gather(const void* in, void* out, std::int64_t count, DType dtype, const device::Stream& stream) const;
  /// Likewise, counts[r] elements of rank r.
  Work all_gather(const void* in, void* out, std::span<const std::int64_t> counts, DType dtype,
                  const device::Stream& stream) const;
  /// out = part `rank` of the reduction, `count` elements.
  Work reduce_scatter(const void* in, void* out, std::int64_t count, DType dtype, const Reduction& reduction,
                      const device::Stream& stream) const;
  /// Likewise, counts[r] elements for rank r.
  Work reduce_scatter(const void* in, void* out, std::span<const std::int64_t> counts, DType dtype,
                      const Reduction& reduction, const device::Stream& stream) const;
  /// out part p = part `rank` of rank p's input, `count` elements each.
  Work all_to_all(const void* in, void* out, std::int64_t count, DType dtype, const device::Stream& stream) const;
  /// Likewise, in_counts[p] elements to rank p and out_counts[p] from it.
  Work all_to_all(const void* in, std::span<const std::int64_t> in_counts, void* out,
                  std::span<const std::int64_t> out_counts, DType dtype, const device::Stream& stream) const;
  /// Any other operation, written out: ragged_all_to_all, broadcast, reduce, scatter, gather, barrier, permute, ...
  Work launch(const Operation& operation, const device::Stream& stream) const;
  /// Many operations in one launch and under one number; sends and receives may stand in any order.
  Work launch(std::span<const Operation> operations, const device::Stream& stream) const;

  /// Ends every operation of the group, on all ranks, with an AbortedError that gives the reason. Returns within a
  /// bound of 2 s; the group can do nothing any more.
  void abort(std::string_view reason) const;
  /// Returns the error by which every operation of the group ends, or null while the group works. Never waits.
  [[nodiscard]] std::exception_ptr error() const;
  /// The ranks of this group (by place) that are still there, the same list on each of them. For when the group failed;
  /// only those that are left call it.
  [[nodiscard]] std::vector<int> agree(std::chrono::nanoseconds timeout) const;
  /// A new group of those that agree() finds. Agrees again if a rank dies before the new group is connected.
  [[nodiscard]] ProcessGroup shrink(std::chrono::nanoseconds timeout, const GroupOptions& options = {}) const;

  /// A group of these ranks (by place in this group), asked for by every rank of this group, in the same order. A group
  /// of the same ranks as this one fails separately from it.
  [[nodiscard]] ProcessGroup subgroup(std::span<const int> ranks, const GroupOptions& options = {}) const;
  /// Groups of the ranks with the same colour, in the order of (key, place); colour -1: in none.
  [[nodiscard]] ProcessGroup split(int colour, int key = 0, const GroupOptions& options = {}) const;

  /// The shared state.
  [[nodiscard]] const std::shared_ptr<GroupState>& state() const { return state_; }

 private:
  std::shared_ptr<GroupState> state_;
};

/// The group of all ranks; a world of one before init() or simulate().
TESSERA_API ProcessGroup world();
/// The group of these ranks of the world, by place, asked for by them alone. Groups of the same ranks share their
/// communicator, so that it is connected once.
TESSERA_API ProcessGroup group_of(std::span<const Rank> ranks, const GroupOptions& options = {});

}  // namespace tessera::comm
