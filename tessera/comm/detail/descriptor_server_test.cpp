// Which peers get a descriptor, which do not, and that no peer can block the others.
#include "tessera/comm/detail/descriptor_server.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/store/detail/proof.h"

namespace tessera::comm::detail {
namespace {

using namespace std::chrono_literals;

Descriptor file_with(char byte) {
  Descriptor file(::memfd_create("test", MFD_CLOEXEC));
  EXPECT_EQ(::pwrite(file.get(), &byte, 1, 0), 1);
  return file;
}
char byte_of(const Descriptor& file) {
  char byte = 0;
  EXPECT_EQ(::pread(file.get(), &byte, 1, 0), 1);
  return byte;
}

// Opens an unauthenticated connection to the server.
Descriptor connect_to(const std::string& address) {
  const std::string name = address.substr(0, address.find(' '));
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  std::memcpy(to.sun_path + 1, name.data(), name.size());
  Descriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  EXPECT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), size), 0);
  return socket;
}
void say(const Descriptor& socket, const std::string& what) {
  EXPECT_EQ(::send(socket.get(), what.data(), what.size(), MSG_NOSIGNAL), static_cast<ssize_t>(what.size()));
}
// Returns the reply of the server; empty if it hangs up.
std::string heard(const Descriptor& socket) {
  char bytes[64];
  const ssize_t got = ::recv(socket.get(), bytes, sizeof bytes, 0);
  return {bytes, bytes + std::max<ssize_t>(got, 0)};
}

// Returns a valid request for `name`, with the nonce that the server sent.
std::string request_for(const DescriptorServer& server, const std::string& name, const std::string& server_nonce) {
  const std::string key = server.address().substr(server.address().find(' ') + 1);
  const std::string nonce = random_nonce();
  return "tsd3" + nonce + prove(key, "tessera descriptor peer", {server_nonce, nonce, name}) + name;
}

TEST(DescriptorServer, HandsOutWhatIsOfferedByName) {
  DescriptorServer server;
  server.offer("a", file_with('a').get());
  server.offer("b", file_with('b').get());
  EXPECT_EQ(byte_of(fetch_descriptor(server.address(), "b", 10s).file), 'b');
  EXPECT_EQ(byte_of(fetch_descriptor(server.address(), "a", 10s).file), 'a');
  server.offer("a", file_with('c').get());
  EXPECT_EQ(byte_of(fetch_descriptor(server.address(), "a", 10s).file), 'c');
  EXPECT_FALSE(fetch_descriptor(server.address(), "d", 10s).file);
  server.withdraw("a");
  EXPECT_FALSE(fetch_descriptor(server.address(), "a", 10s).file);
}

TEST(DescriptorServer, NamesMadeAnewAreNeverTheSame) {
  DescriptorServer server;
  const Descriptor file = file_with('x');
  const std::string first = server.offer_anew("group", file.get());
  server.withdraw(first);
  EXPECT_NE(server.offer_anew("group", file.get()), first);
}

TEST(DescriptorServer, TellsTheProcessApart) {
  const DescriptorServer server;
  const Fetched fetched = fetch_descriptor(server.address(), "", 10s);
  ASSERT_TRUE(fetched.process);
  pollfd polled{fetched.process.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&polled, 1, 0), 0) << "this process has not ended";
}

TEST(DescriptorServer, PeersWithAnotherKeyGetNothing) {
  DescriptorServer server;
  server.offer("a", file_with('a').get());
  std::string address = server.address();
  address.back() = address.back() == '0' ? '1' : '0';
  expect_error<AbortedError>([&] { (void)fetch_descriptor(address, "a", 10s); }, {"rejected the request for 'a'"});
}

TEST(DescriptorServer, JunkCostsItsOwnConnectionAlone) {
  DescriptorServer server;
  server.offer("a", file_with('a').get());
  const std::string key = server.address().substr(server.address().find(' ') + 1);
  const std::vector<std::function<std::string(const std::string&)>> spoil = {
      [](const std::string&) { return std::string("?"); },
      [](const std::string&) { return std::string("tsd3"); },
      [](const std::string& good) { return "tsd2" + good.substr(4); },
      [](const std::string& good) { return "tsd3" + good.substr(5); },
      [](const std::string& good) { return good + "b"; },
      [&](const std::string&) { return "tsd3" + key + "a"; },
      [](const std::string& good) { return good.substr(0, 68); },
      [](const std::string& good) { return good + std::string(300, 'a'); },
      [](const std::string&) { return std::string(5000, '\0'); }};
  for (std::size_t i = 0; i < spoil.size(); ++i) {
    const Descriptor socket = connect_to(server.address());
    say(socket, spoil[i](request_for(server, "a", heard(socket))));
    EXPECT_EQ(heard(socket), "") << i;
  }
  { const Descriptor hung_up = connect_to(server.address()); }
  EXPECT_EQ(byte_of(fetch_descriptor(server.address(), "a", 10s).file), 'a');
}

// The bytes of a valid request, sent again to the same server, get no reply: its nonce is new for each connection.
TEST(DescriptorServer, ARecordedRequestGetsNothing) {
  DescriptorServer server;
  server.offer("a", file_with('a').get());
  const Descriptor first = connect_to(server.address());
  const std::string recorded = request_for(server, "a", heard(first));
  say(first, recorded);
  EXPECT_EQ(heard(first).substr(0, 1), "y");
  EXPECT_EQ(heard(first), "") << "a connection is for one request";
  const Descriptor second = connect_to(server.address());
  EXPECT_EQ(heard(second).size(), kNonceBytes);
  say(second, recorded);
  EXPECT_EQ(heard(second), "");
}

TEST(DescriptorServer, PeersOfAnotherUserGetNothing) {
  DescriptorServer server([](int) { return std::optional<uid_t>(::geteuid() + 1); });
  server.offer("a", file_with('a').get());
  expect_error<AbortedError>([&] { (void)fetch_descriptor(server.address(), "a", 10s); },
                             {"rejected the request for 'a'"});
  DescriptorServer unknown([](int) { return std::optional<uid_t>(); });
  unknown.offer("a", file_with('a').get());
  expect_error<AbortedError>([&] { (void)fetch_descriptor(unknown.address(), "a", 10s); },
                             {"rejected the request for 'a'"});
}

TEST(DescriptorServer, ServersOfAnotherUserAreNotAsked) {
  DescriptorServer server;
  server.offer("a", file_with('a').get());
  const auto other = [](int) { return std::optional<uid_t>(::geteuid() + 1); };
  expect_error<MismatchError>([&] { (void)fetch_descriptor(server.address(), "a", 10s, other); },
                              {"must run as user", std::to_string(::geteuid() + 1)});
}

TEST(DescriptorServer, PeerUserIsThatOfTheKernel) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  const Descriptor one(ends[0]);
  const Descriptor other(ends[1]);
  EXPECT_EQ(peer_user(one.get()), ::geteuid());
  EXPECT_EQ(peer_user(-1), std::nullopt);
}

// A server that does not know the key replies with a descriptor; its reply is rejected.
TEST(DescriptorServer, AnAnswerWithoutProofIsRejected) {
  const std::string name = "tessera-test-" + random_secret().substr(0, 16);
  Descriptor listener(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  std::memcpy(at.sun_path + 1, name.data(), name.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&at), size), 0);
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  std::thread impostor([&] {
    const Descriptor client(::accept(listener.get(), nullptr, nullptr));
    say(client, random_nonce());
    (void)heard(client);
    say(client, "y" + std::string(kProofBytes, 'p'));
  });
  expect_error<MismatchError>([&] { (void)fetch_descriptor(name + " key", "a", 10s); }, {"must prove"});
  impostor.join();
}

TEST(DescriptorServer, SilentPeersDoNotKeepOthersOut) {
  DescriptorServer server;
  server.offer("a", file_with('a').get());
  std::vector<Descriptor> silent;
  for (int i = 0; i < 300; ++i) silent.push_back(connect_to(server.address()));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(byte_of(fetch_descriptor(server.address(), "a", 10s).file), 'a');
}

TEST(DescriptorServer, ManyAskAtOnce) {
  DescriptorServer server;
  server.offer("a", file_with('a').get());
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) EXPECT_EQ(byte_of(fetch_descriptor(server.address(), "a", 30s).file), 'a');
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(DescriptorServer, OneThatHasStoppedIsAnErrorAtOnce) {
  std::string address;
  {
    const DescriptorServer server;
    address = server.address();
  }
  expect_error<AbortedError>([&] { (void)fetch_descriptor(address, "a", 10s); }, {"has ended"});
}

}  // namespace
}  // namespace tessera::comm::detail
