// Runs operations over messages, one step each:
//
//   meet    each rank sends every other a letter: its operation (a Notice), its offer to the peer, and a small input;
//           it waits for all letters and compares them
//   transfer    makes the transfers of the operation (collective.h). A copy goes directly from its source to its
//   target; a
//           reduction goes through its maker, a window at a time. For a small operation, the letters hold all data.
//
// Letters between two ranks are ordered, so steps need no numbers. A send consists of a heading (with the bytes, if
// they are few), an answer after the receiver has checked the size, and the bytes.
//
// In checked mode, ranks first meet for all operations of a task, and exchange its messages without their bytes. Bytes
// are transferred after all ranks have found everything equal.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <span>
#include <string_view>
#include <vector>

#include "tessera/comm/backends/mpi/detail/endpoint.h"
#include "tessera/comm/collectives/collective.h"
#include "tessera/comm/detail/peer_memory/group_memory.h"
#include "tessera/comm/detail/task_runner.h"

namespace tessera::comm::mpi {

/// The progress of one rank through the steps of its group. Used by one thread at a time.
class MpiSteps {
 public:
  /// Runs the tasks of `tasks` over this endpoint. If `crowded` (more ranks than cores), waits yield the core early. If
  /// `checked`, ranks compare a complete launch before they run any of it; must be equal on all ranks.
  MpiSteps(Endpoint& endpoint, const detail::TaskRunner& tasks, bool crowded, bool checked);
  /// Runs the operations of a task that has its number. Throws the error that ends the group.
  void run(const Task& task);

 private:
  static constexpr std::size_t kNameBytes = 40;  // maximum length of a group name, which is truncated
  // The letter of a rank; the bytes of a small input follow.
  struct Letter {
    detail::Notice notice;
    Offer offer;
    char group[kNameBytes] = {};  // name of the group, for mismatch errors
  };
  // Unit of vectors whose contents must be aligned.
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  // Starts a send; its bytes follow if they are few.
  struct Heading {
    std::int64_t count = 0;
    DType dtype = DType::kU8;
    std::uint64_t group = 0;     // digest of the group name
    char name[kNameBytes] = {};  // name of the group, for errors
  };
  struct Message;
  struct PendingFold {
    int maker = 0;
    Transfer transfer;
  };
  // The state of a request in flight.
  struct OpenRequest {
    int peer = 0;
    bool is_receive = false;
    bool is_ours = false;  // its memory belongs to this object, so that no caller waits for it
    int owner = -1;        // index of the point-to-point operation
  };

  void run_operations(const Task& task);
  void check_ahead(const Task& task, std::span<const Operation> messages);
  void run_collective(const Operation& operation);
  void note_met();
  void meet(const Operation& operation, bool is_small);
  void move_from_letters(const Operation& operation);
  void transfer_by_messages(const Operation& operation);
  [[nodiscard]] Transfer settle(const Operation& operation, Transfer transfer);
  void make_copies(const Operation& operation, std::span<const Transfer> copies);
  void make_folds(const Operation& operation, std::span<const PendingFold> folds);
  void fold_window(const Operation& operation, std::span<const PendingFold> folds, std::int64_t first,
                   std::int64_t window);
  void run_messages(std::span<const Operation> operations, bool is_ahead);
  void advance(Message& message, int index);

  void send(int to, int tag, const std::byte* from, std::uint64_t nbytes, OpenRequest open);
  void receive(int from, int tag, std::byte* to, std::uint64_t nbytes, OpenRequest open);
  /// Waits until some of the requests have ended, and returns their owners.
  const std::vector<int>& wait_some(const Operation& operation);
  /// Pauses between two polls of MPI.
  void pause(int round);
  /// Waits until all requests have ended.
  void finish(const Operation& operation);
  void let_go_of_buffers() noexcept;
  [[nodiscard]] std::chrono::nanoseconds time_left() const;
  [[noreturn]] void fail(Failure failure, const Operation& operation);
  void fail_if_over(const Operation& operation);

  [[nodiscard]] Letter& letter(int rank);
  [[nodiscard]] std::byte* bytes_of(Letter& letter) { return reinterpret_cast<std::byte*>(&letter + 1); }
  [[nodiscard]] std::byte* stage(int rank, std::int64_t nbytes);

  Endpoint& endpoint_;
  const detail::TaskRunner& tasks_;
  const int rank_;
  const int size_;
  const bool crowded_;
  const bool checked_;
  const Task* to_meet_ = nullptr;  // running task, until its ranks have met; null for tasks of messages only
  std::string_view name_;          // name of the group of the running task
  std::uint64_t sequence_ = 0;
  // Number of tasks with collectives, equal on all ranks: point-to-point tasks do not count.
  std::uint64_t collectives_ = 0;
  std::uint64_t group_digest_ = 0;  // digest of the group name
  std::chrono::steady_clock::time_point until_;
  std::chrono::nanoseconds deadline_{0};

  int shy_waits_ = 0;

  std::vector<MPI_Request> requests_;  // requests in flight; the next vector holds their states
  std::vector<OpenRequest> open_;
  std::vector<int> done_;
  std::vector<Line> letters_;   // by group rank
  std::vector<Letter> offers_;  // letter to each peer, if they differ
  std::vector<Line> stage_;     // inputs of the reductions that this rank makes
  std::vector<Line> headings_;
  std::vector<std::uint64_t> sent_;      // number of messages to each peer
  std::vector<std::uint64_t> received_;  // number of messages from each peer
};

}  // namespace tessera::comm::mpi
