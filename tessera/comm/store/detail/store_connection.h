// The client side of a store's socket. Many threads share it, each with requests in flight. It has no thread: one of
// the threads that wait for replies reads for all, and passes that role on when its own reply has arrived. Requests are
// buffered until a thread waits, so that several requests need one write.
//
// After any socket error the connection is lost permanently, and every call reports that.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "tessera/comm/store/descriptor.h"
#include "tessera/comm/store/detail/store_frames.h"
#include "tessera/comm/store/wait_notice.h"

namespace tessera::comm::detail {

/// The reply of a store.
struct Answer {
  Status status = Status::kOk;
  std::string body = {};
};

/// An authenticated connection to a store. Thread-safe.
class StoreConnection {
 public:
  using Clock = std::chrono::steady_clock;
  /// Connects, with retries until the deadline; then both sides prove that they know the secret. Reconnects for up to
  /// 10 s if the store hangs up before that, since it closes the oldest of many unauthenticated connections. `name` is
  /// the name of the store in errors here; `label` is the name of this client in errors of the store (empty: the
  /// process id).
  StoreConnection(std::string name, const std::string& host, std::uint16_t port, const std::string& secret,
                  std::chrono::nanoseconds timeout, const std::string& label = {}, NoticeDelays delays = {});

  /// Sends a request, at the latest when a thread next waits for a reply. Returns its number, which must be received
  /// once.
  std::uint64_t send(StoreRequest request);
  /// Returns the reply to a request, or nullopt after the deadline; the reply is then discarded.
  std::optional<Answer> receive(std::uint64_t number, Clock::time_point deadline);

 private:
  struct Pending {
    std::condition_variable changed;
    bool is_waited = false;  // a sleeping thread waits for it
    bool is_done = false;
    Answer answer;
  };
  using Lock = std::unique_lock<std::mutex>;

  void greet(const std::string& secret, const std::string& label, Clock::time_point deadline);
  void forget_connection();
  Answer ask_greeting(const StoreRequest& request, Clock::time_point deadline);
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
  std::string out_;          // requests not yet passed to a writer
  bool is_writing_ = false;  // a thread is writing; it also writes what others add to out_
  bool is_reading_ = false;  // a thread is reading
  FrameReader reader_{kMaxFrameBytes};
  std::string lost_;         // why the connection is lost; empty if it is not
  bool is_hung_up_ = false;  // the other side closed it
};

}  // namespace tessera::comm::detail
