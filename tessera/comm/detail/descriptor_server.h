// Hands file descriptors to other processes of this machine, over a Unix socket. A process offers descriptors by name;
// a peer that knows the server's address asks for one. The address holds a random token and travels through the store:
// who does not show it, or is another user, gets nothing.
//
//   peer:    connect; "tsd1", token, name              one packet
//   server:  'y' and the descriptor, 'n': no such name; no answer at all to who shows no token
//
// Packets that make no sense, and peers that hang up or say nothing, cost their connection and nothing else.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "tessera/comm/store/detail/descriptor.h"

namespace tessera::comm::detail {

/// A server with a thread of its own. Thread-safe.
class DescriptorServer {
 public:
  /// Starts; IoError when it cannot.
  DescriptorServer();
  /// Stops, and closes what it offered.
  ~DescriptorServer();
  DescriptorServer(const DescriptorServer&) = delete;
  DescriptorServer& operator=(const DescriptorServer&) = delete;

  /// For the peers: "socket token".
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

/// Asks the server at `address`. AbortedError: its process has ended; TimeoutError: it did not answer in time; IoError:
/// the kernel would not.
Fetched fetch_descriptor(std::string_view address, std::string_view name, std::chrono::nanoseconds timeout);

}  // namespace tessera::comm::detail
