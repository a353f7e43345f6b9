// Tests `tessera ops` from the command line.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tessera/cli/testing/run_program.h"
#include "tessera/tensor/op_def.h"

namespace tessera {
namespace {

using cli::testing::contains;
using cli::testing::Outcome;
using nlohmann::json;

Outcome run(const std::string& arguments) { return cli::testing::tessera("ops " + arguments); }

TEST(Ops, ListsEveryOperatorOfTheLibrary) {
  const Outcome outcome = run("");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(outcome.out.starts_with("OPERATOR\tARGUMENTS\tRESULTS\tHOST\tCUDA\tGRAD\tRULE\t")) << outcome.out;
  const auto ops = tensor::all_ops();
  EXPECT_GE(ops.size(), 10U) << "operators of the library register themselves";
  EXPECT_EQ(static_cast<std::size_t>(std::ranges::count(outcome.out, '\n')), ops.size() + 1);
  for (const tensor::Operator& op : ops) EXPECT_TRUE(contains(outcome.out, "\n" + op.name() + "\t")) << op.name();
}

TEST(Ops, ShowsOneWithItsArgumentsAttributesAndRule) {
  const Outcome add = run("add");
  EXPECT_EQ(add.code, 0) << add.err;
  for (const char* line : {"operator.name\tadd\n", "operator.host\tyes\n", "operator.grad\tyes\n",
                           "operator.pointwise\tyes\n", "example.rule\tadd: "}) {
    EXPECT_TRUE(contains(add.out, line)) << line << " is not in\n" << add.out;
  }
  const Outcome softmax = run("softmax");
  EXPECT_TRUE(contains(softmax.out, "operator.attributes\tdim")) << softmax.out;
  EXPECT_TRUE(contains(softmax.out, "example.call\tsoftmax(x: f32[6, 8] on host; dim=")) << softmax.out;
}

TEST(Ops, PrintsJson) {
  const json all = json::parse(run("--json").out);
  EXPECT_EQ(all["operators"].size(), tensor::all_ops().size());
  for (const json& op : all["operators"]) {
    EXPECT_TRUE(op["has"]["host"].is_boolean()) << op;
    EXPECT_FALSE(op["outputs"].empty()) << op;
  }
  const json one = json::parse(run("add --json").out);
  EXPECT_EQ(one["name"], "add");
  EXPECT_EQ(one["inputs"].size(), 2U);
}

TEST(Ops, Filters) {
  const auto names = [](const std::string& arguments) {
    const json found = json::parse(run("--json " + arguments).out)["operators"];
    std::vector<std::string> list;
    for (const json& op : found) list.push_back(op["name"]);
    return list;
  };
  for (const std::string& name : names("--match soft")) EXPECT_TRUE(contains(name, "soft"));
  EXPECT_FALSE(names("--match softmax").empty());
  EXPECT_EQ(names("--match matmul"), (std::vector<std::string>{"bmm", "contract", "mm"}));
  EXPECT_TRUE(contains(cli::testing::tessera("ops matmul").err, "composed of the operators mm bmm contract"));
  const auto pointwise = names("--has pointwise --lacks grad");
  EXPECT_EQ(std::ranges::count(pointwise, "add"), 0);
  EXPECT_TRUE(names("--match no_such_operator").empty());
}

TEST(Ops, SaysWhatIsWrong) {
  const auto refused = [](const std::string& arguments, const std::string& word) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 2) << arguments;
    EXPECT_EQ(outcome.out, "") << arguments;
    EXPECT_TRUE(outcome.err.starts_with("tessera: ") && contains(outcome.err, word)) << outcome.err;
  };
  refused("sotfmax", "did you mean 'softmax'");
  refused("--has gard", "did you mean 'grad'");
  refused("--lacks nothing", "properties: host, cuda");
  refused("--json --markdown", "--json and --markdown exclude each other");
  refused("add --markdown", "omit NAME");
}

TEST(Ops, PrintsThePageOfTheDocumentation) {
  const Outcome outcome = run("--markdown");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(outcome.out.starts_with("# Operators\n"));
  EXPECT_TRUE(contains(outcome.out, "\n| operator | arguments | attributes | host | cuda |")) << outcome.out;
  EXPECT_TRUE(contains(outcome.out, "\n| `add` | ")) << outcome.out;
}

// The gate that compares the page with the program must detect differences.
TEST(OpsPage, TheGateSeesWhatIsMissingStaleOrChanged) {
  const std::string base = std::filesystem::temp_directory_path() / ("tessera_ops_" + std::to_string(::getpid()));
  const std::string page = base + ".md";
  const auto gate = [&](const std::string& more) {
    const std::string command = "python3 '" TESSERA_TREE "/tools/check_operators.py' --program '" TESSERA_PROGRAM
                                "' --page " +
                                page + more + " > " + base + ".txt 2>&1";
    return std::system(command.c_str());
  };
  const auto change = [&](const std::string& from, const std::string& to) {
    std::string text = cli::testing::content(page);
    const std::size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    std::ofstream(page) << text.replace(at, from.size(), to);
  };
  EXPECT_NE(gate(""), 0) << "there is no page";
  EXPECT_EQ(gate(" --update"), 0);
  EXPECT_EQ(gate(""), 0) << cli::testing::content(base + ".txt");
  change("| `add` |", "| `adds` |");
  EXPECT_NE(gate(""), 0);
  EXPECT_TRUE(contains(cli::testing::content(base + ".txt"), "no longer true: | `adds` |"));
  EXPECT_EQ(gate(" --update"), 0);
  change("# Operators\n", "# Operators\n\nMore.\n");
  EXPECT_NE(gate(""), 0);
  EXPECT_EQ(gate(" --update"), 0);
  std::string with_cuda = "| `div` | a, b -> out | | yes | yes |";
  std::string without_cuda = "| `div` | a, b -> out | | yes | |";
  if (!contains(cli::testing::content(page), with_cuda)) std::swap(with_cuda, without_cuda);  // in a build without CUDA
  change(with_cuda, without_cuda);
  EXPECT_EQ(gate(" --without-cuda"), 0) << "a build without CUDA cannot know\n" << cli::testing::content(base + ".txt");
  EXPECT_EQ(gate(" --without-cuda --update"), 0);
  change(without_cuda, without_cuda);
  std::filesystem::remove(page);
  std::filesystem::remove(base + ".txt");
}

}  // namespace
}  // namespace tessera
