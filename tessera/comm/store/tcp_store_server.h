// Hosts a store behind a socket: the only network service between ranks, for small messages. By default it listens on
// the loopback address. Client and server prove to each other that they know the secret (detail/proof.h), which is
// never sent. What follows is not encrypted: on a network, others can read it. Frames have length limits; an invalid
// frame ends its connection and is counted. Values are kept in memory and are lost with the server.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "tessera/base/export.h"

namespace tessera::comm {

/// How a store is hosted.
struct TcpStoreServerOptions {
  std::string host = "127.0.0.1";  ///< address or name to listen on; "0.0.0.0": every address of this machine
  std::uint16_t port = 0;          ///< 0: one that is free
  std::string secret = {};         ///< clients must know it; at most 256 bytes
  bool allow_no_secret = false;    ///< an empty secret is allowed: every process that reaches the port gets in
  std::optional<std::uint64_t> max_client_bytes = {};  ///< held for one client; unset: TESSERA_STORE_CLIENT_BYTES
  std::optional<std::uint64_t> max_bytes = {};         ///< held for all clients; unset: TESSERA_STORE_BYTES
};

/// What a server has seen.
struct StoreStatistics {
  std::uint64_t connections = 0;  ///< now
  std::uint64_t accepted = 0;     ///< connections ever
  std::uint64_t requests = 0;     ///< frames that were requests
  std::uint64_t refused = 0;      ///< connections without a valid proof of the secret
  std::uint64_t bad_frames = 0;   ///< connections ended because of one
  std::uint64_t waits = 0;        ///< waits that are pending now
};

/// A server with a thread of its own. Thread-safe.
class TESSERA_API TcpStoreServer {
 public:
  /// Starts. InvalidArgument: the secret is empty, or the host is unknown; IoError: it cannot listen there.
  explicit TcpStoreServer(const TcpStoreServerOptions& options);
  /// Stops: what clients ask for from now on is an error to them.
  ~TcpStoreServer();
  TcpStoreServer(const TcpStoreServer&) = delete;
  TcpStoreServer& operator=(const TcpStoreServer&) = delete;

  /// Returns the address it listens on: "127.0.0.1".
  [[nodiscard]] std::string address() const;
  /// Returns true if it listens on a loopback address, which other machines cannot reach.
  [[nodiscard]] bool is_loopback() const;
  /// The port it listens on.
  [[nodiscard]] std::uint16_t port() const;
  /// What it has seen so far.
  [[nodiscard]] StoreStatistics statistics() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera::comm
