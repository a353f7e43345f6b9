// The logic of a store server without the socket: consumes and produces the bytes of many connections. One thread calls
// it. The server (tcp_store_server.cpp) transfers bytes and provides the time; tests and the fuzzer pass bytes
// directly.
//
// A wait is registered under its first key without a value, and transfers to the next key when that value is set. A set
// therefore only visits the waits for its key.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tessera/comm/store/detail/store_frames.h"
#include "tessera/comm/store/detail/store_ledger.h"
#include "tessera/comm/store/detail/store_table.h"
#include "tessera/comm/store/tcp_store_server.h"

namespace tessera::comm::detail {

/// One connection.
struct StoreSession {
  FrameReader reader{kMaxHelloBytes};  ///< bytes received
  std::string out = {};                ///< bytes to send
  std::string client = {};             ///< label and address of the client, for errors
  std::string client_nonce = {};       ///< nonce of the client in the handshake
  std::string server_nonce = {};       ///< nonce of the server in the handshake; empty before kHello
  std::uint64_t id = 0;                ///< client number in the ledger; 0 before authentication
  bool is_in = false;                  ///< the client has proved that it knows the secret
  bool is_refused = false;             ///< close after `out` is sent
  bool is_bad = false;                 ///< close immediately
  std::set<std::uint64_t> waits = {};  ///< waits of this connection

  /// Returns the maximum bytes to read at a time. An unauthenticated session gets room for one frame of the handshake.
  [[nodiscard]] std::size_t read_bytes() const { return is_in ? 65536 : kHeadBytes + kMaxHelloBytes; }
};

/// The values and the waits for them. Not thread-safe.
class StoreCore {
 public:
  using Clock = std::chrono::steady_clock;
  /// Requests of a connection stay in its reader while it has this many bytes to send.
  static constexpr std::size_t kMaxOutBytes = std::size_t{1} << 20;
  /// Maximum number of waits per connection.
  static constexpr std::size_t kMaxWaits = 65536;

  /// Accepts clients that prove that they know this secret.
  explicit StoreCore(std::string secret, StoreLimits limits = {}) : secret_(std::move(secret)), ledger_(limits) {}

  /// Replies to the complete frames in the session's reader.
  void consume(StoreSession& session, Clock::time_point now);
  /// Removes the session.
  void drop(StoreSession& session);
  /// Ends waits whose deadline has passed.
  void expire(Clock::time_point now);
  /// Returns the earliest deadline of a wait.
  [[nodiscard]] std::optional<Clock::time_point> next_deadline() const;
  /// Returns the sessions that got bytes from other sessions since the last call.
  std::vector<StoreSession*> take_woken() { return std::exchange(woken_, {}); }

  StoreStatistics statistics = {};  ///< counters, except connections
  /// Returns the values, for tests.
  [[nodiscard]] const StoreTable& table() const { return table_; }
  /// Returns the ledger, for tests.
  [[nodiscard]] const StoreLedger& ledger() const { return ledger_; }

 private:
  struct KeyWait {
    StoreSession* session = nullptr;
    std::uint64_t number = 0;
    std::vector<std::string> keys;
    std::size_t at = 0;        // index of the key that it is registered under
    std::uint64_t nbytes = 0;  // bytes charged for it
    Clock::time_point deadline;
  };

  void greet(StoreSession& session, const StoreRequest& request);
  void challenge(StoreSession& session, const StoreRequest& request);
  void check_proof(StoreSession& session, const StoreRequest& request);
  void refuse(StoreSession& session, const StoreRequest& request, std::string_view why);
  void answer(StoreSession& session, const StoreRequest& request, Clock::time_point now);
  void answer_keys(StoreSession& session, const StoreRequest& request);
  void begin_wait(StoreSession& session, const StoreRequest& request, Clock::time_point now);
  void changed(std::string_view key);
  void end_wait(std::uint64_t id, const KeyWait& wait);
  [[nodiscard]] std::size_t first_missing(const KeyWait& wait) const;

  std::string secret_;
  StoreTable table_;
  StoreLedger ledger_;
  std::uint64_t next_wait_ = 1;
  std::unordered_map<std::uint64_t, KeyWait> waits_;
  std::map<std::string, std::set<std::uint64_t>, std::less<>> waits_by_key_;
  std::set<std::pair<Clock::time_point, std::uint64_t>> waits_by_deadline_;
  std::vector<StoreSession*> woken_;
};

}  // namespace tessera::comm::detail
