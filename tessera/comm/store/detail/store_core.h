// The store behind a socket, without the socket: bytes of many connections in, bytes out. One thread calls it. Who
// serves it (tcp_store_server.cpp) moves bytes and tells the time; tests and the fuzzer hand it bytes directly.
//
// A wait is registered under its first key that has no value and moves to the next when that one comes, so that a set
// looks only at those that wait for its key.
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
  FrameReader reader{kMostHelloBytes};  ///< bytes that came
  std::string out = {};                 ///< bytes to go
  std::string client = {};              ///< who it is, for errors: its label and its address
  std::string client_nonce = {};        ///< of its handshake
  std::string server_nonce = {};        ///< of its handshake; empty before kHello
  std::uint64_t id = 0;                 ///< in the ledger; 0: not let in
  bool is_in = false;                   ///< it has proved that it knows the secret
  bool is_refused = false;              ///< close once `out` is gone
  bool is_bad = false;                  ///< close now
  std::set<std::uint64_t> waits = {};   ///< of this connection

  /// Returns the most bytes to read at a time. A session that is not in gets room for one frame of the handshake.
  [[nodiscard]] std::size_t read_bytes() const { return is_in ? 65536 : kHeadBytes + kMostHelloBytes; }
};

/// The values, and who waits for them. Not thread-safe.
class StoreCore {
 public:
  using Clock = std::chrono::steady_clock;
  /// Requests of a connection are left in its reader while it has this many bytes to take.
  static constexpr std::size_t kMostOutBytes = std::size_t{1} << 20;
  /// Waits that one connection may have.
  static constexpr std::size_t kMostWaits = 65536;

  /// Lets in clients that prove that they know this secret.
  explicit StoreCore(std::string secret, StoreLimits limits = {}) : secret_(std::move(secret)), ledger_(limits) {}

  /// Answers the whole frames in the session's reader.
  void consume(StoreSession& session, Clock::time_point now);
  /// The session goes away.
  void drop(StoreSession& session);
  /// Ends waits whose time has come.
  void expire(Clock::time_point now);
  /// When the next wait runs out.
  [[nodiscard]] std::optional<Clock::time_point> next_deadline() const;
  /// Sessions that were given bytes by others since the last call.
  std::vector<StoreSession*> take_woken() { return std::exchange(woken_, {}); }

  StoreStatistics statistics = {};  ///< counted here but for connections
  /// The values, for tests.
  [[nodiscard]] const StoreTable& table() const { return table_; }
  /// The bytes it holds, for tests.
  [[nodiscard]] const StoreLedger& ledger() const { return ledger_; }

 private:
  struct Wait {
    StoreSession* session = nullptr;
    std::uint64_t number = 0;
    std::vector<std::string> keys;
    std::size_t at = 0;        // the key it is registered under
    std::uint64_t nbytes = 0;  // that it is charged with
    Clock::time_point deadline;
  };

  void greet(StoreSession& session, const Request& request);
  void challenge(StoreSession& session, const Request& request);
  void check_proof(StoreSession& session, const Request& request);
  void refuse(StoreSession& session, const Request& request, std::string_view why);
  void answer(StoreSession& session, const Request& request, Clock::time_point now);
  void answer_keys(StoreSession& session, const Request& request);
  void begin_wait(StoreSession& session, const Request& request, Clock::time_point now);
  void changed(std::string_view key);
  void end_wait(std::uint64_t id, const Wait& wait);
  [[nodiscard]] std::size_t first_missing(const Wait& wait) const;

  std::string secret_;
  StoreTable table_;
  StoreLedger ledger_;
  std::uint64_t next_wait_ = 1;
  std::unordered_map<std::uint64_t, Wait> waits_;
  std::map<std::string, std::set<std::uint64_t>, std::less<>> waits_by_key_;
  std::set<std::pair<Clock::time_point, std::uint64_t>> waits_by_deadline_;
  std::vector<StoreSession*> woken_;
};

}  // namespace tessera::comm::detail
