// Numbers and sizes in pickles for the analyzer of PyTorch, for runs with lost records or uneven sizes.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tessera/analysis/detail/pickle_reader.h"
#include "tessera/analysis/torch_pickles.h"

namespace tessera::analysis {
namespace {

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

class TorchExport : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "torch_export_XXXXXX";
    directory = ::mkdtemp(name.data());
  }
  void TearDown() override { std::filesystem::remove_all(directory); }
  std::string directory;
};

// Returns the exported numbers of the launches of the only group of rank 0: collective and point-to-point.
std::vector<std::pair<std::int64_t, std::int64_t>> exported_numbers(const Evidence& evidence,
                                                                    const std::string& directory) {
  const std::string path = write_torch_pickles(evidence, directory).at(0);
  const detail::Pickle dump = detail::Pickle::parse(content(path), path);
  std::vector<std::pair<std::int64_t, std::int64_t>> numbers;
  for (const detail::PickleValue& entry : *dump.root().find("entries")->list()) {
    numbers.emplace_back(entry.find("collective_seq_id")->integer().value_or(-1),
                         entry.find("p2p_seq_id")->integer().value_or(-1));
  }
  return numbers;
}

TEST_F(TorchExport, NumbersSurviveARingThatHasWrapped) {
  const RecordedOperation sum{.kind = "all_reduce", .dtype = "f32", .count = 8, .reduction = "sum"};
  const RecordedOperation message{.kind = "send", .dtype = "f32", .count = 8, .peer = 1};
  const auto launch = [](std::uint32_t task, std::uint64_t collective_number, const RecordedOperation& operation) {
    return CollectiveCall{.task = task,
                          .collective_number = collective_number,
                          .operations = {operation},
                          .stage = Stage::kDone,
                          .asked_ns = task};
  };
  Group world{.name = "world", .backend = "shm", .ranks = {0, 1}};
  // Of 100 lost launches, 60 are collectives and 40 point-to-point operations, 30 of them to rank 1.
  world.launches = {launch(101, 31, message), launch(102, 0, sum), launch(103, 62, sum), launch(104, 32, message),
                    launch(105, 0, sum)};
  Evidence evidence{.world_size = 2, .ranks = {{.rank = 0, .state = RankState::kRunning, .lost = 500}}};
  evidence.ranks[0].groups = {world};
  using Numbers = std::vector<std::pair<std::int64_t, std::int64_t>>;
  EXPECT_EQ(exported_numbers(evidence, directory), (Numbers{{60, 41}, {61, 41}, {62, 41}, {62, 42}, {63, 42}}));
  // Without a numbered collective, only launches of point-to-point operations can be distinguished.
  evidence.ranks[0].groups[0].launches = {launch(101, 31, message), launch(102, 0, sum), launch(104, 32, message)};
  EXPECT_EQ(exported_numbers(evidence, directory), (Numbers{{0, 101}, {0, 104}}));
}

TEST_F(TorchExport, UnevenPartsHaveNoSizesUnderPyTorchsKeys) {
  Group world{.name = "world", .backend = "shm", .ranks = {0, 1}};
  world.launches.push_back({.task = 1,
                            .collective_number = 1,
                            .operations = {{.kind = "all_gather", .dtype = "f32", .count = 7, .parts = 99}},
                            .stage = Stage::kDone,
                            .asked_ns = 1});
  Evidence evidence{.world_size = 2, .ranks = {{.rank = 0, .state = RankState::kRunning}}};
  evidence.ranks[0].groups = {world};
  const std::string path = write_torch_pickles(evidence, directory).at(0);
  const detail::Pickle dump = detail::Pickle::parse(content(path), path);
  const detail::PickleValue& entry = dump.root().find("entries")->list()->at(0);
  EXPECT_EQ(entry.find("output_sizes")->list()->at(0).list()->at(0).integer(), 0);
  EXPECT_EQ(entry.find("tessera")->find("count")->integer(), 7);
}

}  // namespace
}  // namespace tessera::analysis
