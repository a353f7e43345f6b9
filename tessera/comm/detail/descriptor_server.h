// Passes file descriptors to other processes of this machine, over a Unix socket. A process offers descriptors by name;
// a peer that knows the address of the server requests one. The address contains a random key and is sent through the
// store, which only ranks can read. The key is never sent over the socket: request and reply carry an HMAC made with it
// over nonces of both sides, so that neither can be replayed. Both sides also check that the other process runs as the
// same user. A connection serves one request; each line is one packet:
//
//   server:  server nonce
//   peer:    "tsd3", peer nonce, HMAC(key, both nonces, name), name
//   server:  'y' with the descriptor, or 'n': no such name; then HMAC(key, both nonces, name, 'y')
//
// A peer of another user, or without the key, gets no reply. Invalid packets, and peers that hang up or send nothing,
// only end their own connection.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tessera/comm/store/descriptor.h"

namespace tessera::comm::detail {

/// Returns the user of the process at the other end of a socket; nullopt if unknown.
using PeerUser = std::function<std::optional<uid_t>(int socket)>;
/// Queries the kernel (SO_PEERCRED).
std::optional<uid_t> peer_user(int socket);

/// A server with its own thread. Thread-safe.
class DescriptorServer {
 public:
  /// Starts the server. Throws IoError if that fails. Peers must run as the user of this process, according to
  /// `user_of`.
  explicit DescriptorServer(PeerUser user_of = peer_user);
  /// Stops the server and closes the offered descriptors.
  ~DescriptorServer();
  DescriptorServer(const DescriptorServer&) = delete;
  DescriptorServer& operator=(const DescriptorServer&) = delete;

  /// Returns the address for peers: "socket key".
  [[nodiscard]] const std::string& address() const;
  /// Offers a duplicate of `fd` under this name and replaces an existing offer.
  void offer(const std::string& name, int fd);
  /// Offers a duplicate of `fd` under a new name with this prefix. Returns the name.
  std::string offer_anew(const std::string& beginning, int fd);
  /// Withdraws an offer.
  void withdraw(const std::string& name);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The reply of a peer process.
struct Fetched {
  Descriptor file;     ///< requested descriptor; empty if the name is not offered
  Descriptor process;  ///< pidfd of the process; readable after it has ended
};

/// Requests a descriptor from the server at `address`. Throws AbortedError if its process has ended, TimeoutError if it
/// does not reply in time, MismatchError if it runs as another user (by `user_of`) or does not know the key, and
/// IoError if a system call fails.
Fetched fetch_descriptor(std::string_view address, std::string_view name, std::chrono::nanoseconds timeout,
                         const PeerUser& user_of = peer_user);

}  // namespace tessera::comm::detail
