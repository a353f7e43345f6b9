// Rank processes: their checkpoints, and the files that remain if one or all of them are killed while they write.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <sys/resource.h>

#include "tessera/comm/process_group.h"
#include "tessera/comm/testing/rank_processes.h"
#include "tessera/train/checkpoint/detail/shard_file.h"
#include "tessera/train/checkpoint/testing/checkpoints.h"

namespace tessera::train {
namespace {

using layout::Layout;
using layout::Mesh;
using testing::CheckpointDirectory;

CheckpointState state_on(const char* mesh, const char* placements) {
  CheckpointState state;
  const Layout layout = Layout::parse(Mesh::parse(mesh), placements);
  state.tensors.emplace_back("matrix", testing::allocate({"matrix", DType::kF32, {64, 33}}, layout));
  state.tensors.emplace_back("vector", testing::allocate({"vector", DType::kF64, {7}}, {}));
  return state;
}

void save(CheckpointWriter& writer, const CheckpointState& state, std::int64_t step) {
  testing::set_known(state, step);
  writer.save(step, state);
  writer.finish();
}

bool all_ended_well(const std::vector<comm::ProcessEnd>& ends) {
  return std::ranges::all_of(ends, [](const comm::ProcessEnd& end) { return end.exit_code == 0; });
}

// Kills this process in the middle of a file.
void die_while_writing() {
  current_rank()->part<detail::WriteFaults>([] { return std::make_shared<detail::WriteFaults>(); }).before_write =
      [](const std::string& /*path*/, std::uint64_t written) {
        if (written > 0) ::kill(::getpid(), SIGKILL);
        return 0;
      };
}

void expect_loads(const std::filesystem::path& directory, std::int64_t step, int ranks, const char* mesh,
                  const char* placements) {
  const auto ends = comm::run_rank_processes(ranks, [&](int /*rank*/) {
    const auto last = last_good(directory, {});
    ASSERT_TRUE(last.has_value());
    EXPECT_EQ(last->step, step);
    CheckpointState state = state_on(mesh, placements);
    load_checkpoint(*last, state);
    EXPECT_EQ(testing::count_wrong(state, step), 0);
  });
  EXPECT_TRUE(all_ended_well(ends));
}

TEST(CheckpointProcesses, ReadWhatOthersSaved) {
  const CheckpointDirectory directory;
  const auto ends = comm::run_rank_processes(4, [&](int /*rank*/) {
    const CheckpointState state = state_on("fsdp=2,tp=2", "S0,S1");
    CheckpointWriter writer({.directory = directory.path()});
    save(writer, state, 10);
    save(writer, state, 20);
    EXPECT_TRUE(writer.take_errors().empty());
  });
  ASSERT_TRUE(all_ended_well(ends));
  expect_loads(directory.path(), 20, 3, "fsdp=3", "S1");
}

TEST(CheckpointProcesses, OneThatIsKilledWhileItWritesLeavesTheLastOne) {
  for (const int victim : {0, 1}) {
    const CheckpointDirectory directory;
    const auto ends = comm::run_rank_processes(2, [&](int rank) {
      const CheckpointState state = state_on("fsdp=2", "S0");
      // Its timeout is longer than the test may take.
      CheckpointWriter writer({.directory = directory.path(), .lost = [all = comm::world()] { return all.lost(); }});
      save(writer, state, 10);
      if (rank == victim) die_while_writing();
      writer.save(20, state);
      writer.save(30, state);  // waits for the previous one, as a training step does
      writer.finish();
      const std::vector<std::string> errors = writer.take_errors();
      ASSERT_EQ(errors.size(), 2U);
      for (const std::string& error : errors)
        EXPECT_NE(error.find("rank " + std::to_string(victim) + " has ended"), std::string::npos) << error;
    });
    EXPECT_EQ(ends[static_cast<std::size_t>(victim)].signal, SIGKILL);
    EXPECT_EQ(ends[static_cast<std::size_t>(1 - victim)].exit_code, 0) << "a dead peer is an error, not an end";
    expect_loads(directory.path(), 10, 2, "fsdp=2", "S1");
  }
}

TEST(CheckpointProcesses, AllThatAreKilledWhileTheyWriteLeaveTheLastOne) {
  const CheckpointDirectory directory;
  const auto run = [&](std::int64_t first, std::int64_t second, bool dies) {
    return comm::run_rank_processes(2, [&, first, second, dies](int /*rank*/) {
      const CheckpointState state = state_on("fsdp=2", "S0");
      CheckpointWriter writer({.directory = directory.path()});
      save(writer, state, first);
      if (dies) die_while_writing();
      save(writer, state, second);
      EXPECT_TRUE(writer.take_errors().empty());
    });
  };
  for (const comm::ProcessEnd& end : run(10, 20, true)) EXPECT_EQ(end.signal, SIGKILL);
  EXPECT_TRUE(std::filesystem::exists(directory.path() / "step-000000020.partial"));
  expect_loads(directory.path(), 10, 1, "fsdp=1", "S0");
  EXPECT_TRUE(all_ended_well(run(20, 30, false)));
  EXPECT_FALSE(std::filesystem::exists(directory.path() / "step-000000020.partial"));
  expect_loads(directory.path(), 30, 2, "fsdp=2", "S0");
}

TEST(CheckpointProcesses, AnErrorOfTheKernelIsAnErrorOfTheSave) {
  const CheckpointDirectory directory;
  const auto ends = comm::run_rank_processes(2, [&](int rank) {
    const CheckpointState state = state_on("fsdp=2", "S0");
    CheckpointWriter writer({.directory = directory.path()});
    save(writer, state, 10);
    if (rank == 1) {  // limits the file size: like a full disk for the writer
      std::signal(SIGXFSZ, SIG_IGN);
      const rlimit limit{5000, 5000};
      ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
    }
    save(writer, state, 20);
    const std::vector<std::string> errors = writer.take_errors();
    ASSERT_EQ(errors.size(), 1U);
    EXPECT_NE(errors[0].find("File too large"), std::string::npos) << errors[0];
  });
  EXPECT_EQ(ends[0].exit_code, 0);
  expect_loads(directory.path(), 10, 2, "fsdp=2", "S0");
}

}  // namespace
}  // namespace tessera::train
