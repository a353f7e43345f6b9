// The record of a killed process shows its live blocks.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "tessera/analysis/memory/history_reader.h"
#include "tessera/device/host/host_device.h"
#include "tessera/memory/testing/history_ground.h"

namespace tessera::analysis {
namespace {

using memory::Allocator;
using memory::Buffer;
using memory::Snapshot;

using memory::testing::LiveBlock;

// Sizes and labels after the same steps are equal in any process; addresses differ.
std::vector<std::pair<std::uint64_t, std::string>> shape_of(const std::vector<LiveBlock>& blocks) {
  std::vector<std::pair<std::uint64_t, std::string>> shape;
  for (const LiveBlock& block : blocks) shape.emplace_back(std::get<2>(block), std::get<5>(block));
  std::sort(shape.begin(), shape.end());
  return shape;
}

struct Ground {
  memory::testing::RecordedRank rank;
  Device device = device::host::make_host_device({.mode = device::host::Mode::kThreaded});
  Allocator allocator{device};
  Stream one = device.create_stream();
  Stream two = device.create_stream();
  std::vector<Buffer> held;
  void run() { memory::testing::churn(allocator, 7, 20000, one, two, held); }
};

TEST(HistoryOfAProcess, TellsWhatWasLiveInAProcessThatWasKilled) {
  int ends[2] = {};
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    Ground ground;
    ground.run();
    const std::string line = ground.rank.path() + "\n";
    if (write(ends[1], line.data(), line.size()) < 0) std::_Exit(1);
    for (;;) pause();
  }
  close(ends[1]);
  std::string path;
  for (char c = 0; read(ends[0], &c, 1) == 1 && c != '\n';) path += c;
  close(ends[0]);
  kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  Ground same;
  same.run();
  const std::vector<Snapshot> found = read_history(probe::RecordFile::open(path));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].inconsistency(), "");
  EXPECT_EQ(shape_of(memory::testing::live_blocks(found[0])),
            shape_of(memory::testing::live_blocks(same.allocator.snapshot())));
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace tessera::analysis
