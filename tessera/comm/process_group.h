// A process group: a set of ranks that run collectives together.
//
//   const comm::ProcessGroup world = comm::world();
//   world.all_reduce(x, x, n, DType::kF32, {}, stream);                    // returns immediately
//   comm::Work work = world.all_gather(shard, full, n, DType::kF32, side);
//   work.wait_on(stream);                                                  // later work on `stream` waits
//   world.all_reduce(tensor);                                              // in place, on the current stream
//
// All ranks must enqueue the same operations in the same order. A group runs its operations in that order, even on
// different streams. Operations are numbered when they start, so graph replays count and mix with eager operations.
//
// If a rank dies, misses a deadline or aborts, all pending and later operations throw on every other rank. The error
// names the group, the operation, its number and the missing ranks. shrink() creates a group of the surviving ranks.
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

namespace tessera::tensor {
class Tensor;
}  // namespace tessera::tensor

namespace tessera::comm {

class Communicator;
struct GroupState;

/// Action after an operation misses its deadline and the watchdog has reported it (docs/watchdog.md).
enum class OnHang : std::uint8_t {
  kRaise,  ///< throws TimeoutError on all ranks; the group is unusable afterwards
  kAbort,  ///< same as kRaise, and aborts all other groups of this rank
  kExit,   ///< exits the process with code 124
  kWait,   ///< waits indefinitely
};

/// Options of a new group. Unset fields are inherited from the parent group.
struct GroupOptions {
  std::string name = {};     ///< shown in errors and records; by default derived, for example "world/0-3" or "split 2"
  std::string backend = {};  ///< for example "shm" (all_backends()); world(): the preferred usable one
  /// Kind of the device whose memory the group communicates, for example "cuda"; by default, any that the backend
  /// supports. If `backend` is empty too, the preferred usable backend of this kind is used, and reductions are
  /// deterministic by default only if it supports that.
  std::string device_kind = {};
  std::optional<std::chrono::nanoseconds> deadline = {};  ///< limit of an operation; world(): TESSERA_DEADLINE
  std::optional<bool> fixed_order = {};                   ///< deterministic reductions, in rank order; world(): true
  std::optional<OnHang> on_hang = {};                     ///< action at a missed deadline; world(): TESSERA_ON_HANG
};

/// Handle to a process group. Copies share the group. Thread-safe.
class TESSERA_API ProcessGroup {
 public:
  /// Constructs an empty handle. Ranks outside a new group also receive an empty handle.
  ProcessGroup() = default;
  /// Constructs a handle to `state`. Called by the functions below.
  explicit ProcessGroup(std::shared_ptr<GroupState> state) : state_(std::move(state)) {}
  /// Returns true if the handle refers to a group.
  explicit operator bool() const { return state_ != nullptr; }

  /// Returns the name of the group.
  [[nodiscard]] const std::string& name() const;
  /// Returns the group rank of the calling rank, in [0, size()).
  [[nodiscard]] int rank() const;
  /// Returns the number of ranks in the group.
  [[nodiscard]] int size() const;
  /// Returns the world ranks of the group, indexed by group rank.
  [[nodiscard]] const std::vector<Rank>& ranks() const;
  /// Returns the name of the backend.
  [[nodiscard]] std::string_view backend() const;
  /// Returns the deadline of operations.
  [[nodiscard]] std::chrono::nanoseconds deadline() const;
  /// Sets the deadline of operations enqueued after this call. Throws InvalidArgument if `deadline` is not positive.
  void set_deadline(std::chrono::nanoseconds deadline) const;
  /// Extends the deadline of each operation that is running or enqueued now, but not of later ones. In a graph, extends
  /// the running replay. Errors quote the extended deadline. Throws InvalidArgument if `by` is not positive.
  void extend_deadline(std::chrono::nanoseconds by) const;
  /// Returns the number of operations that have started.
  [[nodiscard]] std::uint64_t sequence() const;

  // Operations on buffers. All ranks must enqueue each operation, except send and recv. `in` and `out` are memory of
  // the stream's device and must stay valid until the operation has ended. See Operation::count for `count`. The calls
  // return immediately. They throw InvalidArgument, and enqueue nothing, if an argument is invalid: a negative count, a
  // null buffer, a rank outside of [0, size()), a list without one entry per rank, overlapping buffers.

  /// Writes the reduction of `in` over all ranks to `out`, which may be `in`.
  Work all_reduce(const void* in, void* out, std::int64_t count, DType dtype, const ReduceOp& reduction,
                  const device::Stream& stream) const;
  /// Writes the inputs of all ranks, `count` elements each, to `out` in rank order.
  Work all_gather(const void* in, void* out, std::int64_t count, DType dtype, const device::Stream& stream) const;
  /// Writes the inputs of all ranks to `out` in rank order; the input of rank r has counts[r] elements.
  Work all_gather(const void* in, void* out, std::span<const std::int64_t> counts, DType dtype,
                  const device::Stream& stream) const;
  /// Writes chunk rank() of the reduction, `count` elements, to `out`.
  Work reduce_scatter(const void* in, void* out, std::int64_t count, DType dtype, const ReduceOp& reduction,
                      const device::Stream& stream) const;
  /// Writes chunk rank() of the reduction to `out`; the chunk of rank r has counts[r] elements.
  Work reduce_scatter(const void* in, void* out, std::span<const std::int64_t> counts, DType dtype,
                      const ReduceOp& reduction, const device::Stream& stream) const;
  /// Writes chunk rank() of the input of each rank to `out` in rank order; each chunk has `count` elements.
  Work all_to_all(const void* in, void* out, std::int64_t count, DType dtype, const device::Stream& stream) const;
  /// Sends in_counts[p] elements to each rank p and receives out_counts[p] elements from it.
  Work all_to_all(const void* in, std::span<const std::int64_t> in_counts, void* out,
                  std::span<const std::int64_t> out_counts, DType dtype, const device::Stream& stream) const;
  /// Writes the input of group rank `root` to `out` of each rank. Only the root reads `in`, which may be `out`.
  Work broadcast(const void* in, void* out, std::int64_t count, DType dtype, int root,
                 const device::Stream& stream) const;
  /// Writes the reduction of `in` over all ranks to `out` of group rank `root`. Other ranks do not use `out`.
  Work reduce(const void* in, void* out, std::int64_t count, DType dtype, const ReduceOp& reduction, int root,
              const device::Stream& stream) const;
  /// Writes the inputs of all ranks, `count` elements each, to `out` of group rank `root`, in rank order. Other ranks
  /// do not use `out`.
  Work gather(const void* in, void* out, std::int64_t count, DType dtype, int root, const device::Stream& stream) const;
  /// Writes the inputs of all ranks to `out` of `root`, in rank order; the input of rank r has counts[r] elements.
  Work gather(const void* in, void* out, std::span<const std::int64_t> counts, DType dtype, int root,
              const device::Stream& stream) const;
  /// Writes chunk rank() of the input of group rank `root` to `out`; each chunk has `count` elements. Other ranks do
  /// not use `in`.
  Work scatter(const void* in, void* out, std::int64_t count, DType dtype, int root,
               const device::Stream& stream) const;
  /// Writes chunk rank() of the input of `root` to `out`; the chunk of rank r has counts[r] elements.
  Work scatter(const void* in, void* out, std::span<const std::int64_t> counts, DType dtype, int root,
               const device::Stream& stream) const;
  /// Ends when all ranks have arrived.
  Work barrier(const device::Stream& stream) const;
  /// Sends `count` elements to group rank `to`, which must call recv() with the same count and dtype. Throws
  /// NotSupported if the backend has no point-to-point operations; use permute with launch().
  Work send(const void* in, std::int64_t count, DType dtype, int to, const device::Stream& stream) const;
  /// Receives `count` elements from group rank `from`. Throws NotSupported like send().
  Work recv(void* out, std::int64_t count, DType dtype, int from, const device::Stream& stream) const;
  /// Enqueues any operation: those above, ragged_all_to_all, permute, or a collective of the program
  /// (docs/adding_a_collective.md).
  Work launch(const Operation& operation, const device::Stream& stream) const;
  /// Enqueues several operations as one launch with one number. Sends and receives may be in any order.
  Work launch(std::span<const Operation> operations, const device::Stream& stream) const;

  // Operations on tensors, defined in the shard layer (shard/process_group_tensors.cpp). They run on the current stream
  // of the tensors' device and write in place. They keep the memory of the tensors until the operation has ended; in a
  // capture by memory::GraphCapture, as long as the graph. The tensors must be plain and contiguous; two tensors of one
  // call must have one dtype and one device. Gradients do not flow through these calls: tensors that require gradients
  // are rejected outside of NoGrad. The functions of shard/collectives.h are differentiable. Throws InvalidArgument,
  // and changes nothing, for other tensors, and NotSupported in a ForbidCommunication scope.

  /// Replaces `x` by its reduction over all ranks.
  Work all_reduce(const tensor::Tensor& x, Reduction reduction = Reduction::kSum) const;
  /// Concatenates the tensors `x` of all ranks along dimension 0 in `out`, which has size() times the rows of `x`. A
  /// scalar has one row.
  Work all_gather(const tensor::Tensor& out, const tensor::Tensor& x) const;
  /// Writes chunk rank() along dimension 0 of the reduction of `x` to `out`; `x` has size() times the rows of `out`.
  Work reduce_scatter(const tensor::Tensor& out, const tensor::Tensor& x, Reduction reduction = Reduction::kSum) const;
  /// Writes chunk rank() along dimension 0 of the tensor `x` of each rank to `out`, in rank order. Both have the same
  /// shape, and size() divides their rows.
  Work all_to_all(const tensor::Tensor& out, const tensor::Tensor& x) const;
  /// Replaces `x` by the tensor of group rank `root`.
  Work broadcast(const tensor::Tensor& x, int root) const;
  /// Replaces `x` of group rank `root` by the reduction over all ranks. Other ranks keep theirs.
  Work reduce(const tensor::Tensor& x, int root, Reduction reduction = Reduction::kSum) const;
  /// Concatenates the tensors `x` of all ranks along dimension 0 in `out` of group rank `root`. Other ranks may pass an
  /// empty handle as `out`, which they do not use.
  Work gather(const tensor::Tensor& out, const tensor::Tensor& x, int root) const;
  /// Writes chunk rank() along dimension 0 of `x` of group rank `root` to `out`. Other ranks may pass an empty handle
  /// as `x`, which they do not use.
  Work scatter(const tensor::Tensor& out, const tensor::Tensor& x, int root) const;
  /// Sends `x` to group rank `to`, which must call recv() with a tensor of the same number of elements and dtype.
  Work send(const tensor::Tensor& x, int to) const;
  /// Replaces `x` by a tensor of the same number of elements and dtype from group rank `from`.
  Work recv(const tensor::Tensor& x, int from) const;

  /// Ends all operations of the group, on all ranks, with an AbortedError that contains the reason. Returns within 2 s.
  /// The group is unusable afterwards.
  void abort(std::string_view reason) const;
  /// Returns the error that ends all operations of the group, or null while the group works. Never waits.
  [[nodiscard]] std::exception_ptr error() const;
  /// Returns the group ranks that have ended or left, as far as this rank knows. Never waits.
  [[nodiscard]] std::vector<int> lost() const;
  /// Returns the group ranks that survive, the same list on each of them. Call it on all surviving ranks after the
  /// group has failed.
  [[nodiscard]] std::vector<int> agree(std::chrono::nanoseconds timeout) const;
  /// Creates a group of the ranks that agree() returns. Repeats the agreement if a rank dies before the new group is
  /// connected.
  [[nodiscard]] ProcessGroup shrink(std::chrono::nanoseconds timeout, const GroupOptions& options = {}) const;

  /// Creates a group of these group ranks. All ranks of this group must call it, in the same order. A group of the same
  /// ranks as this one fails separately from it.
  [[nodiscard]] ProcessGroup subgroup(std::span<const int> ranks, const GroupOptions& options = {}) const;
  /// Creates one group per colour, ordered by (key, group rank). Ranks of colour -1 join no group.
  [[nodiscard]] ProcessGroup split(int colour, int key = 0, const GroupOptions& options = {}) const;

  /// Returns the shared state.
  [[nodiscard]] const std::shared_ptr<GroupState>& state() const { return state_; }

 private:
  std::shared_ptr<GroupState> state_;
};

/// Returns the group of all ranks; before init() or simulate(), a world of one rank.
TESSERA_API ProcessGroup world();
/// Returns the group of these world ranks, in this order. Only these ranks call it. Groups of the same ranks share one
/// communicator, which is connected once.
TESSERA_API ProcessGroup group_of(std::span<const Rank> ranks, const GroupOptions& options = {});

}  // namespace tessera::comm
