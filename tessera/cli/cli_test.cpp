// Tests the command line: output, its destination, and exit codes.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <nlohmann/json.hpp>

#include "tessera/cli/testing/run_program.h"

namespace {

using tessera::cli::testing::contains;
using tessera::cli::testing::content;
using tessera::cli::testing::Outcome;
using tessera::cli::testing::tessera;

TEST(Command, HelpAndVersionGoToStdout) {
  const Outcome help = tessera("--help");
  EXPECT_EQ(help.code, 0);
  EXPECT_TRUE(contains(help.out, "info")) << help.out;
  EXPECT_TRUE(contains(help.out, "Exit codes: 0 success, 1 the command failed")) << help.out;
  EXPECT_EQ(help.err, "");
  const Outcome version = tessera("--version");
  EXPECT_EQ(version.code, 0);
  EXPECT_EQ(version.out, "tessera " TESSERA_VERSION "\n");
  const Outcome verb = tessera("info --help");
  EXPECT_EQ(verb.code, 0);
  EXPECT_TRUE(contains(verb.out, "--clean")) << verb.out;
}

TEST(Command, NoVerbIsHelpOnStderr) {
  const Outcome outcome = tessera("");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_TRUE(contains(outcome.err, "Usage: tessera")) << outcome.err;
}

TEST(Command, AnUnknownVerbSuggestsTheNearest) {
  const Outcome near = tessera("inof");
  EXPECT_EQ(near.code, 2);
  EXPECT_EQ(near.out, "");
  EXPECT_EQ(near.err,
            "tessera: unknown command 'inof' (did you mean 'info'?); commands: checkpoint, eval, explain, export, "
            "generate, help, info, layout, memory, ops, record, run, tokenize, train, version, view, watch\n");
  EXPECT_EQ(tessera("frobnicate").err,
            "tessera: unknown command 'frobnicate'; commands: checkpoint, eval, explain, export, generate, help, info, "
            "layout, "
            "memory, ops, record, run, tokenize, train, version, view, watch\n");
}

TEST(Command, AnUnknownOptionSuggestsTheNearest) {
  const Outcome outcome = tessera("info --jsno");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.err,
            "tessera: info: unknown argument '--jsno' (did you mean '--json'?); see `tessera info --help`\n");
  const Outcome global = tessera("--vresion");
  EXPECT_EQ(global.code, 2);
  EXPECT_EQ(global.err, "tessera: unknown argument '--vresion' (did you mean '--version'?); see `tessera --help`\n");
  EXPECT_EQ(tessera("info more").code, 2);
  EXPECT_EQ(tessera("info --env --clean").code, 2);
}

TEST(Command, AnOptionForEachInputTakesOneValue) {
  EXPECT_EQ(tessera("layout explain --input a b").err,
            "tessera: layout explain: unknown argument 'b'; see `tessera layout explain --help`\n");
  EXPECT_EQ(tessera("layout explain --input").err, "tessera: --input: 1 required TEXT missing\n");
}

TEST(Command, AFullDiskIsAFailure) {
  EXPECT_EQ(std::system("'" TESSERA_PROGRAM "' info >/dev/full 2>/dev/null") >> 8, 1);
}

TEST(Info, PrintsKeysAndValuesInAPipe) {
  const Outcome outcome = tessera("info", "TESSERA_RECORD=off");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(contains(outcome.out, "tessera.version\t" TESSERA_VERSION "\n")) << outcome.out;
  EXPECT_TRUE(contains(outcome.out, "build.compiler\t")) << outcome.out;
  EXPECT_TRUE(contains(outcome.out, "environment.TESSERA_RECORD\toff\n")) << outcome.out;
  EXPECT_FALSE(contains(outcome.out, "\033")) << "colour in a pipe";
}

// oneDNN's own variable stands for a library that does not know the processor.
TEST(Info, WarnsOfSlowProducts) {
  const Outcome slow = tessera("info --json", "ONEDNN_MAX_CPU_ISA=SSE41");
  const auto compute = nlohmann::json::parse(slow.out).at("compute");
  EXPECT_TRUE(contains(compute.at("products"), "(sse41)")) << compute;
  EXPECT_EQ(compute.at("bf16_products"), "converted to f32");
  const bool is_slow = compute.at("product_gflops").get<double>() < 0.5 * compute.at("peak_gflops").get<double>();
  EXPECT_TRUE(!is_slow || contains(compute.at("warning"), "slow")) << compute;
}

TEST(Info, ListsTheEnvironmentAsATable) {
  const Outcome outcome = tessera("info --env", "env -u TESSERA_RECORD_BYTES TESSERA_HOST_SEED=7");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  std::istringstream lines(outcome.out);
  std::string line;
  int rows = 0;
  while (std::getline(lines, line)) {
    EXPECT_EQ(std::count(line.begin(), line.end(), '\t'), 5) << line;
    ++rows;
  }
  EXPECT_GE(rows, 12);
  EXPECT_TRUE(contains(outcome.out, "TESSERA_HOST_SEED\t7\t0\tenvironment\tinteger\t")) << outcome.out;
  EXPECT_TRUE(contains(outcome.out, "TESSERA_RECORD_BYTES\t32MiB\t32MiB\tdefault\tsize\t")) << outcome.out;
}

TEST(Info, SaysWhatIsWrongWithTheEnvironment) {
  const Outcome bad = tessera("info --env", "TESSERA_HOST_MODE=theraded TESSERA_RECROD=on");
  EXPECT_EQ(bad.code, 0);
  EXPECT_TRUE(contains(bad.out, "TESSERA_HOST_MODE\ttheraded\tinline\tenvironment, refused\t")) << bad.out;
  EXPECT_TRUE(contains(bad.err, "must be one of inline|threaded|seeded")) << bad.err;
  EXPECT_TRUE(contains(bad.err, "TESSERA_RECROD; did you mean TESSERA_RECORD?")) << bad.err;
}

TEST(Info, PrintsJson) {
  const auto info = nlohmann::json::parse(tessera("info --json").out);
  EXPECT_EQ(info.at("version"), TESSERA_VERSION);
  EXPECT_TRUE(info.at("build").at("cuda").is_boolean());
  EXPECT_TRUE(info.at("devices").is_array());
  EXPECT_TRUE(contains(info.at("compute").at("products"), "oneDNN"));
  EXPECT_GT(info.at("compute").at("product_gflops"), 0.0);
  EXPECT_GT(info.at("compute").at("peak_gflops"), 0.0);
  EXPECT_GT(info.at("compute").at("bf16_product_gflops"), 0.0);
  EXPECT_NE(info.at("compute").at("bf16_products"), "");
  EXPECT_NE(info.at("compute").at("amx"), "");
  EXPECT_TRUE(info.at("records").is_array());
  const auto env = nlohmann::json::parse(tessera("info --env --json", "TESSERA_RECROD=on").out);
  EXPECT_GE(env.at("variables").size(), 11u);
  EXPECT_EQ(env.at("unknown").at(0).at("nearest"), "TESSERA_RECORD");
  const auto odd = nlohmann::json::parse(tessera("info --json", "TESSERA_RUN_DIR=\"$(printf '/tmp/\\377')\"").out);
  EXPECT_EQ(odd.at("environment").at("variables").at(0).at("value"), "/tmp/\xef\xbf\xbd");
}

TEST(Info, IsReadableOnATerminal) {
  if (std::system("script -qec true /dev/null </dev/null >/dev/null 2>&1") != 0)
    GTEST_SKIP() << "script(1) cannot make a terminal here: it is absent, or there are no pseudo-terminals";
  char path[] = "/tmp/tessera_cli_XXXXXX";
  ::close(::mkstemp(path));
  const std::string command =
      std::string("script -qec \"stty cols 100; '" TESSERA_PROGRAM "' info --env\" /dev/null </dev/null >") + path;
  EXPECT_EQ(std::system(command.c_str()), 0);
  const std::string text = content(path);
  std::filesystem::remove(path);
  EXPECT_TRUE(contains(text, "\033[1mNAME ")) << text;
  EXPECT_FALSE(contains(text, "\t")) << text;
}

TEST(Cli, HelpAndVersionAreWordsToo) {
  EXPECT_EQ(tessera("version").out, tessera("--version").out);
  EXPECT_EQ(tessera("help").out, tessera("--help").out);
  EXPECT_EQ(tessera("help explain").out, tessera("explain --help").out);
  EXPECT_EQ(tessera("help memory stat").out, tessera("memory stat --help").out);
  EXPECT_TRUE(contains(tessera("help explain").out, "RUN_DIR"));
  EXPECT_EQ(tessera("help nosuch").code, 2);
}

}  // namespace
