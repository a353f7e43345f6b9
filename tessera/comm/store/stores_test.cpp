// All behaviors of testing/store_behaviours.h for all kinds of stores.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <ostream>

#include "tessera/comm/store/file_store.h"
#include "tessera/comm/store/memory_store.h"
#include "tessera/comm/store/prefix_store.h"
#include "tessera/comm/store/tcp_store.h"
#include "tessera/comm/store/tcp_store_server.h"
#include "tessera/comm/store/testing/store_behaviours.h"

namespace tessera::comm::testing {
namespace {

StoreKit memory_kit() {
  return {[store = std::make_shared<MemoryStore>()] { return store; }};
}

struct Directory {
  Directory() {
    char name[] = "/tmp/tessera_store_XXXXXX";
    path = ::mkdtemp(name);
  }
  ~Directory() { std::filesystem::remove_all(path); }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  std::string path;
};

StoreKit file_kit() {
  return {
      [directory = std::make_shared<Directory>()] { return std::make_shared<FileStore>(directory->path + "/store"); }};
}

StoreKit tcp_kit() {
  return {[server = std::make_shared<TcpStoreServer>(TcpStoreServerOptions{.secret = "s"})] {
    return std::make_shared<TcpStore>(TcpStoreOptions{.port = server->port(), .secret = "s"});
  }};
}

StoreKit prefix_kit() {
  const auto under = std::make_shared<MemoryStore>();
  under->set("other/a", "not ours");
  under->set("mine", "not ours");
  return {[under] { return std::make_shared<PrefixStore>("mine", std::make_shared<PrefixStore>("deeper", under)); }};
}

std::vector<StoreKind> kinds() {
  return {{"memory", memory_kit}, {"file", file_kit}, {"tcp", tcp_kit}, {"prefix", prefix_kit}};
}

struct StoreCase {
  StoreKind kind;
  StoreBehaviour behaviour;
};

void PrintTo(const StoreCase& each, std::ostream* out) { *out << each.kind.name << " " << each.behaviour.name; }

std::vector<StoreCase> cases() {
  std::vector<StoreCase> all;
  for (const StoreKind& kind : kinds()) {
    for (const StoreBehaviour& behaviour : store_behaviours()) all.push_back({kind, behaviour});
  }
  return all;
}

class EveryStore : public ::testing::TestWithParam<StoreCase> {};

TEST_P(EveryStore, Behaves) { GetParam().behaviour.check(GetParam().kind.make()); }

INSTANTIATE_TEST_SUITE_P(Stores, EveryStore, ::testing::ValuesIn(cases()),
                         [](const auto& each) { return each.param.kind.name + "_" + each.param.behaviour.name; });

TEST(PrefixStore, SeesOnlyItsOwn) {
  const auto under = std::make_shared<MemoryStore>();
  PrefixStore group("group", under);
  PrefixStore other("group2", under);
  group.set("a", "1");
  other.set("a", "2");
  under->set("a", "3");
  EXPECT_EQ(group.find("a"), "1");
  EXPECT_EQ(other.find("a"), "2");
  EXPECT_EQ(under->keys(""), (std::vector<std::string>{"a", "group/a", "group2/a"}));
  EXPECT_EQ(group.keys(""), std::vector<std::string>{"a"});
  EXPECT_EQ(group.text(), "'group/' of memory store");
}

}  // namespace
}  // namespace tessera::comm::testing
