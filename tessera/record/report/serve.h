// A page for a browser on this machine: HTTP/1.1, GET of one page, one request a connection. It listens on loopback
// unless told otherwise. A request must name a host that is an address or "localhost": the page of an attacker, whose
// name was made to point here (DNS rebinding), is not answered. Other users of the machine can connect too, so a
// request must show a random token: in the address (url()), or in the cookie that an answer to that address sets.
// Requests are bounded in size and time, and connections that send none make room for new ones.
//
//   400 no request that we understand     403 a host of another name, or no token     404 another path
//   405 another method than GET           431 a request of more than 8 KiB    500 the page could not be made
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "tessera/base/export.h"

namespace tessera::record {

/// Where to listen.
struct ServeOptions {
  std::string bind = "127.0.0.1";  ///< address
  std::uint16_t port = 0;          ///< 0: one that is free
  bool ends_on_signals = false;    ///< whether SIGINT, SIGTERM and SIGHUP (unless it is ignored) end run()
};

/// Serves a page. run() works on the thread that calls it; stop() may be called from any.
class TESSERA_API PageServer {
 public:
  /// Listens; requests are answered once run() is called. `page` is asked for at each request. InvalidArgument: this is
  /// no address; IoError: the port cannot be had.
  PageServer(const ServeOptions& options, std::function<std::string()> page);
  /// Closes.
  ~PageServer();
  PageServer(const PageServer&) = delete;
  PageServer& operator=(const PageServer&) = delete;

  /// Where it listens.
  [[nodiscard]] std::uint16_t port() const;
  /// Returns the address with its token: "http://127.0.0.1:8080/?token=5f1c...".
  [[nodiscard]] std::string url() const;
  /// Answers until stop().
  void run();
  /// Ends run().
  void stop();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera::record
