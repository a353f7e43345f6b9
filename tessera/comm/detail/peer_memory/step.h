// Runs operations over peer memory, one step each (or several, when bytes go through the stages):
//
//   announce     notice, offers and, for small ones, the input itself in the stage; then `arrived` rises
//   meet         wait for every peer to arrive; compare fingerprints
//   move         what this rank makes of the operation (collective.h), straight between the buffers of ranks
//   part         `finished` rises; wait for every peer's: buffers may be used again
//
// In checked mode all operations of a task are announced and met first, with no moves: bytes move when all ranks have
// found all of it right. Messages are compared ahead pair by pair.
//
// An operation that fails has not parted: it waits until no peer reaches for its buffers before it throws.
//
// A small operation, or one with a buffer that peers cannot reach, goes through the stages a window at a time: every
// rank copies its window there, meets the others and takes what comes to it. Nobody needs to part then.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <span>
#include <string_view>
#include <vector>

#include "tessera/comm/communicator.h"
#include "tessera/comm/detail/peer_memory/peer_memory.h"
#include "tessera/comm/detail/task_runner.h"

namespace tessera::comm::detail {

/// One rank's way through the steps of its group. Used by one thread at a time.
class Steps {
 public:
  /// Of this rank, whose tasks `tasks` runs.
  Steps(PeerMemory& memory, int rank, TaskRunner& tasks)
      : memory_(memory), group_(memory.group()), rank_(rank), tasks_(tasks) {}
  /// Runs the operations of a task that has its number; throws what ends the group.
  void run(const Task& task);

 private:
  struct Message;
  void run_operations(const Task& task);
  void end_group(const std::exception& error, const Task& task) const;
  void note_met();
  void note_peer(Message& message);
  void run_collective(const Operation& operation);
  void check_ahead(const Task& task, std::span<const Operation> messages);
  void run_messages(std::span<const Operation> operations, bool is_ahead);
  bool advance_send(Message& message, const Message*& stage_owner);
  bool advance_receive(Message& message);
  void wait_for_mail(std::span<const Message> messages, const Message& open);
  void announce(const Operation& operation, bool is_staged);
  void meet(const Operation& operation);
  void fetch_ahead(int peer) const;
  void own_ahead(std::size_t nbytes) const;
  void part(const Operation& operation);
  void move_directly(const Operation& operation);
  void fold_stages(const Operation& operation) const;
  [[nodiscard]] bool all_are_reachable() const;
  void move_by_stages(const Operation& operation, bool is_first_staged);
  void stage_window(const Operation& operation, std::uint64_t window);
  void next_window(const Operation& operation, std::uint64_t window);
  void make(const Operation& operation, const Move& move, std::span<const std::byte* const> in,
            std::span<std::byte* const> out) const;
  [[nodiscard]] Move resolve(const Operation& operation, const Move& move);
  void wait_for(const std::atomic<std::uint64_t>& word, std::uint64_t least, int peer, const Operation& operation);
  [[nodiscard]] bool has_passed(const Operation& operation, int peer) const;
  [[noreturn]] void fail(Failure failure, const Operation& operation);
  [[noreturn]] void fail_waiting(const Operation& operation, int peer);
  [[noreturn]] void fail_mismatch(const Operation& operation);
  [[nodiscard]] std::chrono::nanoseconds time_left() const;

  PeerMemory& memory_;
  const GroupMemory group_;
  const int rank_;
  TaskRunner& tasks_;
  const Task* task_ = nullptr;  // that runs
  bool has_met_ = false;        // all that take part in it have come, as its record says
  std::size_t to_come_ = 0;     // messages of it whose peer has not been seen yet
  std::string_view name_;       // of the group whose task runs
  std::uint64_t step_ = 0;
  bool is_staged_ = false;  // the inputs of this step are in the stages from the start
  std::uint64_t sequence_ = 0;
  std::uint64_t registrations_ = 0;  // of the task that runs
  std::uint64_t collectives_ = 0;   // tasks that had any, all ranks alike: who takes no part in a message is not behind
  std::uint64_t group_digest_ = 0;  // of the name
  std::chrono::nanoseconds began_{0};  // when the task began, in the time of a scheduler
  std::chrono::nanoseconds deadline_{0};
};

}  // namespace tessera::comm::detail
