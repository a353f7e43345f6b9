#include "tessera/analysis/report/serve.h"

#include <asio/buffer.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/post.hpp>
#include <asio/read_until.hpp>
#include <asio/signal_set.hpp>
#include <asio/steady_timer.hpp>
#include <asio/write.hpp>

#include <chrono>
#include <csignal>
#include <deque>
#include <optional>

#include "tessera/analysis/report/detail/http_answer.h"
#include "tessera/base/error.h"

namespace tessera::analysis {
namespace {

using asio::ip::tcp;

constexpr std::size_t kMaxRequest = 8 << 10;
constexpr std::size_t kMaxConnections = 128;
constexpr std::size_t kMaxStrangers = 64;  // connections without a request; the oldest is closed for a new one
constexpr std::chrono::seconds kRequestTime(10);
constexpr std::chrono::seconds kAnswerTime(60);

struct Connection {
  Connection(asio::io_context& context, tcp::socket taken) : socket(std::move(taken)), timer(context) {}
  tcp::socket socket;
  asio::steady_timer timer;
  std::string request;
  std::string answer;
};
using ConnectionRef = std::shared_ptr<Connection>;

void close(const ConnectionRef& connection) {
  asio::error_code ignored;
  connection->timer.cancel();
  connection->socket.shutdown(tcp::socket::shutdown_both, ignored);
  connection->socket.close(ignored);
}

// Closes connections that are slower than this.
void limit(const ConnectionRef& connection, std::chrono::seconds time) {
  connection->timer.expires_after(time);
  connection->timer.async_wait([connection](const asio::error_code& stopped) {
    if (!stopped) close(connection);
  });
}

// Returns true if the process was started to outlive its terminal (nohup).
bool ignores_hangup() {
  struct sigaction now = {};
  return ::sigaction(SIGHUP, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

}  // namespace

// All members belong to the thread of run(), once it runs.
struct PageServer::State {
  State(PageSource made, std::string at)
      : source(std::move(made)), bind(std::move(at)), acceptor(context), accept_timer(context) {}

  void listen(std::uint16_t wanted);
  void accept();
  void take(tcp::socket socket);
  void read(const ConnectionRef& connection);
  void write(const ConnectionRef& connection);

  asio::io_context context{1};
  PageSource source;
  std::string bind;
  tcp::acceptor acceptor;
  asio::steady_timer accept_timer;
  std::optional<asio::signal_set> signals;
  std::shared_ptr<std::size_t> open = std::make_shared<std::size_t>(0);
  std::deque<ConnectionRef> strangers;  // oldest first
  std::uint16_t port = 0;
  detail::PageAccess access;
};

void PageServer::State::listen(std::uint16_t wanted) {
  asio::error_code error;
  const asio::ip::address address = asio::ip::make_address(bind, error);
  TESSERA_CHECK(!error, "bind: must be an IP address, got '", bind, "'; use 127.0.0.1, ::1 or 0.0.0.0");
  const tcp::endpoint endpoint(address, wanted);
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(16, error);
  TESSERA_CHECK_AS(IoError, error != asio::error::address_in_use, "port ", wanted, " of ", bind,
                   " is in use by another program; use another port, or 0 for a free one");
  TESSERA_CHECK_AS(IoError, !error, "cannot listen on port ", wanted, " of ", bind, ": ", error.message());
  port = acceptor.local_endpoint(error).port();
  if (address.is_v6()) bind = "[" + bind + "]";
  // Browsers send cookies to all ports of a host.
  access = {.token = detail::random_token(), .cookie = tessera::detail::concat("tessera_view_", port)};
}

void PageServer::State::accept() {
  acceptor.async_accept([this](const asio::error_code& error, tcp::socket socket) {
    if (error == asio::error::operation_aborted) return;
    if (error) {  // usually out of descriptors: some will be released
      accept_timer.expires_after(std::chrono::milliseconds(20));
      accept_timer.async_wait([this](const asio::error_code& stopped) {
        if (!stopped) accept();
      });
      return;
    }
    if (*open < kMaxConnections) take(std::move(socket));
    accept();
  });
}

void PageServer::State::take(tcp::socket socket) {
  if (strangers.size() >= kMaxStrangers) {
    close(strangers.front());
    strangers.pop_front();
  }
  ++*open;
  const ConnectionRef connection(new Connection(context, std::move(socket)), [count = open](Connection* each) {
    --*count;
    delete each;
  });
  strangers.push_back(connection);
  read(connection);
}

void PageServer::State::read(const ConnectionRef& connection) {
  limit(connection, kRequestTime);
  asio::async_read_until(connection->socket, asio::dynamic_buffer(connection->request, kMaxRequest), "\r\n\r\n",
                         [this, connection](const asio::error_code& error, std::size_t nbytes) {
                           std::erase(strangers, connection);
                           if (error == asio::error::not_found) {
                             connection->answer =
                                 "HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Length: 0\r\n"
                                 "Connection: close\r\n\r\n";
                           } else if (error) {
                             close(connection);
                             return;
                           } else {
                             connection->answer = detail::http_answer(
                                 std::string_view(connection->request).substr(0, nbytes), access, source);
                           }
                           write(connection);
                         });
}

void PageServer::State::write(const ConnectionRef& connection) {
  limit(connection, kAnswerTime);
  asio::async_write(connection->socket, asio::buffer(connection->answer),
                    [connection](const asio::error_code&, std::size_t) { close(connection); });
}

PageServer::PageServer(const ServeOptions& options, PageSource source)
    : state_(std::make_unique<State>(std::move(source), options.bind)) {
  state_->listen(options.port);
  if (options.ends_on_signals) {
    state_->signals.emplace(state_->context, SIGINT, SIGTERM);
    if (!ignores_hangup()) state_->signals->add(SIGHUP);
    state_->signals->async_wait([this](const asio::error_code& error, int) {
      if (!error) state_->context.stop();
    });
  }
  state_->accept();
}

PageServer::~PageServer() = default;

std::uint16_t PageServer::port() const { return state_->port; }

std::string PageServer::url() const {
  return tessera::detail::concat("http://", state_->bind, ":", state_->port, "/?token=", state_->access.token);
}

void PageServer::run() { state_->context.run(); }

void PageServer::stop() {
  asio::post(state_->context, [this] { state_->context.stop(); });
}

}  // namespace tessera::analysis
