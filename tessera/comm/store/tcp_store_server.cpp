#include "tessera/comm/store/tcp_store_server.h"

#include <asio/buffer.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <asio/write.hpp>

#include <deque>
#include <future>
#include <map>

#include "tessera/base/env.h"
#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/base/rank.h"
#include "tessera/comm/store/detail/store_core.h"

namespace tessera::comm {
namespace {

using asio::ip::tcp;
using detail::StoreCore;
using detail::StoreSession;

constexpr std::size_t kMaxConnections = 16384;
constexpr std::size_t kMaxStrangers = 64;       // connections without a proof; the oldest is closed for a new one
constexpr std::size_t kKeptBytes = 256 * 1024;  // memory kept by an empty buffer
constexpr std::chrono::seconds kHelloTime(10);  // limit for proving the secret

struct Connection {
  Connection(asio::io_context& context, tcp::socket taken) : socket(std::move(taken)), hello_timer(context) {}
  tcp::socket socket;
  asio::steady_timer hello_timer;
  StoreSession session;
  std::string in_flight;  // bytes being written
  bool is_writing = false;
  bool is_reading = false;
  bool is_closed = false;
};
using ConnectionRef = std::shared_ptr<Connection>;

detail::StoreLimits limits_of(const TcpStoreServerOptions& options) {
  return {.client_bytes = options.max_client_bytes ? *options.max_client_bytes : env::store_client_bytes(),
          .total_bytes = options.max_bytes ? *options.max_bytes : env::store_bytes()};
}

}  // namespace

// All members belong to the thread of the server once it runs. Each handler keeps its connection alive, and checks
// whether it was closed meanwhile.
struct TcpStoreServer::State {
  explicit State(const TcpStoreServerOptions& options)
      : core(options.secret, limits_of(options)), acceptor(context), accept_timer(context), wait_timer(context) {}

  void listen(const TcpStoreServerOptions& options);
  asio::error_code listen_at(const tcp::endpoint& at);
  void run();
  void accept();
  void take(tcp::socket socket);
  void read(const ConnectionRef& connection);
  void consume(const ConnectionRef& connection);
  void write(const ConnectionRef& connection);
  void serve_woken();
  void arm_wait_timer();
  void close(const ConnectionRef& connection);

  asio::io_context context{1};
  StoreCore core;
  tcp::acceptor acceptor;
  asio::steady_timer accept_timer;
  asio::steady_timer wait_timer;
  std::optional<StoreCore::Clock::time_point> armed;
  std::map<StoreSession*, ConnectionRef> connections;
  std::deque<ConnectionRef> strangers;  // unauthenticated `connections`, oldest first
  tcp::endpoint endpoint;
  Thread thread;
};

void TcpStoreServer::State::listen(const TcpStoreServerOptions& options) {
  const std::string at = tessera::detail::concat(options.host, ":", options.port);
  asio::error_code error;
  tcp::resolver resolver(context);
  const auto found = resolver.resolve(options.host, std::to_string(options.port), tcp::resolver::passive, error);
  TESSERA_CHECK(
      !error && !found.empty(), "tcp store: '", options.host,
      "' must be an address or a known name of this machine, such as 127.0.0.1, 0.0.0.0 or ::1: ", error.message());
  // A name can have several addresses. Clients try all of them, so one is enough.
  for (const auto& entry : found) {
    error = listen_at(entry.endpoint());
    if (!error) break;
  }
  TESSERA_CHECK_AS(IoError, error != asio::error::address_in_use, "tcp store: port ", options.port, " of ",
                   options.host, " is in use by another program (`ss -ltnp sport = :", options.port,
                   "` shows it); choose another port, or 0 for one that is free");
  TESSERA_CHECK_AS(IoError, !error, "tcp store: cannot listen on ", at, ": ", error.message());
  endpoint = acceptor.local_endpoint(error);
  TESSERA_CHECK_AS(IoError, !error, "tcp store: cannot listen on ", at, ": ", error.message());
}

asio::error_code TcpStoreServer::State::listen_at(const tcp::endpoint& at) {
  asio::error_code error;
  if (acceptor.is_open()) acceptor.close(error);
  acceptor.open(at.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(at, error);
  if (!error) acceptor.listen(1024, error);
  return error;
}

// An exception of a handler (out of memory) ends only the current request, never the store.
void TcpStoreServer::State::run() {
  for (;;) {
    try {
      context.run();
      return;
    } catch (const std::exception& error) {
      log::error("tcp store at port ", endpoint.port(), ": ", error.what());
    }
  }
}

void TcpStoreServer::State::accept() {
  acceptor.async_accept([this](const asio::error_code& error, tcp::socket socket) {
    if (error == asio::error::operation_aborted) return;
    if (error) {  // probably out of descriptors; some will be released
      accept_timer.expires_after(std::chrono::milliseconds(20));
      accept_timer.async_wait([this](const asio::error_code& stopped) {
        if (!stopped) accept();
      });
      return;
    }
    if (connections.size() < kMaxConnections) take(std::move(socket));
    accept();
  });
}

// Any process that reaches the port can connect and stay silent. Such connections displace each other, never the ranks.
// A rank that is displaced by many of them reconnects (detail/store_connection.cpp).
void TcpStoreServer::State::take(tcp::socket socket) {
  if (strangers.size() >= kMaxStrangers) close(ConnectionRef(strangers.front()));
  asio::error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  socket.non_blocking(true, ignored);
  const tcp::endpoint peer = socket.remote_endpoint(ignored);
  const auto connection = std::make_shared<Connection>(context, std::move(socket));
  connection->session.client = tessera::detail::concat(peer.address().to_string(), ":", peer.port());
  connections.emplace(&connection->session, connection);
  strangers.push_back(connection);
  ++core.statistics.accepted;
  connection->hello_timer.expires_after(kHelloTime);
  connection->hello_timer.async_wait([this, connection](const asio::error_code& stopped) {
    if (!stopped && !connection->session.is_in) close(connection);
  });
  read(connection);
}

void TcpStoreServer::State::read(const ConnectionRef& connection) {
  if (connection->is_reading || connection->is_closed) return;
  connection->is_reading = true;
  const std::size_t most = connection->session.read_bytes();
  char* room = connection->session.reader.room(most);
  connection->socket.async_read_some(asio::buffer(room, most),
                                     [this, connection](const asio::error_code& error, std::size_t nbytes) {
                                       connection->is_reading = false;
                                       if (connection->is_closed) return;
                                       if (error) return close(connection);
                                       connection->session.reader.filled(nbytes);
                                       consume(connection);
                                     });
}

void TcpStoreServer::State::consume(const ConnectionRef& connection) {
  StoreSession& session = connection->session;
  const bool was_in = session.is_in;
  core.consume(session, StoreCore::Clock::now());
  if (session.is_in && !was_in) {
    connection->hello_timer.cancel();
    std::erase(strangers, connection);
  }
  if (session.is_bad) {
    close(connection);
  } else {
    write(connection);
    // Does not read from a client that does not take its replies; its other requests wait.
    if (session.out.size() < StoreCore::kMaxOutBytes && !session.is_refused) read(connection);
  }
  serve_woken();
  arm_wait_timer();
}

void TcpStoreServer::State::write(const ConnectionRef& connection) {
  if (connection->is_writing || connection->is_closed || connection->session.out.empty()) return;
  connection->is_writing = true;
  connection->in_flight.swap(connection->session.out);
  asio::async_write(connection->socket, asio::buffer(connection->in_flight),
                    [this, connection](const asio::error_code& error, std::size_t) {
                      connection->is_writing = false;
                      connection->in_flight.clear();
                      if (connection->in_flight.capacity() > kKeptBytes) connection->in_flight.shrink_to_fit();
                      if (connection->is_closed) return;
                      const bool is_over = connection->session.is_refused && connection->session.out.empty();
                      if (error || is_over) return close(connection);
                      write(connection);
                      if (!connection->is_reading) consume(connection);
                    });
}

void TcpStoreServer::State::serve_woken() {
  for (StoreSession* session : core.take_woken()) {
    const auto found = connections.find(session);
    if (found != connections.end()) write(found->second);
  }
}

void TcpStoreServer::State::arm_wait_timer() {
  const auto next = core.next_deadline();
  if (next == armed) return;
  armed = next;
  if (!next) {
    wait_timer.cancel();
    return;
  }
  wait_timer.expires_at(*next);
  wait_timer.async_wait([this](const asio::error_code& stopped) {
    if (stopped) return;
    armed.reset();
    core.expire(StoreCore::Clock::now());
    serve_woken();
    arm_wait_timer();
  });
}

void TcpStoreServer::State::close(const ConnectionRef& connection) {
  if (connection->is_closed) return;
  connection->is_closed = true;
  connection->hello_timer.cancel();
  core.drop(connection->session);
  connections.erase(&connection->session);
  std::erase(strangers, connection);
  asio::error_code ignored;
  connection->socket.close(ignored);
}

TcpStoreServer::TcpStoreServer(const TcpStoreServerOptions& options) : state_(std::make_unique<State>(options)) {
  detail::check_secret("tcp store", options.secret, options.allow_no_secret);
  state_->listen(options);
  state_->accept();
  state_->thread = Thread("tessera store", [state = state_.get()] { state->run(); });
}

TcpStoreServer::~TcpStoreServer() {
  state_->context.stop();
  state_->thread.join();
  // Handlers hold connections, and sessions must be dropped while the core exists.
  while (!state_->connections.empty()) {
    const ConnectionRef connection = state_->connections.begin()->second;
    state_->close(connection);
  }
}

std::string TcpStoreServer::address() const { return state_->endpoint.address().to_string(); }
bool TcpStoreServer::is_loopback() const { return state_->endpoint.address().is_loopback(); }
std::uint16_t TcpStoreServer::port() const { return state_->endpoint.port(); }

StoreStatistics TcpStoreServer::statistics() const {
  std::promise<StoreStatistics> promise;
  asio::post(state_->context, [&] {
    StoreStatistics seen = state_->core.statistics;
    seen.connections = state_->connections.size();
    promise.set_value(seen);
  });
  return promise.get_future().get();
}

}  // namespace tessera::comm
