// Hosts a store behind a socket. It is the only network service between ranks, for small messages. By default it
// listens on the loopback address. Client and server prove to each other that they know the secret (detail/proof.h),
// which is never sent. Later traffic is not encrypted; others on the network can read it. Frames have length limits; an
// invalid frame ends its connection and is counted. Values are kept in memory and are lost with the server.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "tessera/base/export.h"

namespace tessera::comm {

/// Options of a server.
struct TcpStoreServerOptions {
  std::string host = "127.0.0.1";  ///< address or name to listen on; "0.0.0.0": all addresses of this machine
  std::uint16_t port = 0;          ///< port to listen on; 0: any free port
  std::string secret = {};         ///< secret that clients must know; at most 256 bytes
  bool allow_no_secret = false;    ///< allows an empty secret: every process that reaches the port can connect
  /// Bytes held for one client; by default TESSERA_STORE_CLIENT_BYTES.
  std::optional<std::uint64_t> max_client_bytes = {};
  std::optional<std::uint64_t> max_bytes = {};  ///< bytes held for all clients; by default TESSERA_STORE_BYTES
};

/// Counters of a server.
struct StoreStatistics {
  std::uint64_t connections = 0;  ///< open connections
  std::uint64_t accepted = 0;     ///< connections accepted in total
  std::uint64_t requests = 0;     ///< request frames
  std::uint64_t refused = 0;      ///< connections without a valid proof of the secret
  std::uint64_t bad_frames = 0;   ///< connections ended by an invalid frame
  std::uint64_t waits = 0;        ///< pending waits
};

/// A store server with its own thread. Thread-safe.
class TESSERA_API TcpStoreServer {
 public:
  /// Starts the server. Throws InvalidArgument if the secret is empty or the host is unknown, and IoError if it cannot
  /// listen there.
  explicit TcpStoreServer(const TcpStoreServerOptions& options);
  /// Stops the server. Later requests of clients fail.
  ~TcpStoreServer();
  TcpStoreServer(const TcpStoreServer&) = delete;
  TcpStoreServer& operator=(const TcpStoreServer&) = delete;

  /// Returns the address it listens on: "127.0.0.1".
  [[nodiscard]] std::string address() const;
  /// Returns true if it listens on a loopback address, which other machines cannot reach.
  [[nodiscard]] bool is_loopback() const;
  /// Returns the port it listens on.
  [[nodiscard]] std::uint16_t port() const;
  /// Returns the current counters.
  [[nodiscard]] StoreStatistics statistics() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera::comm
