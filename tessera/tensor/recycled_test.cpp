// Memory of small objects: reused by the thread that freed it, and never owned twice.
#include "tessera/tensor/recycled.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <set>
#include <thread>
#include <vector>

namespace tessera::tensor::detail {
namespace {

template <std::size_t N>
struct Object final : Recycled {
  std::uint64_t words[N] = {};
};

template <std::size_t N>
void check_apart() {
  std::vector<std::unique_ptr<Object<N>>> objects;
  std::set<const void*> seen;
  for (int round = 0; round < 3; ++round) {
    seen.clear();
    objects.clear();
    for (std::uint64_t i = 0; i < 20000; ++i) {  // more than a thread keeps
      objects.push_back(std::make_unique<Object<N>>());
      EXPECT_TRUE(seen.insert(objects.back().get()).second);
      for (std::uint64_t& word : objects.back()->words) word = i;
    }
    for (std::uint64_t i = 0; i < objects.size(); ++i) {
      ASSERT_EQ(objects[i]->words[0], i);
      ASSERT_EQ(objects[i]->words[N - 1], i);
    }
  }
}

TEST(Recycled, ObjectsNeverShareMemory) {
  check_apart<1>();
  check_apart<8>();
  check_apart<9>();
  check_apart<128>();
  check_apart<129>();  // larger than the sizes that are kept
}

TEST(Recycled, ADerivedObjectIsFreedByItsOwnSize) {
  struct Base : Recycled {
    Base() = default;
    virtual ~Base() = default;
  };
  struct Large final : Base {
    std::uint64_t words[100] = {};
  };
  std::unique_ptr<Base> large = std::make_unique<Large>();
  large.reset();
  // The kept block has the large size: a small object does not take it, a large one does.
  const auto small = std::make_unique<Base>();
  const auto other = std::make_unique<Large>();
  other->words[99] = 1;
  EXPECT_NE(static_cast<const void*>(small.get()), static_cast<const void*>(other.get()));
}

TEST(Recycled, MemoryMayBeFreedByAnotherThreadThatEnds) {
  std::vector<std::unique_ptr<Object<20>>> objects;
  for (int i = 0; i < 100; ++i) objects.push_back(std::make_unique<Object<20>>());
  std::thread([&] { objects.clear(); }).join();
  check_apart<20>();
}

}  // namespace
}  // namespace tessera::tensor::detail
