// How a store and its clients prove the secret to each other, and the results for other clients.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>
#include <thread>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/store/descriptor.h"
#include "tessera/comm/store/detail/store_frames.h"
#include "tessera/comm/store/tcp_store.h"
#include "tessera/comm/store/tcp_store_server.h"

namespace tessera::comm {
namespace {

using detail::Descriptor;
using detail::StoreRequestKind;

TcpStoreOptions to(const TcpStoreServer& server, const std::string& secret = "sesame") {
  return {.port = server.port(), .secret = secret};
}

// Opens a plain socket, without authentication.
Descriptor stranger(std::uint16_t port) {
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  return socket;
}

void send_all(const Descriptor& socket, std::string_view bytes) {
  EXPECT_EQ(::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
}

// Sends bytes and reads until the other side closes.
std::string exchange_until_closed(const Descriptor& socket, std::string_view bytes) {
  send_all(socket, bytes);
  std::string seen;
  char piece[4096];
  for (ssize_t got = 0; (got = ::recv(socket.get(), piece, sizeof piece, 0)) > 0;)
    seen.append(piece, static_cast<std::size_t>(got));
  return seen;
}

const std::string kNonce(detail::kNonceBytes, 'n');

std::string hello(std::uint32_t version = detail::kProtocolVersion) {
  std::string bytes;
  detail::write_request(bytes, {.number = 1, .verb = StoreRequestKind::kHello, .key = kNonce, .version = version});
  return bytes;
}

// Reads one reply and returns the text in its body.
std::string reply_text(const Descriptor& socket) {
  std::string bytes(4, '\0');
  EXPECT_EQ(::recv(socket.get(), bytes.data(), 4, MSG_WAITALL), 4);
  std::uint32_t size = 0;
  std::memcpy(&size, bytes.data(), 4);
  std::string body(size, '\0');
  EXPECT_EQ(::recv(socket.get(), body.data(), size, MSG_WAITALL), static_cast<ssize_t>(size));
  return std::string(detail::BodyReader(detail::parse_reply(body)->body).text());
}

// Returns the second frame of a client, for the nonce of a server.
std::string proof(const std::string& secret, const std::string& server_nonce) {
  std::string bytes;
  const std::string proof = detail::client_proof(secret, kNonce, server_nonce, "test");
  detail::write_request(bytes, {.number = 2, .verb = StoreRequestKind::kProof, .key = proof, .value = "test"});
  return bytes;
}

// Returns a plain, authenticated socket.
Descriptor insider(std::uint16_t port) {
  Descriptor socket = stranger(port);
  send_all(socket, hello());
  const std::string nonce = reply_text(socket);
  send_all(socket, proof("sesame", nonce));
  EXPECT_EQ(reply_text(socket), detail::server_proof("sesame", kNonce, nonce, "test"));
  return socket;
}

// Hangs up on the first `hang_ups` connections after their first bytes. Accepts the next one and replies to each
// request with the next of `bodies`, as kOk.
class FakeServer {
 public:
  explicit FakeServer(std::vector<std::string> bodies, int hang_ups = 0)
      : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listener_.get(), 4), 0);
    EXPECT_EQ(::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    port = ntohs(address.sin_port);
    thread_ = std::thread([this, bodies = std::move(bodies), hang_ups] {
      for (int i = 0; i < hang_ups; ++i) {
        const Descriptor client(::accept(listener_.get(), nullptr, nullptr));
        char byte = 0;
        EXPECT_EQ(::recv(client.get(), &byte, 1, 0), 1);
      }
      serve(bodies);
    });
  }
  ~FakeServer() { (void)heard(); }
  FakeServer(const FakeServer&) = delete;
  FakeServer& operator=(const FakeServer&) = delete;

  // Returns all bytes of the client, after it has closed.
  const std::string& heard() {
    if (thread_.joinable()) thread_.join();
    return heard_;
  }

  std::uint16_t port = 0;

 private:
  void serve(const std::vector<std::string>& bodies) {
    const Descriptor client(::accept(listener_.get(), nullptr, nullptr));
    for (std::uint64_t number = 1;; ++number) {
      char bytes[4096];
      const ssize_t got = ::recv(client.get(), bytes, sizeof bytes, 0);
      if (got <= 0) return;
      heard_.append(bytes, static_cast<std::size_t>(got));
      if (number > bodies.size()) continue;
      std::string out;
      detail::FrameWriter(out, number, 0).text(bodies[number - 1]).finish();
      send_all(client, out);
    }
  }
  Descriptor listener_;
  std::string heard_;
  std::thread thread_;
};

TEST(TcpStoreHandshake, AWrongSecretIsRefused) {
  const TcpStoreServer server({.secret = "sesame"});
  for (const std::string& wrong :
       {std::string("s"), std::string("sesam"), std::string("sesame!"), std::string("Sesame")}) {
    expect_error<MismatchError>([&] { TcpStore(to(server, wrong)); },
                                {"127.0.0.1:" + std::to_string(server.port()), "secret", "TESSERA_STORE_SECRET"});
  }
  EXPECT_EQ(server.statistics().refused, 4u);
  TcpStore right(to(server));
  right.set("a", "1");
  EXPECT_EQ(right.find("a"), "1");
}

TEST(TcpStoreHandshake, NoSecretIsRefusedUnlessAllowed) {
  const std::initializer_list<std::string_view> words = {
      "needs a secret, got none", "TESSERA_STORE_SECRET=$(openssl rand -hex 32)", "TESSERA_STORE_INSECURE=1"};
  expect_error<InvalidArgument>([] { TcpStoreServer({}); }, words);
  const TcpStoreServer server({.secret = "sesame"});
  expect_error<InvalidArgument>([&] { TcpStore(to(server, "")); }, words);
  expect_error<MismatchError>([&] { TcpStore({.port = server.port(), .allow_no_secret = true}); }, {"secret"});
  const TcpStoreServer open({.allow_no_secret = true});
  TcpStore({.port = open.port(), .allow_no_secret = true}).set("a", "1");
}

// A recorded handshake, sent again, is rejected: the server's nonce is new.
TEST(TcpStoreHandshake, ARecordedHandshakeIsRefused) {
  const TcpStoreServer server({.secret = "sesame"});
  const Descriptor first = stranger(server.port());
  send_all(first, hello());
  const std::string recorded = proof("sesame", reply_text(first));
  send_all(first, recorded);
  EXPECT_EQ(reply_text(first).size(), detail::kProofBytes);
  const Descriptor second = stranger(server.port());
  send_all(second, hello());
  EXPECT_EQ(reply_text(second).size(), detail::kNonceBytes);
  EXPECT_NE(exchange_until_closed(second, recorded).find("does not match that of this store"), std::string::npos);
  EXPECT_EQ(server.statistics().refused, 1u);
}

TEST(TcpStoreHandshake, AServerThatDoesNotKnowTheSecretIsRefused) {
  const std::string nonce(detail::kNonceBytes, 's');
  for (const std::string& claimed : {std::string(), std::string(detail::kProofBytes, 'x')}) {
    FakeServer fake({nonce, claimed});
    expect_error<MismatchError>([&] { TcpStore({.port = fake.port, .secret = "sesame"}); },
                                {"must prove that it knows the secret"});
  }
  FakeServer no_nonce({"short"});
  expect_error<IoError>([&] { TcpStore({.port = no_nonce.port, .secret = "sesame"}); }, {"not a store of Tessera"});
}

// A server that sends a client's own nonce and proof back is rejected.
TEST(TcpStoreHandshake, AProofCannotBeReflected) {
  const std::string secret = "sesame";
  const std::string nonce(detail::kNonceBytes, 's');
  EXPECT_NE(detail::client_proof(secret, nonce, nonce, "a"), detail::server_proof(secret, nonce, nonce, "a"));
  EXPECT_NE(detail::client_proof(secret, nonce, nonce, "a"), detail::client_proof(secret, nonce, nonce, "b"));
}

TEST(TcpStoreHandshake, TheSecretIsNeverSent) {
  const std::string secret = "a secret that is easy to find";
  FakeServer fake({std::string(detail::kNonceBytes, 's'), "?"});
  EXPECT_THROW(TcpStore({.port = fake.port, .secret = secret}), MismatchError);
  EXPECT_GT(fake.heard().size(), 2 * detail::kNonceBytes);
  EXPECT_EQ(fake.heard().find(secret), std::string::npos);
}

TEST(TcpStoreHandshake, NothingIsAnsweredBeforeTheSecret) {
  const TcpStoreServer server({.secret = "sesame"});
  TcpStore inside(to(server));
  inside.set("a", "1");
  std::string request;
  detail::write_request(request, {.number = 1, .verb = StoreRequestKind::kRemove, .key = "a"});
  EXPECT_EQ(exchange_until_closed(stranger(server.port()), request), "");
  EXPECT_EQ(exchange_until_closed(stranger(server.port()), hello() + request), "");
  // After a wrong proof, the rest of the same write is ignored too.
  const Descriptor wrong = stranger(server.port());
  send_all(wrong, hello());
  const std::string seen = exchange_until_closed(wrong, proof("wrong", reply_text(wrong)) + request);
  EXPECT_NE(seen.find("does not match that of this store"), std::string::npos);
  EXPECT_EQ(inside.find("a"), "1");
  EXPECT_EQ(server.statistics().bad_frames, 2u);
}

TEST(TcpStoreHandshake, AnotherVersionIsRefusedWithAWord) {
  const TcpStoreServer server({.secret = "sesame"});
  EXPECT_NE(exchange_until_closed(stranger(server.port()), hello(7)).find("version 7"), std::string::npos);
}

// Connections that send nothing, or part of a hello, displace each other and never a rank.
TEST(TcpStoreHandshake, SilentStrangersKeepNobodyOut) {
  const TcpStoreServer server({.secret = "sesame"});
  TcpStore before(to(server));
  std::vector<Descriptor> silent;
  for (int i = 0; i < 300; ++i) {
    silent.push_back(stranger(server.port()));
    if (i % 2 == 0) send_all(silent.back(), hello().substr(0, 7));
  }
  TcpStore after(to(server));
  after.set("a", "1");
  EXPECT_EQ(before.find("a"), "1") << "who is in stays";
  const StoreStatistics seen = server.statistics();
  EXPECT_EQ(seen.accepted, 302u);
  EXPECT_LE(seen.connections, 2u + 64u);
}

// A rank that the store drops among many unauthenticated connections reconnects.
TEST(TcpStoreHandshake, AClientThatIsHungUpOnConnectsAgain) {
  FakeServer fake({std::string(detail::kNonceBytes, 's'), ""}, /*hang_ups=*/3);
  expect_error<MismatchError>([&] { TcpStore({.port = fake.port, .secret = "sesame"}); },
                              {"must prove that it knows the secret"});
}

// More ranks connect at the same time than the store keeps unauthenticated connections.
TEST(TcpStoreHandshake, AllRanksOfALargeWorldGetIn) {
  const TcpStoreServer server({.secret = "sesame"});
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 200; ++rank)
    ranks.emplace_back([&] { EXPECT_NO_THROW(TcpStore(to(server)).add("here", 1)); });
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(TcpStore(to(server)).add("here", 0), 200);
}

TEST(TcpStoreHandshake, BadFramesEndTheirConnectionAlone) {
  const TcpStoreServer server({.secret = "sesame"});
  TcpStore inside(to(server));
  const std::string huge("\xff\xff\xff\x7f", 4);
  const std::string tiny(4, '\0');
  const std::string unknown_verb("\x09\0\0\0\1\0\0\0\0\0\0\0\x63", 13);
  const std::string http = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
  exchange_until_closed(stranger(server.port()), huge);
  exchange_until_closed(stranger(server.port()), http);
  exchange_until_closed(stranger(server.port()), hello() + hello());
  exchange_until_closed(stranger(server.port()), proof("sesame", kNonce));
  for (const std::string& bad : {huge, tiny, unknown_verb, hello()}) exchange_until_closed(insider(server.port()), bad);
  inside.set("a", "1");
  EXPECT_EQ(inside.find("a"), "1");
  const StoreStatistics seen = server.statistics();
  EXPECT_EQ(seen.bad_frames, 8u);
  EXPECT_EQ(seen.connections, 1u);
  EXPECT_EQ(seen.accepted, 9u);
}

}  // namespace
}  // namespace tessera::comm
