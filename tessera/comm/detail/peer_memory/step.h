// Runs operations over peer memory. Each operation is one step, or several if bytes go through the stages:
//
//   announce     writes notice, offers and, for small operations, the input in the stage; then raises `arrived`
//   meet         waits for every peer to arrive; compares fingerprints
//   transfer         makes this rank's transfers (collective.h), directly between the buffers of ranks
//   part         raises `finished`; waits for that of every peer, after which buffers may be reused
//
// In checked mode, ranks first announce and compare all operations of a task; transfers start after all ranks have
// found them equal. Point-to-point operations are compared in pairs before.
//
// An operation that fails has not parted: it waits until no peer accesses its buffers before it throws.
//
// A small operation, or one with a buffer that peers cannot access, goes through the stages a window at a time: each
// rank copies its window there, meets the others and reads its data. These steps need no part.
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

/// The progress of one rank through the steps of its group. Used by one thread at a time.
class PeerSteps {
 public:
  /// Runs the tasks of `tasks` as `rank`.
  PeerSteps(PeerMemory& memory, int rank, TaskRunner& tasks)
      : memory_(memory), group_(memory.group()), rank_(rank), tasks_(tasks) {}
  /// Runs the operations of a task that has its number. Throws the error that ends the group.
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
  void transfer_directly(const Operation& operation);
  void fold_stages(const Operation& operation) const;
  [[nodiscard]] bool all_are_reachable() const;
  void transfer_by_stages(const Operation& operation, bool is_first_staged);
  void stage_window(const Operation& operation, std::uint64_t window);
  void next_window(const Operation& operation, std::uint64_t window);
  void make(const Operation& operation, const Transfer& transfer, std::span<const std::byte* const> in,
            std::span<std::byte* const> out) const;
  [[nodiscard]] Transfer resolve(const Operation& operation, const Transfer& transfer);
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
  const Task* task_ = nullptr;
  bool has_met_ = false;     // all participants have arrived, according to its record
  std::size_t to_come_ = 0;  // its point-to-point operations whose peer has not arrived yet
  std::string_view name_;    // name of the group of the running task
  std::uint64_t step_ = 0;
  bool is_staged_ = false;  // the inputs of this step are in the stages from the start
  std::uint64_t sequence_ = 0;
  std::uint64_t registrations_ = 0;  // registrations of the running task
  // Number of tasks with collectives, equal on all ranks: point-to-point tasks do not count.
  std::uint64_t collectives_ = 0;
  std::uint64_t group_digest_ = 0;     // digest of the group name
  std::chrono::nanoseconds began_{0};  // start of the task, in the time of the scheduler
  std::chrono::nanoseconds deadline_{0};
};

}  // namespace tessera::comm::detail
