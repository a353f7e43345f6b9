#include "tessera/base/cores.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>

namespace tessera {
namespace {

TEST(Cores, AreThoseThatThisProcessMayUse) { EXPECT_EQ(usable_cores().size(), std::thread::hardware_concurrency()); }

TEST(Cores, HaveThePlacesThatTheKernelReports) {
  const std::filesystem::path directory = std::filesystem::path(::testing::TempDir()) / "cores_test";
  for (const CorePlace& own : usable_cores()) {
    const std::filesystem::path core = directory / ("cpu" + std::to_string(own.cpu));
    std::filesystem::create_directories(core / "topology");
    std::filesystem::create_directories(core / ("node" + std::to_string(own.cpu + 3)));
    std::filesystem::create_directories(core / "node_of_memory");
    std::ofstream(core / "topology" / "core_id") << own.cpu + 5 << "\n";
  }
  const std::vector<CorePlace> cores = usable_cores(directory.string());
  std::filesystem::remove_all(directory);
  ASSERT_FALSE(cores.empty());
  for (const CorePlace& each : cores) EXPECT_EQ(each, (CorePlace{each.cpu + 3, each.cpu + 5, each.cpu}));
  EXPECT_EQ(span_nodes(cores), cores.size() > 1);
}

TEST(Cores, SpanNodesIfOneOfThemIsElsewhere) {
  EXPECT_FALSE(span_nodes({}));
  EXPECT_FALSE(span_nodes({{0, 0, 0}, {0, 1, 1}}));
  EXPECT_TRUE(span_nodes({{0, 0, 0}, {0, 1, 1}, {1, 2, 2}}));
}

}  // namespace
}  // namespace tessera
