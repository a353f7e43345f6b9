// Serves a page to a browser on this machine: HTTP/1.1, GET, one request per connection. By default it
// listens on loopback. The host name of a request must be an address or "localhost", which defeats DNS rebinding. Other
// users of the machine can connect too, so a request must carry a random token: in the address (url()), or in the
// cookie that the answer to that address sets. Requests are bounded in size and time, and idle connections are closed
// for new ones.
//
//   /, /report.html   the page          /data.json   its data again          /update.json?CURSOR   what is new
//
//   400 not a valid request               403 another host name, or no token          404 another path
//   405 another method than GET           431 a request of more than 8 KiB            500 the page could not be created
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "tessera/base/export.h"

namespace tessera::analysis {

/// Options of a PageServer.
struct ServeOptions {
  std::string bind = "127.0.0.1";  ///< Address to listen on.
  std::uint16_t port = 0;          ///< Port; 0: any free port.
  bool ends_on_signals = false;    ///< SIGINT, SIGTERM and SIGHUP (unless ignored) end run().
};

/// Functions that create what is served. Their exceptions become answers; InvalidArgument is a bad request.
struct PageSource {
  std::function<std::string()> page;                               ///< HTML of the page.
  std::function<std::string()> data = {};                          ///< Data of the page as JSON; empty: none.
  std::function<std::string(std::string_view query)> update = {};  ///< New data as JSON; empty: none.
};

/// Serves a page. run() works on the calling thread. stop() may be called from any thread.
class TESSERA_API PageServer {
 public:
  /// Starts to listen; run() answers requests and calls a function of `source` for each. Throws InvalidArgument if the
  /// address is invalid, and IoError if the port is not available.
  PageServer(const ServeOptions& options, PageSource source);
  /// Closes all connections.
  ~PageServer();
  PageServer(const PageServer&) = delete;
  PageServer& operator=(const PageServer&) = delete;

  /// Returns the port it listens on.
  [[nodiscard]] std::uint16_t port() const;
  /// Returns the address with its token: "http://127.0.0.1:8080/?token=5f1c...".
  [[nodiscard]] std::string url() const;
  /// Answers requests until stop() is called.
  void run();
  /// Ends run().
  void stop();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera::analysis
