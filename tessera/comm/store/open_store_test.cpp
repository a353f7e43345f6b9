// Addresses of stores: valid ones, invalid ones, and the stores they open.
#include "tessera/comm/store/open_store.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "tessera/base/error.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/store/tcp_store_server.h"

namespace tessera::comm {
namespace {

using namespace std::chrono_literals;

TEST(StoreAddress, IsTakenApart) {
  const StoreAddress tcp = parse_store_address("tcp://node7:29500");
  EXPECT_EQ(tcp.kind, StoreAddress::Kind::kTcp);
  EXPECT_EQ(tcp.host, "node7");
  EXPECT_EQ(tcp.port, 29500);
  EXPECT_EQ(parse_store_address("tcp://[::1]:1").host, "::1");
  const StoreAddress file = parse_store_address("file:///shared/run 1");
  EXPECT_EQ(file.kind, StoreAddress::Kind::kFile);
  EXPECT_EQ(file.path, "/shared/run 1");
}

TEST(StoreAddress, RefusalsSayWhatIsWrong) {
  for (const auto& [address, word] :
       std::vector<std::pair<std::string, std::string>>{{"", "must be tcp://host:port or file:///directory"},
                                                        {"node7:29500", "must be tcp://"},
                                                        {"udp://node7:29500", "must be tcp://"},
                                                        {"tcp://node7", "has no port"},
                                                        {"tcp://:29500", "has no port"},
                                                        {"tcp://[]:29500", "has no host"},
                                                        {"tcp://node7:", "must have a port in [1, 65535]"},
                                                        {"tcp://node7:0", "must have a port in [1, 65535]"},
                                                        {"tcp://node7:65536", "must have a port in [1, 65535]"},
                                                        {"tcp://node7:80x", "must have a port in [1, 65535]"},
                                                        {"file://relative", "file:///directory"},
                                                        {"file:/x", "must be tcp://"}}) {
    expect_error<InvalidArgument>([&, text = address] { parse_store_address(text); }, {word, "'" + address + "'"});
  }
}

TEST(OpenStore, OpensBothKinds) {
  const TcpStoreServer server({.secret = "s"});
  const auto tcp = open_store("tcp://127.0.0.1:" + std::to_string(server.port()), "s", 60s);
  tcp->set("a", "1");
  EXPECT_EQ(tcp->find("a"), "1");
  char name[] = "/tmp/tessera_store_XXXXXX";
  ASSERT_NE(::mkdtemp(name), nullptr);
  {
    const auto file = open_store("file://" + std::string(name) + "/store", "", 60s);
    file->set("a", "2");
    EXPECT_EQ(file->find("a"), "2");
  }
  std::filesystem::remove_all(name);
}

}  // namespace
}  // namespace tessera::comm
