// Hands file descriptors to other processes of this machine, over a Unix socket. A process offers descriptors by name;
// a peer that knows the server's address requests one. The address holds a random key and travels through the store,
// which only ranks can read. The key is never sent over the socket: request and answer carry an HMAC made with it over
// nonces of both sides, so that neither can be used again. Both sides also check that the other process runs as their
// own user. A connection is for one request; each line is one packet:
//
//   server:  server nonce
//   peer:    "tsd3", peer nonce, HMAC(key, both nonces, name), name
//   server:  'y' with the descriptor, or 'n': no such name; then HMAC(key, both nonces, name, 'y')
//
// A peer of another user, or without the key, gets no answer. Invalid packets, and peers that hang up or send nothing,
// cost their connection only.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tessera/comm/store/detail/descriptor.h"

namespace tessera::comm::detail {

/// Returns the user of the process at the other end of a socket; none: it is unknown.
using PeerUser = std::function<std::optional<uid_t>(int socket)>;
/// Asks the kernel (SO_PEERCRED).
std::optional<uid_t> peer_user(int socket);

/// A server with a thread of its own. Thread-safe.
class DescriptorServer {
 public:
  /// Starts; IoError when it cannot. Peers must run as the user of this process, by `user_of`.
  explicit DescriptorServer(PeerUser user_of = peer_user);
  /// Stops, and closes what it offered.
  ~DescriptorServer();
  DescriptorServer(const DescriptorServer&) = delete;
  DescriptorServer& operator=(const DescriptorServer&) = delete;

  /// For the peers: "socket key".
  [[nodiscard]] const std::string& address() const;
  /// Offers a duplicate of `fd` under a name, over one that is there.
  void offer(const std::string& name, int fd);
  /// Offers it under a name that begins so and was never used before; returns the name.
  std::string offer_anew(const std::string& beginning, int fd);
  /// Offers it no more.
  void withdraw(const std::string& name);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// What a peer process gives.
struct Fetched {
  Descriptor file;     ///< what was asked for; none: it offers no such name
  Descriptor process;  ///< the process itself (a pidfd): readable when it has ended
};

/// Asks the server at `address`. AbortedError: its process has ended; TimeoutError: it did not answer in time;
/// MismatchError: it runs as another user, by `user_of`, or does not know the key; IoError: the kernel would not.
Fetched fetch_descriptor(std::string_view address, std::string_view name, std::chrono::nanoseconds timeout,
                         const PeerUser& user_of = peer_user);

}  // namespace tessera::comm::detail
