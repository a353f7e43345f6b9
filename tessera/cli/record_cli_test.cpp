// Tests `tessera record` from the command line, on the record of a running rank.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>
#include <nlohmann/json.hpp>

#include "tessera/base/probe/reader.h"
#include "tessera/base/probe/recorder.h"
#include "tessera/cli/testing/run_program.h"
#include "tessera/comm/process_group.h"
#include "tessera/comm/records.h"
#include "tessera/comm/store/store.h"
#include "tessera/comm/world.h"
#include "tessera/device/device.h"
#include "tessera/memory/allocator.h"

namespace tessera {
namespace {

using cli::testing::contains;
using cli::testing::Outcome;
using nlohmann::json;

Outcome run(const std::string& arguments) { return cli::testing::tessera("record " + arguments); }

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// A copy of the record of rank 0 of two, after three all_reduces, in a barrier that rank 1 has not reached.
class Record : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/tessera_record_XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    directory = name;
    file = directory + "/rank-0.node.1.a";
    simulate(2, [&] { work(); });
  }
  void TearDown() override { std::filesystem::remove_all(directory); }

  void work() const {
    const device::Device host = device::Device::get("host");
    const device::Stream stream = host.create_stream();
    const comm::ProcessGroup group = comm::world();
    const memory::Buffer x = memory::Allocator::of(host).allocate(64, stream);
    for (int i = 0; i < 3; ++i) group.all_reduce(x.data(), x.data(), 16, DType::kF32, {}, stream).wait();
    if (group.rank() == 1) (void)comm::store()->get("copied", std::chrono::minutes(1));
    const comm::Work last = group.launch({.kind = comm::OpKind::kBarrier}, stream);
    if (group.rank() == 0) {
      const std::string path = probe::recorder().path();
      const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(1);
      while (!contains(comm::text_of_groups(probe::RecordFile::open(path))[0], "runs #4")) {
        ASSERT_LT(std::chrono::steady_clock::now(), until);
        std::this_thread::yield();
      }
      std::filesystem::copy_file(path, file);
      comm::store()->set("copied", "");
    }
    last.wait();
  }

  std::string directory;
  std::string file;
};

TEST_F(Record, ShowsGroupsAndThenTheLatestRecordsOldestFirst) {
  const Outcome outcome = run(file);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  const std::vector<std::string> lines = lines_of(outcome.out);
  ASSERT_EQ(lines.size(), 13U) << outcome.out;
  EXPECT_EQ(lines[0],
            "world (ranks 0-1, thread, this is 0 of 2): 4 enqueued, the last barrier; runs #4 barrier (collective 4)");
  EXPECT_TRUE(contains(lines[1], "\tcomm_group ")) << lines[1];
  EXPECT_TRUE(contains(lines[2], "\tworld: launch 1, all_reduce(f32[16], sum) enqueued on host stream")) << lines[2];
  EXPECT_TRUE(contains(lines[3], "\tworld: #1 all_reduce(f32[16], sum) started (launch 1, collective 1)")) << lines[3];
  EXPECT_TRUE(contains(lines[4], "\tworld: #1 finished (launch 1)")) << lines[4];
  EXPECT_TRUE(contains(lines[12], "\tworld: #4 barrier started (launch 4, collective 4)")) << lines[12];
  EXPECT_TRUE(std::is_sorted(lines.begin() + 1, lines.end(), [](const std::string& a, const std::string& b) {
    return a.substr(0, 15) < b.substr(0, 15);
  })) << outcome.out;
}

TEST_F(Record, ShowsAsManyAsAskedForOfTheRingAskedFor) {
  const Outcome two = run(file + " --last 2");
  const std::vector<std::string> lines = lines_of(two.out);
  ASSERT_EQ(lines.size(), 3U) << two.out;
  EXPECT_TRUE(contains(lines[1], "world: launch 4, barrier enqueued")) << lines[1];
  const Outcome memory = run(file + " --ring memory");
  EXPECT_EQ(memory.code, 0);
  EXPECT_TRUE(contains(memory.out, "alloc")) << memory.out;
  EXPECT_FALSE(contains(memory.out, "started")) << memory.out;
  EXPECT_FALSE(contains(memory.out, "(table full)")) << "a record without a label has none: " << memory.out;
  const Outcome all = run(file + " --ring all --last 1000");
  EXPECT_TRUE(contains(all.out, "alloc") && contains(all.out, "started")) << all.out;
  EXPECT_EQ(run(file + " --ring nobody").code, 2);
}

TEST_F(Record, PrintsTheSameAsJson) {
  const Outcome outcome = run(file + " --json --last 3");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json shown = json::parse(outcome.out);
  EXPECT_EQ(shown["file"], file);
  EXPECT_EQ(shown["rank"], 0);
  ASSERT_EQ(shown["groups"].size(), 1U);
  EXPECT_TRUE(contains(shown["groups"][0], "runs #4 barrier"));
  ASSERT_EQ(shown["records"].size(), 3U);
  EXPECT_EQ(shown["records"][2]["text"], "world: #4 barrier started (launch 4, collective 4)");
  EXPECT_EQ(shown["records"][2]["ring"], "comm");
  EXPECT_GT(shown["records"][2]["wall_ns"], shown["records"][0]["wall_ns"]);
}

TEST_F(Record, AFileThatIsNoneIsAnErrorInOneLine) {
  std::ofstream(directory + "/other") << "nothing of ours";
  for (const std::string name : {"/missing", "/other"}) {
    const Outcome outcome = run(directory + name);
    EXPECT_EQ(outcome.code, 1);
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(lines_of(outcome.err).size(), 1U) << outcome.err;
    EXPECT_TRUE(contains(outcome.err, directory + name)) << outcome.err;
  }
}

TEST_F(Record, ADirectoryNamesItsRecordFiles) {
  const std::string runs = directory + "/some";
  std::filesystem::create_directory(runs);
  Outcome outcome = run(runs);
  EXPECT_EQ(outcome.code, 1);
  EXPECT_TRUE(contains(outcome.err, "got directory '" + runs + "'; it contains none")) << outcome.err;
  std::ofstream(runs + "/rank-0.node7.42.0.record") << "x";
  outcome = run(runs);
  EXPECT_TRUE(
      contains(outcome.err, "as in " + runs + "/rank-0.node7.42.0.record, or use `tessera explain " + runs + "`"))
      << outcome.err;
}

}  // namespace
}  // namespace tessera
