// Runs operations over messages, one step each:
//
//   meet    every rank sends every other a letter: what it does (a Notice), what it offers the peer, and the whole of a
//           small input; it waits for all letters and compares them
//   move    what the operation is made of (collective.h). A copy goes straight from whose it is to who gets it; a fold
//           goes by its maker, a window at a time: inputs to it, the result from it. Of a small operation all is here.
//
// Letters go in order between two ranks, so steps need no numbers. A message of send and recv is a heading (with the
// bytes, if they are few), an answer when the receiver finds that it fits, and the bytes.
//
// In checked mode all operations of a task are met first, and its messages exchanged without their bytes: bytes move
// when all ranks have found all of it right.
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

/// One rank's way through the steps of its group. Used by one thread at a time.
class Steps {
 public:
  /// Over this endpoint, of a rank whose tasks `tasks` runs; `crowded`: more ranks than cores here, so that waiting
  /// gives the core away soon; `checked`: what a launch does is compared before any of it is done, the same on all
  /// ranks.
  Steps(Endpoint& endpoint, const detail::TaskRunner& tasks, bool crowded, bool checked);
  /// Runs the operations of a task that has its number; throws what ends the group.
  void run(const Task& task);

 private:
  static constexpr std::size_t kNameBytes = 40;  // of a group's name, cut off there
  // A rank's letter; the bytes of a small input follow.
  struct Letter {
    detail::Notice notice;
    Offer offer;
    char group[kNameBytes] = {};  // its name, for the words of a mismatch
  };
  // Memory as vectors of lines, so that what lies in it is aligned.
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  // Opens a send; its bytes follow if they are few.
  struct Heading {
    std::int64_t count = 0;
    DType dtype = DType::kU8;
    std::uint64_t group = 0;     // digest of its name
    char name[kNameBytes] = {};  // the name, for words
  };
  struct Message;
  struct Fold {
    int maker = 0;
    Move move;
  };
  // What is known of a request under way.
  struct Open {
    int peer = 0;
    bool is_receive = false;
    bool is_ours = false;  // its memory is this object's: nobody else waits to have it back
    int owner = -1;        // of messages: which
  };

  void run_operations(const Task& task);
  void check_ahead(const Task& task, std::span<const Operation> messages);
  void run_collective(const Operation& operation);
  void note_met();
  void meet(const Operation& operation, bool is_small);
  void move_from_letters(const Operation& operation);
  void move_by_messages(const Operation& operation);
  [[nodiscard]] Move settle(const Operation& operation, Move move);
  void make_copies(const Operation& operation, std::span<const Move> copies);
  void make_folds(const Operation& operation, std::span<const Fold> folds);
  void fold_window(const Operation& operation, std::span<const Fold> folds, std::int64_t first, std::int64_t window);
  void run_messages(std::span<const Operation> operations, bool is_ahead);
  void advance(Message& message, int index);

  void send(int to, int tag, const std::byte* from, std::uint64_t nbytes, Open open);
  void receive(int from, int tag, std::byte* to, std::uint64_t nbytes, Open open);
  /// Waits until some of what is under way has ended, whose owners it returns.
  const std::vector<int>& wait_some(const Operation& operation);
  /// Between asking MPI and asking again.
  void pause(int round);
  /// Waits until all has.
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
  const Task* to_meet_ = nullptr;  // the task that runs, while its ranks have not met; null: not told, as of messages
  std::string_view name_;          // of the group whose task runs
  std::uint64_t sequence_ = 0;
  std::uint64_t collectives_ = 0;   // tasks that had any, all ranks alike: who takes no part in a message is not behind
  std::uint64_t group_digest_ = 0;  // of the name
  std::chrono::steady_clock::time_point until_;
  std::chrono::nanoseconds deadline_{0};

  int shy_waits_ = 0;

  std::vector<MPI_Request> requests_;  // under way, and what is known of them, entry by entry
  std::vector<Open> open_;
  std::vector<int> done_;
  std::vector<Line> letters_;   // by place
  std::vector<Letter> offers_;  // to each peer, where it differs from peer to peer
  std::vector<Line> stage_;     // inputs of the folds that this rank makes
  std::vector<Line> headings_;
  std::vector<std::uint64_t> sent_;      // messages to each peer
  std::vector<std::uint64_t> received_;  // likewise from it
};

}  // namespace tessera::comm::mpi
