// One rank's side of an MPI communicator of ours: messages, and news. News tell that a rank has left or why the group
// has ended; whoever sees a failure first stores it as the end of the group on this rank and tells the others, who
// receive it at any time, since a receive for it is always open. There is no memory that all ranks share, so two ranks
// that fail at the same moment may keep different words.
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

/// What a message is; between two ranks those of one tag go in order.
namespace tag {
inline constexpr int kNews = 1;
inline constexpr int kLetter = 2;   ///< opens a collective
inline constexpr int kData = 3;     ///< of a collective
inline constexpr int kHeading = 4;  ///< opens a send
/// Of message n between two ranks, so that many can be under way in any order.
inline constexpr int answer(std::uint64_t n) { return 16 + 2 * static_cast<int>(n % (1U << 20)); }
inline constexpr int body(std::uint64_t n) { return answer(n) + 1; }
}  // namespace tag

/// See the head of this file. Thread-safe.
class Endpoint {
 public:
  /// Takes `comm`, which lives as long as MPI: freeing it would need all ranks.
  Endpoint(Library& library, MPI_Comm comm, const ConnectRequest& request);

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  /// The world rank of each rank of the group.
  [[nodiscard]] const std::vector<Rank>& world() const { return world_; }
  [[nodiscard]] MPI_Request no_request() const { return library_.no_request(); }
  /// Begins to send or to receive at most 1 GiB.
  MPI_Request send(int to, int tag, const void* from, std::size_t nbytes);
  MPI_Request receive(int from, int tag, void* to, std::size_t nbytes);
  /// Sets `done` to those of the requests that have ended meanwhile, which become no_request().
  void test(std::vector<MPI_Request>& requests, std::vector<int>& done);
  /// Asks MPI to give a receive up; it ends, one way or the other.
  void cancel(MPI_Request& request);

  /// Takes in the news there are. AbortedError where MPI is finalised, after which nothing may be asked of it.
  void look();
  /// Ends the group on this rank, unless it has ended, and tells the others.
  void end(const Failure& failure);
  /// Whether the group has ended.
  [[nodiscard]] bool has_ended() const { return has_ended_.load(std::memory_order_acquire); }
  /// Throws why it has.
  [[noreturn]] void throw_end(std::string_view group) const;
  /// Tells the others that this rank takes no part any more; once.
  void leave() noexcept;
  /// Whether a peer has said that.
  [[nodiscard]] bool has_left(int peer) const {
    return has_left_[static_cast<std::size_t>(peer)].load(std::memory_order_acquire);
  }

 private:
  // What is told; small enough to be sent at once.
  struct News {
    std::uint8_t is_end = 0;  // else: its sender has left
    std::uint8_t kind = 0;    // Failure::Kind
    std::int32_t by = 0;
    char text[512] = {};
  };
  void tell(const News& news);
  void take(const News& news);
  void open_news();

  Library& library_;
  MPI_Comm comm_;
  const int rank_;
  const int size_;
  const std::vector<Rank> world_;
  std::vector<std::atomic<bool>> has_left_;
  std::atomic<bool> has_ended_{false};

  mutable std::mutex mutex_;  // for what follows
  News incoming_ = {};
  MPI_Request receiving_;
  std::deque<News> told_ = {};  // kept while they may be under way: two at most
  std::vector<MPI_Request> telling_ = {};
  Failure::Kind kind_ = Failure::Kind::kAborted;  // of the end
  std::string text_ = {};
  bool is_left_ = false;
};

}  // namespace tessera::comm::mpi
