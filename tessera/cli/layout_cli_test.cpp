// Tests `tessera layout` from the command line.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tessera/cli/testing/run_program.h"

namespace tessera {
namespace {

using cli::testing::contains;
using cli::testing::content;
using cli::testing::Outcome;
using nlohmann::json;

Outcome run(const std::string& arguments) { return cli::testing::tessera("layout " + arguments); }

TEST(LayoutShow, TellsWhatEachRankHolds) {
  const Outcome outcome = run("show --mesh dp=2,tp=4 --shape 8x6 --layout S0,S1");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(outcome.out,
            "layout.mesh\tdp=2,tp=4\n"
            "layout.ranks\t8\n"
            "layout.placements\t{Shard(0), Shard(1)}\n"
            "layout.hash\t639a7c25703406a5b78cc891a972da1e\n"
            "layout.shape\t8x6\n"
            "layout.largest_part\t8\n"
            "axis.dp\tShard(0)\n"
            "axis.tp\tShard(1)\n"
            "\n"
            "RANK\tdp\ttp\tELEMENTS\tHOLDS\n"
            "0\t0\t0\t8\t[0:4, 0:2]\n"
            "1\t0\t1\t8\t[0:4, 2:4]\n"
            "2\t0\t2\t8\t[0:4, 4:6]\n"
            "3\t0\t3\t0\t[0:4, 6:6]\n"
            "4\t1\t0\t8\t[4:8, 0:2]\n"
            "5\t1\t1\t8\t[4:8, 2:4]\n"
            "6\t1\t2\t8\t[4:8, 4:6]\n"
            "7\t1\t3\t0\t[4:8, 6:6]\n"
            "\n"
            "OWNERS\t0:2\t2:4\t4:6\n"
            "0:4\t0\t1\t2\n"
            "4:8\t4\t5\t6\n");
}

TEST(LayoutShow, ShowsRunsReplicasAndOrder) {
  const std::string runs = run("show --mesh dp=2,tp=4 --shape 16 --layout 'R,S(0,blocks=2)'").out;
  EXPECT_TRUE(contains(runs, "5\t1\t1\t4\t[2:4+8x2]\n")) << runs;
  EXPECT_TRUE(contains(runs, "OWNERS\t0:2\t2:4\t4:6\t6:8\t8:10\t10:12\t12:14\t14:16\nall\t0,4\t1,5\t2,6\t3,7\t0,4\t"))
      << runs;
  const std::string turned = run("show --layout 'dp=2,tp=2 {Shard(0, order=1), Shard(0, order=0)}' --shape 8").out;
  EXPECT_TRUE(contains(turned, "axis.dp\tShard(0, order=1)\naxis.tp\tShard(0, order=0)\n")) << turned;
  EXPECT_TRUE(contains(turned, "OWNERS\t0:2\t2:4\t4:6\t6:8\nall\t0\t2\t1\t3\n")) << turned;
  const std::string partial = run("show --mesh dp=16,tp=4 --shape 4x4 --layout 'P(max),S0' --most 1").out;
  EXPECT_TRUE(contains(partial, "axis.dp\tPartial(max)\n")) << partial;
  EXPECT_TRUE(contains(partial, "0:1\t0,4,8,12,...,60\n")) << partial;
  EXPECT_TRUE(contains(run("show --mesh x=4 --shape 8 --layout R").out, "OWNERS\t0:8\nall\t0-3\n"));
}

TEST(LayoutShow, HundredThousandRanksAreAsQuick) {
  const Outcome outcome =
      run("show --mesh pp=10,dp=1250,tp=8 --shape 4096x512x3 --layout R,S0,S1 --rank 99999,5,100000 --most 3");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(contains(outcome.out,
                       "RANK\tpp\tdp\ttp\tELEMENTS\tHOLDS\n"
                       "99999\t9\t1249\t7\t0\t[4096:4096, 448:512, 0:3]\n"
                       "5\t0\t0\t5\t768\t[0:4, 320:384, 0:3]\n"
                       "100000\t-\t-\t-\t0\tnothing: the rank is not in the mesh\n"))
      << outcome.out;
  EXPECT_FALSE(contains(outcome.out, "OWNERS")) << "three dimensions are not drawn";
  const Outcome first = run("show --mesh pp=10,dp=1250,tp=8 --shape 4096x512 --layout R,S0,S1 --most 2");
  EXPECT_TRUE(contains(first.out, "1\t0\t0\t1\t256\t[0:4, 64:128]\n\nOWNERS\t0:64\t64:128\n0:4\t")) << first.out;
  EXPECT_TRUE(contains(first.err, "first 2 shards")) << first.err;
}

TEST(LayoutShow, NeedsNoShape) {
  const Outcome outcome = run("show --mesh dp=2@network,tp=4 --layout S0,P");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(contains(outcome.out, "layout.mesh\tdp=2@network,tp=4\n")) << outcome.out;
  EXPECT_TRUE(outcome.out.ends_with("axis.dp\tShard(0)\naxis.tp\tPartial()\n")) << outcome.out;
  const Outcome scalar = run("show --mesh dp=2 --layout R --shape scalar");
  EXPECT_TRUE(scalar.out.ends_with("RANK\tdp\tELEMENTS\tHOLDS\n0\t0\t1\t[]\n1\t1\t1\t[]\n")) << scalar.out;
}

TEST(LayoutShow, PrintsJson) {
  const json shown = json::parse(run("show --mesh dp=2,tp=4 --shape 8x24 --layout 'S0,S(1,blocks=3)' --json").out);
  EXPECT_EQ(shown.at("layout"), "{Shard(0), Shard(1, blocks=3)}");
  EXPECT_EQ(shown.at("hash").get<std::string>().size(), 32U);
  EXPECT_EQ(shown.at("axes").at(1).at("placement"), "Shard(1, blocks=3)");
  EXPECT_EQ(shown.at("axes").at(1).at("link"), "nvlink");
  EXPECT_EQ(shown.at("largest_part_numel"), 24);
  const json& rank = shown.at("ranks").at(5);
  EXPECT_EQ(rank.at("coordinates"), (json{1, 1}));
  EXPECT_EQ(rank.at("index").at(0), (json{{"offset", 4}, {"block", 4}, {"levels", json::array()}}));
  EXPECT_EQ(rank.at("index").at(1),
            (json{{"offset", 2}, {"block", 2}, {"levels", json::array({json{{"count", 3}, {"stride", 8}}})}}));
}

TEST(LayoutShow, DrawsOnATerminal) {
  if (std::system("script -qec true /dev/null </dev/null >/dev/null 2>&1") != 0)
    GTEST_SKIP() << "script(1) cannot make a terminal here: it is absent, or there are no pseudo-terminals";
  char directory[] = "/tmp/tessera_layout_XXXXXX";
  ASSERT_NE(::mkdtemp(directory), nullptr);
  const std::string out = std::string(directory) + "/out";
  const std::string command = "script -qec \"'" TESSERA_PROGRAM
                              "' layout show --mesh dp=2,tp=4 --shape 8x6 --layout S0,S1 --most 6\" /dev/null "
                              "</dev/null >" +
                              out;
  EXPECT_EQ(std::system(command.c_str()), 0);
  const std::string text = content(out);
  EXPECT_TRUE(contains(text, "0:4 |  0  |  1  |  2  |\r\n    +-----+-----+-----+\r\n4:8 |  4  |  5  |  6  |")) << text;
  EXPECT_TRUE(contains(text, "(2 more ranks; ")) << text;
  EXPECT_FALSE(contains(text, "\t")) << text;
  std::filesystem::remove_all(directory);
}

TEST(LayoutUsage, SaysInOneLineWhatIsWrong) {
  struct Wrong {
    std::string arguments;
    std::string said;
  };
  for (const auto& [arguments, said] : {
           Wrong{"show --mesh dp=2,tp --layout S0,R", "mesh 'dp=2,tp', column 8: expected '='"},
           Wrong{"show --mesh dp=2,tp=4 --layout S0", "2 axes, got 1 placements"},
           Wrong{"show --mesh dp=2,tp=4 --layout S0,Shrd --shape 4", "did you mean 'Shard'"},
           Wrong{"show --mesh dp=2,tp=4 --layout S0,S1 --shape 8", "shards dimension 1, but shape [8] has 1"},
           Wrong{"show --mesh dp=2 --layout 'S(0,blocks=3)' --shape 8", "not a multiple of 3 blocks"},
           Wrong{"show --mesh dp=2 --layout S0 --shape 8y6", "layout: shape '8y6': must have 'x'"},
           Wrong{"show --mesh dp=2 --layout S0 --shape x6", "shape 'x6': must have a size"},
           Wrong{"show --mesh dp=2 --layout S0 --shape 8x-6", "must have a size at '-6'"},
           Wrong{"show --mesh dp=2 --layout S0 --shape 99999999999999999999", "must have a size"},
           Wrong{"show --mesh dp=2 --layout S0 --shape 4611686018427387905", "at most 2^62"},
       }) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 2) << arguments;
    EXPECT_EQ(outcome.out, "") << arguments;
    EXPECT_TRUE(outcome.err.starts_with("tessera: ") && contains(outcome.err, said)) << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
  EXPECT_EQ(run("show --mesh dp=2").code, 2) << "--layout is required";
  EXPECT_EQ(run("show --mesh dp=2 --layout S0 --most 0").code, 2);
  EXPECT_TRUE(run("").err.starts_with("tessera: layout: command required; commands: "));
  EXPECT_TRUE(contains(run("shwo").err, "did you mean 'show'"));
}

TEST(LayoutUsage, HelpGivesExamples) {
  for (const char* verb : {"", "show"}) {
    const Outcome help = run(std::string(verb) + " --help");
    EXPECT_EQ(help.code, 0);
    EXPECT_TRUE(contains(help.out, "  tessera layout ")) << help.out;
  }
}

TEST(LayoutPlan, PrintsThePlanItsGradientAndOtherWays) {
  const Outcome outcome = run("plan --mesh dp=2,tp=4 --shape 4096x512 --from S0,R --to R,S1");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  for (const char* line :
       {"plan.mesh\tdp=2,tp=4\n", "plan.from\t{Shard(0), Replicate()}\n", "plan.min_received\t1048576\n",
        "STEP\tOVER\tTO\tRECEIVED\tCOPIED\tPEAK\tUS\n", "slice\ttp\t{Shard(0), Shard(1)}\t0\t1048576\t5242880\t2.70\n",
        "all-gather\tdp\t{Replicate(), Shard(1)}\t1048576\t0\t", "gradient.from\t{Partial(), Shard(1)}\n",
        "reduce-scatter\tdp\t{Shard(0), Shard(1)}", "ALTERNATIVE\tSTEPS\tRECEIVED\tPEAK\tUS\n",
        "the plan\tslice tp; all-gather dp\t", "at once\tbox exchange dp,tp\t",
        "gather, then slice\tall-gather dp; slice tp\t",
        "assumed.nvlink\t0.7 us per hop, 300 GB/s received per rank\n"}) {
    EXPECT_TRUE(contains(outcome.out, line)) << line << " is not in\n" << outcome.out;
  }
}

TEST(LayoutPlan, PrintsJson) {
  const Outcome outcome = run("plan --mesh x=4 --shape 64x64 --from P --to S0 --dtype bf16 --json");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const json found = json::parse(outcome.out);
  EXPECT_EQ(found["plan"]["steps"][0]["kind"], "reduce-scatter");
  EXPECT_EQ(found["plan"]["nbytes"], 64 * 64 * 2 * 3 / 4);
  EXPECT_EQ(found["min_nbytes"], 64 * 64 * 2 * 3 / 4);
  EXPECT_EQ(found["gradient"]["steps"][0]["kind"], "all-gather");
  EXPECT_EQ(found["model"]["launch_us"], 6.0);
}

TEST(LayoutPlan, SaysWhatIsWrong) {
  const auto wrong = [](const std::string& arguments) { return run("plan --mesh x=4 --shape 64x64 " + arguments); };
  EXPECT_EQ(wrong("--from S0 --to S1 --budget 1KiB").code, 2);
  EXPECT_TRUE(contains(wrong("--from S0 --to S1 --budget 1KiB").err,
                       "plan: budget must be at least the larger shard of the source and target, 4 KiB, got 1 KiB"));
  EXPECT_EQ(wrong("--from S5 --to S1").code, 2);
  EXPECT_EQ(wrong("--from S0 --to S1 --model /no/such/file").code, 1);
  EXPECT_TRUE(contains(wrong("--from S0 --to S1 --model /no/such/file").err, "/no/such/file"));
}

constexpr const char* kMm = "--rule 'mm: [i,k],[k,j]->[i,j]; k=sum; multi, multi'";

TEST(LayoutExplain, TellsWhatComesOut) {
  const Outcome outcome =
      run(std::string("explain --mesh dp=2,tp=4 --most 0 --input 8x6:S0,S1 --input 6x4:R,S0 ") + kMm);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out,
            "call.rule\tmm: [i,k],[k,j]->[i,j]; k=sum; multi, multi\n"
            "call.mesh\tdp=2,tp=4\n"
            "call.input_0\t8x6 {Shard(0), Shard(1)}\n"
            "call.input_1\t6x4 {Replicate(), Shard(0)}\n"
            "result.fits\tyes\n"
            "result.output_0\t8x4 {Shard(0), Partial()}\n");
}

TEST(LayoutExplain, TellsTheConflictTheFixesAndTheCandidates) {
  const std::string call = std::string("explain --mesh dp=2,tp=4 --input 4096x512:S0,R --input 512x1024:R,S0 ") + kMm;
  const Outcome outcome = run(call + " --fixes 1 --most 2");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(contains(outcome.out, "result.conflict\tmm: axis tp shards dimension 0 of input 1")) << outcome.out;
  EXPECT_TRUE(contains(outcome.out,
                       "FIX\tUS\tRECEIVED\tOUTPUTS\tHOW\n1\t2.70\t0\t{Shard(0), Partial()}\tredistribute input 0 to "
                       "{Shard(0), Shard(1)}: slice over tp, 0 B, 2.7 us\n"))
      << outcome.out;
  EXPECT_TRUE(contains(outcome.out, "CANDIDATE\tUS\tRECEIVED\tINPUTS\tOUTPUTS\tDROPPED\n1\t")) << outcome.out;
  EXPECT_TRUE(contains(outcome.out, "us more than the best\n")) << outcome.out;
  const json whole = json::parse(run(call + " --json").out);
  EXPECT_EQ(whole["fits"], false);
  EXPECT_EQ(whole["fixes"].size(), 3U);
  EXPECT_EQ(whole["candidates"][0]["dropped"], "");
  EXPECT_EQ(whole["candidates"][0]["inputs"], whole["fixes"][0]["inputs"]);
}

TEST(LayoutExplain, ReadsViewsAndSaysWhatIsWrong) {
  EXPECT_TRUE(
      contains(run("explain --mesh tp=4 --view 48 --input 6x8:S1").out, "result.output_0\t48 {Shard(0, blocks=6)}\n"));
  const auto refused = [](const std::string& arguments, const std::string& word) {
    const Outcome outcome = run("explain --mesh tp=4 " + arguments);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_TRUE(contains(outcome.err, word)) << outcome.err;
  };
  refused("--input 6x8:S1", "exactly one of --rule and --view is required");
  refused("--view 48 --input 6x8", "tessera: layout explain: --input: must be SHAPE:LAYOUT, got '6x8'");
  refused("--view 47 --input 6x8:R", "must have as many elements as [6, 8] (48), got 47");
  refused("--rule 'f: [i]->[i,j]; j=replicate' --input 4:R", "--output");
  refused("--rule 'f: [i->[i]' --input 4:R", "expected");
}

}  // namespace
}  // namespace tessera
