// Equal results on meshes of processes and on one rank.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tessera/base/rank.h"
#include "tessera/comm/testing/rank_processes.h"
#include "tessera/train/testing/runs.h"

namespace tessera::train {
namespace {

using testing::Curve;

// Curves are passed between processes in a file of numbers.
void write(const std::filesystem::path& path, const Curve& curve) {
  std::ofstream out(path, std::ios::binary);
  const auto put = [&](const auto& numbers) {
    const std::uint64_t count = numbers.size();
    out.write(reinterpret_cast<const char*>(&count), sizeof count);
    out.write(reinterpret_cast<const char*>(numbers.data()), static_cast<std::streamsize>(count * sizeof numbers[0]));
  };
  std::vector<float> weights;
  for (const std::vector<float>& each : curve.weights) weights.insert(weights.end(), each.begin(), each.end());
  put(weights);
  put(curve.losses);
  put(curve.norms);
}

Curve read(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  const auto get = [&](auto& numbers) {
    std::uint64_t count = 0;
    in.read(reinterpret_cast<char*>(&count), sizeof count);
    numbers.resize(count);
    in.read(reinterpret_cast<char*>(numbers.data()), static_cast<std::streamsize>(count * sizeof numbers[0]));
  };
  Curve curve;
  get(curve.weights.emplace_back());
  get(curve.losses);
  get(curve.norms);
  return curve;
}

class SameNumbersProcesses : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "tessera_curves_XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // Returns the result of the first rank of the mesh.
  Curve run(const Config& config) {
    const std::filesystem::path path = folder_ / "curve";
    const int ranks = config.mesh.dp * config.mesh.fsdp * config.mesh.tp;
    const auto ends = comm::run_rank_processes(ranks, [&](int rank) {
      const Curve curve = testing::run(config);
      if (rank == 0) write(path, curve);
    });
    for (const comm::ProcessEnd& end : ends) EXPECT_EQ(end.exit_code, 0) << "signal " << end.signal;
    return read(path);
  }

  std::filesystem::path folder_;
};

TEST_F(SameNumbersProcesses, OfDataTensorAndFullyShardedRanks) {
  for (const char* optimizer : {"adamw", "sgd"}) {
    Config config = testing::small_config();
    config.train.steps = 20;
    config.optimizer.kind = optimizer;
    config.optimizer.clip = 0.5;
    const Curve want = run(config);
    ASSERT_EQ(want.losses.size(), 20U);
    for (const Config& each :
         {testing::on_mesh(config, 2, 1, 2), testing::on_mesh(config, 1, 2, 2), testing::on_mesh(config, 1, 4, 1)}) {
      EXPECT_EQ(testing::difference(run(each), want, 1e-5), "") << optimizer << ", " << testing::mesh_name(each.mesh);
    }
  }
}

}  // namespace
}  // namespace tessera::train
