// The client's end of a store's socket. Many threads share it, each with requests in flight. There is no thread of its
// own: of the threads that wait for replies one reads for all, and hands that over when its own has come. Requests are
// gathered until someone waits, so that who sends many and then receives them pays for one write.
//
// Once anything goes wrong with the socket the connection is lost for good, and every call says so.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "tessera/comm/store/detail/descriptor.h"
#include "tessera/comm/store/detail/store_frames.h"
#include "tessera/comm/store/detail/wait_notice.h"

namespace tessera::comm::detail {

/// What a store answered.
struct Answer {
  Status status = Status::kOk;
  std::string body = {};
};

/// A connection to a store that let us in. Thread-safe.
class StoreConnection {
 public:
  using Clock = std::chrono::steady_clock;
  /// Connects, trying again until the deadline; then both sides prove that they know the secret. Connects again for up
  /// to 10 s if the store hangs up before that: it does so to the oldest of many that have not proved the secret.
  /// `name` is the store's, for errors here; `label` is this client's, for errors of the store (empty: the process id).
  StoreConnection(std::string name, const std::string& host, std::uint16_t port, const std::string& secret,
                  std::chrono::nanoseconds timeout, const std::string& label = {}, NoticeDelays delays = {});

  /// Sends a request, at the latest when someone next waits for a reply; returns its number. Every number is received
  /// once.
  std::uint64_t send(Request request);
  /// The reply to a request; none: there was none until the deadline, and it is no longer waited for.
  std::optional<Answer> receive(std::uint64_t number, Clock::time_point deadline);

 private:
  struct Pending {
    std::condition_variable changed;
    bool is_waited = false;  // by a thread that sleeps
    bool is_done = false;
    Answer answer;
  };
  using Lock = std::unique_lock<std::mutex>;

  void greet(const std::string& secret, const std::string& label, Clock::time_point deadline);
  void forget_connection();
  Answer ask_greeting(const Request& request, Clock::time_point deadline);
  void flush(Lock& lock, Clock::time_point deadline);
  bool write_some(Lock& lock, std::string_view& bytes, Clock::time_point deadline);
  void read_once(Lock& lock, short events, Clock::time_point deadline);
  void dispatch();
  void hand_over();
  void lose(std::string why);
  [[noreturn]] void throw_lost() const;

  std::string name_;
  Descriptor socket_;
  std::mutex mutex_;
  std::uint64_t next_number_ = 1;
  std::map<std::uint64_t, std::shared_ptr<Pending>> pending_;
  std::string out_;          // requests not yet handed to a writer
  bool is_writing_ = false;  // some thread is; it takes what others add to out_
  bool is_reading_ = false;  // some thread is
  FrameReader reader_{kMostFrameBytes};
  std::string lost_;         // why the connection is lost; empty: it is not
  bool is_hung_up_ = false;  // the other side closed it
};

}  // namespace tessera::comm::detail
