// Tests `tessera memory` from the command line, on record files written here.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>
#include <nlohmann/json.hpp>

#include "tessera/base/probe/recorder.h"
#include "tessera/cli/testing/run_program.h"
#include "tessera/memory/history.h"

namespace tessera {
namespace {

using cli::testing::contains;
using cli::testing::content;
using cli::testing::Outcome;
using nlohmann::json;

constexpr std::uint64_t kBase = 0x7f0000000000;
constexpr std::uint64_t kMiB = 1 << 20;

Outcome run(const std::string& arguments) { return cli::testing::tessera("memory " + arguments); }

// A file with one allocator, a private pool, two labels and a stack.
class Memory : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/tessera_memory_XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    directory = name;
    file = directory + "/rank-0.node.1.a";
    probe::Recorder recorder({}, {.nbytes = probe::RecordOptions::kMinBytes});
    auto table = recorder.table<memory::MemoryPoolRow>();
    const auto device = recorder.intern("cuda:0");
    auto shared = table.claim({1, 0, 0, 0, device, recorder.intern("default")});
    auto own = table.claim({2, 0, 4, 0, device, recorder.intern("decode")});
    const auto weights = recorder.intern("weights");
    const auto scratch = recorder.intern("scratch");
    const auto stack = recorder.intern("/opt/lib.so+0x10 /opt/app+0x20");
    const auto write = [&](const auto& record) { recorder.write(probe::Ring::kMemory, record); };
    write(memory::MapRecord{kBase, 8 * kMiB, 0, 1, true, true});
    write(memory::AllocRecord{kBase, 1000, 1024, 0, 1, weights, stack});
    write(memory::AllocRecord{kBase + kMiB, 3 * kMiB, 3 * kMiB, 0, 1, scratch, {}});
    write(memory::FreeRecord{kBase + kMiB, 3 * kMiB, 0, 1, {}, {}, true});
    write(memory::AllocRecord{kBase + 5 * kMiB, kMiB, kMiB, 0, 1, scratch, {}});
    write(memory::MapRecord{kBase << 1, 2 * kMiB, 3, 2, true, false});
    write(memory::AllocRecord{kBase << 1, 7, 512, 3, 2, {}, {}});
    std::filesystem::copy_file(recorder.path(), file);
  }
  void TearDown() override { std::filesystem::remove_all(directory); }

  static std::vector<std::vector<std::string>> rows(const std::string& text) {
    std::vector<std::vector<std::string>> all;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream cells(line);
      all.emplace_back();
      for (std::string cell; std::getline(cells, cell, '\t');) all.back().push_back(cell);
    }
    return all;
  }

  std::string directory;
  std::string file;
};

TEST_F(Memory, StatShowsTheIdentityAndLabels) {
  const Outcome outcome = run("stat " + file);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  const auto table = rows(outcome.out);
  ASSERT_EQ(table.size(), 9u) << outcome.out;
  using Row = std::vector<std::string>;
  EXPECT_EQ(table[0], (Row{"DEVICE", "RESERVED", "LIVE", "ROUNDING", "PENDING", "CACHED", "BLOCKS", "POOL"}));
  EXPECT_EQ(table[1][7], "(all)");
  EXPECT_EQ(table[2], (Row{"cuda:0", "8388608", "1049576", "24", "3145728", "4193280", "2", "default"}));
  EXPECT_EQ(table[3], (Row{"cuda:0", "2097152", "7", "505", "0", "2096640", "1", "decode (graph 4)"}));
  EXPECT_EQ(table[4], Row{});
  EXPECT_EQ(table[6], (Row{"cuda:0", "1048576", "1", "3145728", "2", "scratch"}));
  EXPECT_EQ(table[8], (Row{"cuda:0", "7", "1", "7", "1", "(no label)"}));
}

TEST_F(Memory, StatPrintsJson) {
  const json stat = json::parse(run("stat --json " + file).out);
  const json& each = stat.at("allocators").at(0);
  EXPECT_EQ(each.at("device"), "cuda:0");
  EXPECT_EQ(each.at("reserved_nbytes"),
            each.at("live_nbytes").get<std::uint64_t>() + each.at("rounding_nbytes").get<std::uint64_t>() +
                each.at("pending_nbytes").get<std::uint64_t>() + each.at("cached_nbytes").get<std::uint64_t>());
  EXPECT_EQ(each.at("pools").size(), 2u);
  EXPECT_EQ(each.at("labels").at(0).at("peak_nbytes"), 3 * kMiB);
  EXPECT_EQ(each.at("events"), 7);
}

TEST_F(Memory, StatIsReadableOnATerminal) {
  if (std::system("script -qec true /dev/null </dev/null >/dev/null 2>&1") != 0)
    GTEST_SKIP() << "script(1) cannot make a terminal here: it is absent, or there are no pseudo-terminals";
  const std::string command =
      "script -qec \"'" TESSERA_PROGRAM "' memory stat " + file + "\" /dev/null </dev/null >" + directory + "/out";
  EXPECT_EQ(std::system(command.c_str()), 0);
  const std::string text = content(directory + "/out");
  EXPECT_TRUE(contains(text, "RESERVED  = LIVE")) << text;
  EXPECT_TRUE(contains(text, "cuda:0  8 MiB     ")) << text;
  EXPECT_FALSE(contains(text, "\t")) << text;
}

TEST_F(Memory, TopShowsTheLargest) {
  const Outcome outcome = run("top -n 1 " + file);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(contains(outcome.out, "cuda:0\t1048576\t1\t3145728\tscratch\n")) << outcome.out;
  EXPECT_TRUE(contains(outcome.out, "cuda:0\t1000\t1\t/opt/lib.so+0x10 < /opt/app+0x20\n")) << outcome.out;
  EXPECT_TRUE(contains(outcome.out, "cuda:0\t3145728\t3145728\tpending\t0\tdefault\t0x7f0000100000\tscratch\n"))
      << outcome.out;
  EXPECT_EQ(rows(outcome.out).size(), 8u) << "three tables of one row";
  const json top = json::parse(run("top --json " + file).out);
  EXPECT_EQ(top.at("allocators").at(0).at("blocks").size(), 4u);
  EXPECT_EQ(top.at("allocators").at(0).at("call_sites").at(0).at("frames").size(), 2u);
}

TEST_F(Memory, DumpWritesWhatTheViewerLoads) {
  const std::string pickle = directory + "/s.pickle";
  const Outcome outcome = run("dump " + file + " -o " + pickle);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "wrote " + pickle + ": 1 device, 2 segments, 8 blocks, 7 events\n");
  EXPECT_EQ(run("dump " + file + " --format json -o " + directory + "/s.json").code, 0);
  const std::string check = "python3 " TESSERA_TREE "/tools/check_torch_snapshot.py " + pickle + " " + directory +
                            "/s.json >" + directory + "/said 2>&1";
  EXPECT_EQ(std::system(check.c_str()), 0) << content(directory + "/said");
  const json piped = json::parse(run("dump " + file + " --format json -o -").out);
  EXPECT_EQ(piped.at("segments").size(), 2u);
  const json said = json::parse(run("dump " + file + " --json -o " + pickle).out);
  EXPECT_EQ(said.at("path"), pickle);
  EXPECT_EQ(said.at("blocks"), 8);
}

TEST_F(Memory, DumpNamesItsFileAfterTheRecord) {
  const std::string command = "cd " + directory + " && '" TESSERA_PROGRAM "' memory dump " + file + " >/dev/null";
  EXPECT_EQ(std::system(command.c_str()), 0);
  EXPECT_TRUE(std::filesystem::exists(file + ".pickle"));
}

TEST_F(Memory, SymbolizeSaysWhatItCannotDo) {
  const Outcome outcome = run("dump --symbolize " + file + " -o " + directory + "/s.pickle");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_TRUE(contains(outcome.err, "/opt/lib.so: No such file") || contains(outcome.err, "addr2line is not installed"))
      << outcome.err;
}

TEST_F(Memory, TakesTheOnlyRecordOfARunDirectory) {
  EXPECT_EQ(run("stat " + directory).out, run("stat " + file).out);
  std::filesystem::copy_file(file, directory + "/rank-1.node.2.b");
  const Outcome outcome = run("stat " + directory);
  EXPECT_EQ(outcome.code, 1);
  EXPECT_TRUE(contains(outcome.err, "must contain one record file, got 2; name one of them, as in " + file))
      << outcome.err;
}

TEST_F(Memory, BadFilesGiveOneLine) {
  std::ofstream(directory + "/text") << std::string(8192, 'x');
  {
    probe::Recorder recorder({}, {.nbytes = probe::RecordOptions::kMinBytes});
    std::filesystem::copy_file(recorder.path(), directory + "/empty");
  }
  for (const char* verb : {"dump", "stat", "top"}) {
    for (const auto& [name, said] : std::vector<std::pair<std::string, std::string>>{
             {"/none", "No such file"}, {"/text", "not a record file"}, {"/empty", "contains no memory records"}}) {
      const Outcome outcome = run(std::string(verb) + " " + directory + name);
      EXPECT_EQ(outcome.code, 1);
      EXPECT_EQ(outcome.out, "");
      EXPECT_TRUE(outcome.err.starts_with("tessera: record file " + directory + name)) << outcome.err;
      EXPECT_TRUE(contains(outcome.err, said)) << outcome.err;
      EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    }
  }
  EXPECT_EQ(run("dump " + file + " -o /nonexistent/s.pickle").code, 1);
}

TEST_F(Memory, SpoiltFilesAreReadAsFarAsTheyGo) {
  std::filesystem::resize_file(file, 200 * 1024);
  const Outcome outcome = run("stat " + file);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(contains(outcome.err, "cut off")) << outcome.err;
}

TEST(MemoryUsage, SaysWhichVerbsThereAre) {
  EXPECT_TRUE(run("").err.starts_with("tessera: memory: command required; commands: dump, "));
  EXPECT_TRUE(run("dmup x").err.starts_with(
      "tessera: memory: unknown command 'dmup' (did you mean 'dump'?); commands: dump, "));
  EXPECT_EQ(
      run("stat --jsno x").err,
      "tessera: memory stat: unknown argument '--jsno' (did you mean '--json'?); see `tessera memory stat --help`\n");
  EXPECT_EQ(run("stat").code, 2);
  EXPECT_EQ(run("dump x --format svg").code, 2);
  for (const char* verb : {"", "dump", "stat", "top"}) {
    const Outcome help = run(std::string(verb) + " --help");
    EXPECT_EQ(help.code, 0);
    EXPECT_TRUE(contains(help.out, "  tessera memory ")) << "an example: " << help.out;
  }
}

}  // namespace
}  // namespace tessera
