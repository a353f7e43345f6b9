// Tests `tessera export` from the command line, on the records of two ranks.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>
#include <nlohmann/json.hpp>

#include "tessera/base/probe/annotation.h"
#include "tessera/base/probe/recorder.h"
#include "tessera/cli/testing/run_program.h"
#include "tessera/cli/testing/simulated_run.h"
#include "tessera/comm/work.h"
#include "tessera/device/launch_records.h"

namespace tessera {
namespace {

using cli::testing::contains;
using cli::testing::content;
using cli::testing::Outcome;
using nlohmann::json;
namespace fs = std::filesystem;

class ExportedRun : public cli::testing::SimulatedRun {
 protected:
  [[nodiscard]] Outcome to(const std::string& format, const std::string& more = "") const {
    return cli::testing::tessera("export " + run + " --to " + format + " " + more);
  }
  static std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
  }
  static std::size_t kernels_in(const std::string& path) {
    std::size_t count = 0;
    const json trace = json::parse(content(path));
    for (const json& event : trace.at("traceEvents")) count += event.value("cat", "") == "kernel" ? 1 : 0;
    return count;
  }
};

class Export : public ExportedRun {
 protected:
  void SetUp() override {
    ExportedRun::SetUp();
    work();
  }
};

TEST_F(Export, ChromeWritesATraceForEachRankAndPrintsThem) {
  const Outcome outcome = to("chrome");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  const std::vector<std::string> lines = lines_of(outcome.out);
  ASSERT_EQ(lines.size(), 2U) << outcome.out;
  for (int rank = 0; rank < 2; ++rank) {
    const std::string path = run + "/export/chrome/trace_rank_" + std::to_string(rank) + ".json";
    EXPECT_EQ(lines[static_cast<std::size_t>(rank)], path);
    const json trace = json::parse(content(path));
    EXPECT_EQ(trace.at("distributedInfo").at("rank"), rank);
    EXPECT_EQ(trace.at("distributedInfo").at("world_size"), 2);
    EXPECT_EQ(kernels_in(path), 3U);
    EXPECT_TRUE(contains(trace.dump(), "\"label\":\"gradients\""));
  }
  EXPECT_EQ(to("chrome").out, outcome.out) << "a second time, over the first";
}

class ExportOfAProfile : public ExportedRun {
 protected:
  void SetUp() override {
    ExportedRun::SetUp();
    work([](const comm::ProcessGroup& group, const device::Stream& stream) {
      const device::ProfileWindow window;
      const probe::Annotation scope("step", 117);
      stream.run([] {}, {.label = "softmax"});
      group.launch({.kind = comm::OpKind::kBarrier}, stream).wait();
      stream.synchronize();
    });
  }
};

TEST_F(ExportOfAProfile, ChromeShowsKernelsAndMarksThatHaveEnded) {
  const Outcome outcome = to("chrome");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  for (const char* rank : {"0", "1"}) {
    const std::string path = run + "/export/chrome/trace_rank_" + rank + ".json";
    EXPECT_EQ(kernels_in(path), 5U) << "four collectives and a kernel";
    const std::string trace = content(path);
    EXPECT_TRUE(contains(trace, "\"name\": \"softmax\""));
    EXPECT_TRUE(contains(trace, "\"name\": \"step 117\""));
  }
}

TEST_F(Export, ChromeKeepsToTheSizeThatItWasGiven) {
  const Outcome outcome = to("chrome", "--out " + directory + "/traces --max-size 5000");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const std::string path = directory + "/traces/trace_rank_1.json";
  EXPECT_LE(fs::file_size(path), 5000U);
  const std::size_t kept = kernels_in(path);
  EXPECT_LT(kept, 3U);
  EXPECT_TRUE(contains(outcome.out, path + "\tomitted the " + std::to_string(3 - kept) +
                                        " oldest of 3 launches, kernels and annotations to stay within"))
      << outcome.out;
  EXPECT_FALSE(fs::exists(run + "/export"));
  const Outcome small = to("chrome", "--max-size 100B");
  EXPECT_EQ(small.code, 2);
  EXPECT_TRUE(contains(small.err, "bytes, got 100; increase it")) << small.err;
  EXPECT_EQ(to("chrome", "--max-size many").code, 2);
  const Outcome other = to("json", "--max-size 1MiB");
  EXPECT_EQ(other.code, 2);
  EXPECT_TRUE(contains(other.err, "--max-size: requires --to chrome, got --to json")) << other.err;
}

TEST_F(Export, TorchMemoryWritesWhatTheViewerLoads) {
  const Outcome outcome = to("torch-memory", "--out " + directory + "/m");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, directory + "/m/memory_rank_0.pickle\n" + directory + "/m/memory_rank_1.pickle\n");
  const std::string check = "python3 " TESSERA_TREE "/tools/check_torch_snapshot.py " + directory + "/m/*.pickle >" +
                            directory + "/said 2>&1";
  EXPECT_EQ(std::system(check.c_str()), 0) << content(directory + "/said");
  EXPECT_TRUE(contains(content(directory + "/m/memory_rank_0.pickle"), "gradients"));
}

TEST_F(Export, TorchFlightRecorderWritesPicklesAsPyTorchNamesThem) {
  const Outcome outcome = to("torch-fr", "--out " + directory + "/fr");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, directory + "/fr/comm_lib_trace_rank_0\n" + directory + "/fr/comm_lib_trace_rank_1\n");
  const std::string check = "python3 -c \"import pickle; d = pickle.load(open('" + directory +
                            "/fr/comm_lib_trace_rank_1', 'rb')); assert d['version'] == '2.10', d; "
                            "assert len(d['entries']) == 3, d\" 2>" +
                            directory + "/said";
  EXPECT_EQ(std::system(check.c_str()), 0) << content(directory + "/said");
  // The output is a readable run.
  const Outcome again = cli::testing::tessera("export " + directory + "/fr --to json");
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(json::parse(content(directory + "/fr/export/json/evidence.json")).at("ranks").size(), 2U);
  const Outcome memory = cli::testing::tessera("export " + directory + "/fr --to torch-memory");
  EXPECT_EQ(memory.code, 1);
  EXPECT_TRUE(contains(memory.err, "flight recorder pickles contain no memory records")) << memory.err;
}

TEST_F(Export, JsonWritesAllThatIsKnown) {
  const Outcome outcome = to("json", "--json");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const json said = json::parse(outcome.out);
  EXPECT_EQ(said.at("to"), "json");
  const std::string path = said.at("files").at(0).at("path");
  EXPECT_EQ(path, run + "/export/json/evidence.json");
  const json all = json::parse(content(path));
  EXPECT_EQ(all.at("source"), run);
  EXPECT_EQ(all.at("ranks").at(1).at("groups").at(0).at("launches").size(), 3U);
  EXPECT_EQ(all.at("ranks").at(1).at("state"), "running");
}

TEST_F(Export, ARankWithoutAFileIsToldAndTheOthersAreWritten) {
  fs::remove(record_of(0));
  for (const std::string format : {"chrome", "torch-memory", "torch-fr"}) {
    const Outcome outcome = to(format);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(lines_of(outcome.out).size(), 1U) << outcome.out;
    EXPECT_TRUE(contains(outcome.err, "rank 0: no file written: the rank has no record file")) << outcome.err;
  }
  EXPECT_EQ(to("json").code, 0);
}

TEST_F(Export, ARankWithoutMemoryRecordsIsTold) {
  fs::remove(record_of(0));
  fs::remove(record_of(1));
  {
    const probe::Recorder recorder(RankPlace{.rank = tessera::Rank{0}, .world_size = 1, .run_dir = run},
                                   {.nbytes = probe::RecordOptions::kMinBytes});
  }
  const Outcome outcome = to("torch-memory");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_TRUE(contains(outcome.err, "rank 0: no file written: ")) << outcome.err;
  EXPECT_TRUE(contains(outcome.err, "contains no data for --to torch-memory")) << outcome.err;
}

TEST_F(Export, RefusesWhatItCannot) {
  const Outcome missing = cli::testing::tessera("export " + directory + "/none --to chrome");
  EXPECT_EQ(missing.code, 1);
  EXPECT_TRUE(contains(missing.err, directory + "/none")) << missing.err;
  EXPECT_EQ(missing.out, "");
  fs::create_directory(directory + "/empty");
  const Outcome empty = cli::testing::tessera("export " + directory + "/empty --to json");
  EXPECT_EQ(empty.code, 1);
  EXPECT_EQ(lines_of(empty.err).size(), 1U) << empty.err;
  EXPECT_FALSE(fs::exists(directory + "/empty/export"));
  EXPECT_EQ(to("svg").code, 2);
  EXPECT_EQ(cli::testing::tessera("export " + run).code, 2);
  std::ofstream(directory + "/file") << "here";
  const Outcome taken = to("chrome", "--out " + directory + "/file");
  EXPECT_EQ(taken.code, 1);
  EXPECT_TRUE(contains(taken.err, directory + "/file") && contains(taken.err, "--out")) << taken.err;
  EXPECT_EQ(content(directory + "/file"), "here");
}

}  // namespace
}  // namespace tessera
