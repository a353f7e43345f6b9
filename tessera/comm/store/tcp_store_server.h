// Hosts a store behind a socket: the only network service between ranks, for small messages. It listens on this machine
// alone unless told otherwise. Who connects must show the secret first; that keeps runs on one machine apart and
// strangers out of them, but nothing is enciphered: on a network others can listen. Frames have length limits; a frame
// that makes no sense ends its connection and is counted. Values are kept in memory and are gone with the server.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tessera/base/export.h"

namespace tessera::comm {

/// How a store is hosted.
struct TcpStoreServerOptions {
  std::string host = "127.0.0.1";  ///< address to listen on; "0.0.0.0": every one of this machine
  std::uint16_t port = 0;          ///< 0: one that is free
  std::string secret = {};         ///< what clients must show
};

/// What a server has seen.
struct StoreStatistics {
  std::uint64_t connections = 0;  ///< now
  std::uint64_t accepted = 0;     ///< connections ever
  std::uint64_t requests = 0;     ///< frames that were requests
  std::uint64_t refused = 0;      ///< connections with a wrong secret
  std::uint64_t bad_frames = 0;   ///< connections ended because of one
  std::uint64_t waits = 0;        ///< waits that are pending now
};

/// A server with a thread of its own. Thread-safe.
class TESSERA_API TcpStoreServer {
 public:
  /// Starts; IoError when it cannot listen there.
  explicit TcpStoreServer(const TcpStoreServerOptions& options);
  /// Stops: what clients ask for from now on is an error to them.
  ~TcpStoreServer();
  TcpStoreServer(const TcpStoreServer&) = delete;
  TcpStoreServer& operator=(const TcpStoreServer&) = delete;

  /// The port it listens on.
  [[nodiscard]] std::uint16_t port() const;
  /// What it has seen so far.
  [[nodiscard]] StoreStatistics statistics() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera::comm
