// The client of a TcpStoreServer. Threads share one connection, with any number of requests in flight. After the
// connection is lost, all calls throw IoError. The client does not reconnect, since the values are lost with the
// server.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tessera/base/export.h"
#include "tessera/comm/store/store.h"

namespace tessera::comm {

/// Options of a connection to a store.
struct TcpStoreOptions {
  std::string host = "127.0.0.1";                                      ///< host name or address of the server
  std::uint16_t port = 0;                                              ///< port of the server
  std::string secret = {};                                             ///< secret of the server; never sent
  std::chrono::nanoseconds connect_timeout = std::chrono::minutes(5);  ///< limit for the server to start
  /// Limit for a reply, in addition to the timeout of a wait.
  std::chrono::nanoseconds answer_timeout = std::chrono::minutes(1);
  bool allow_no_secret = false;  ///< allows an empty secret
  std::string label = {};        ///< name of this client in errors; by default its process id
};

/// A store hosted by another process, or by another thread of this process.
class TESSERA_API TcpStore final : public Store {
 public:
  /// Connects. Both sides prove that they know the secret. Throws InvalidArgument if the secret is empty, TimeoutError
  /// if no server accepted in time, MismatchError if the secrets differ, and IoError if the peer is not a store.
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
