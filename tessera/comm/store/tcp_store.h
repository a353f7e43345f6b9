// A store behind a socket, seen from a rank: the client of TcpStoreServer. Threads share its one connection, with any
// number of requests in flight. When the connection is lost every call is an IoError; it is not made anew, since the
// values are gone with who hosted them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tessera/base/export.h"
#include "tessera/comm/store/store.h"

namespace tessera::comm {

/// Where a store is and how long to wait for it.
struct TcpStoreOptions {
  std::string host = "127.0.0.1";                                      ///< name or address
  std::uint16_t port = 0;                                              ///< of the server
  std::string secret = {};                                             ///< the server's; never sent
  std::chrono::nanoseconds connect_timeout = std::chrono::minutes(5);  ///< for the server to come up
  std::chrono::nanoseconds answer_timeout = std::chrono::minutes(1);   ///< for an answer, beyond the time of a wait
  bool allow_no_secret = false;                                        ///< an empty secret is allowed
  std::string label = {};  ///< this client, for errors; empty: its process id
};

/// A store hosted by another process, or by another thread of this one.
class TESSERA_API TcpStore final : public Store {
 public:
  /// Connects; both sides prove that they know the secret. InvalidArgument: the secret is empty; TimeoutError: no
  /// server accepted in time; MismatchError: one side does not know the secret of the other; IoError: it is no store.
  explicit TcpStore(const TcpStoreOptions& options);
  ~TcpStore() override;
  TcpStore(const TcpStore&) = delete;
  TcpStore& operator=(const TcpStore&) = delete;

  void set(std::string_view key, std::string_view value) override;
  std::optional<std::string> find(std::string_view key) override;
  std::int64_t add(std::string_view key, std::int64_t by) override;
  std::optional<std::string> compare_set(std::string_view key, std::optional<std::string_view> expected,
                                         std::string_view desired) override;
  void wait(std::span<const std::string> keys, std::chrono::nanoseconds timeout) override;
  bool remove(std::string_view key) override;
  std::vector<std::string> keys(std::string_view prefix) override;
  [[nodiscard]] std::string text() const override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera::comm
