// One rank's endpoint of an MPI communicator: messages, and news. News report that a rank has left or why the group has
// ended. The first rank that detects a failure stores it as the end of the group and sends it to the others, which have
// a receive for it open at all times. Ranks share no memory, so two ranks that fail at the same time may keep different
// errors.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/comm/backends/mpi/detail/library.h"
#include "tessera/comm/communicator.h"

namespace tessera::comm::mpi {

/// Tags of messages. Between two ranks, messages of one tag are ordered.
namespace tag {
inline constexpr int kNews = 1;
inline constexpr int kLetter = 2;   ///< starts a collective
inline constexpr int kData = 3;     ///< data of a collective
inline constexpr int kHeading = 4;  ///< starts a send
/// Tags of message n between two ranks, so that many can be in flight in any order.
inline constexpr int answer(std::uint64_t n) { return 16 + 2 * static_cast<int>(n % (1U << 20)); }
inline constexpr int body(std::uint64_t n) { return answer(n) + 1; }
}  // namespace tag

/// The endpoint of one rank. Thread-safe.
class Endpoint {
 public:
  /// Takes over `comm`, which lives as long as MPI, since freeing it needs all ranks.
  Endpoint(MpiLibrary& library, MPI_Comm comm, const ConnectRequest& request);

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  /// Returns the world rank of each rank of the group.
  [[nodiscard]] const std::vector<Rank>& world() const { return world_; }
  [[nodiscard]] MPI_Request no_request() const { return library_.no_request(); }
  /// Starts to send or receive at most 1 GiB.
  MPI_Request send(int to, int tag, const void* from, std::size_t nbytes);
  MPI_Request receive(int from, int tag, void* to, std::size_t nbytes);
  /// Sets `done` to the indices of requests that have ended; these become no_request().
  void test(std::vector<MPI_Request>& requests, std::vector<int>& done);
  /// Cancels a receive, which then ends with or without data.
  void cancel(MPI_Request& request);

  /// Processes pending news. Throws AbortedError if MPI is finalized, since no MPI call is allowed then.
  void look();
  /// Ends the group on this rank, unless it has ended, and informs the others.
  void end(const Failure& failure);
  /// Returns true if the group has ended.
  [[nodiscard]] bool has_ended() const { return has_ended_.load(std::memory_order_acquire); }
  /// Throws the error that ended the group.
  [[noreturn]] void throw_end(std::string_view group) const;
  /// Informs the others that this rank no longer takes part; once.
  void leave() noexcept;
  /// Returns true if a peer has left.
  [[nodiscard]] bool has_left(int peer) const {
    return has_left_[static_cast<std::size_t>(peer)].load(std::memory_order_acquire);
  }

 private:
  // A news message; small enough to be sent eagerly.
  struct News {
    std::uint8_t is_end = 0;  // 0: its sender has left
    std::uint8_t kind = 0;    // Failure::Kind
    std::int32_t by = 0;
    char text[512] = {};
  };
  void tell(const News& news);
  void take(const News& news);
  void open_news();

  MpiLibrary& library_;
  MPI_Comm comm_;
  const int rank_;
  const int size_;
  const std::vector<Rank> world_;
  std::vector<std::atomic<bool>> has_left_;
  std::atomic<bool> has_ended_{false};

  mutable std::mutex mutex_;  // protects the members below
  News incoming_ = {};
  MPI_Request receiving_;
  std::deque<News> told_ = {};  // kept while they may be in flight; at most two
  std::vector<MPI_Request> telling_ = {};
  Failure::Kind kind_ = Failure::Kind::kAborted;  // kind of the failure
  std::string text_ = {};
  bool is_left_ = false;
};

}  // namespace tessera::comm::mpi
