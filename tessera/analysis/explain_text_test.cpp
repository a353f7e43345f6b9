// Results of explain() as human-readable text and as JSON.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tessera/analysis/explain.h"
#include "tessera/analysis/testing/evidence_builder.h"

namespace tessera::analysis {
namespace {

using nlohmann::json;
using testing::all_reduce;
using testing::EvidenceBuilder;
using ::testing::HasSubstr;
using ::testing::Not;

// Rank 2 is in its data loader; the others wait, in two groups.
Evidence stuck() {
  EvidenceBuilder run(4);
  run.add_group("left", {0, 1});
  run.everyone(all_reduce(64), 16);
  run.everyone(all_reduce(5), 2, "left");
  for (const int rank : {0, 1, 3}) run.launch(rank, all_reduce(1024), Stage::kBegun).label = "mlp.fc1";
  run.annotation(2, "step", 117);
  run.annotation(2, "data");
  run.rank(2).memory.push_back({.device = "cuda:0", .live_nbytes = 3 << 20, .mapped_nbytes = 4 << 20});
  run.pass(31);
  return run.evidence();
}

std::string text(const Evidence& evidence, const ShowOptions& options = {}) {
  return to_text(evidence, explain(evidence), options);
}
json parsed(const Evidence& evidence, const ShowOptions& options = {}) {
  return json::parse(to_json(evidence, explain(evidence), options));
}

TEST(ExplainText, ShowsRanksGroupsWaitsAndEndsWithTheVerdict) {
  const std::string shown = text(stuck());
  EXPECT_THAT(shown, HasSubstr("run: 4 ranks\n"));
  EXPECT_THAT(shown, HasSubstr("step=117, data"));
  EXPECT_THAT(shown, HasSubstr("cuda:0 3 MiB of 4 MiB"));
  EXPECT_THAT(shown, HasSubstr("world #17 all_reduce(f32[1024], sum)"));
  EXPECT_THAT(shown, HasSubstr("group world (ranks 0-3, shm)\n"));
  EXPECT_THAT(shown, HasSubstr("ranks 0, 1 and 3: 17 enqueued, 17 started, 16 finished\n"));
  EXPECT_THAT(shown, HasSubstr("rank 2: 16 enqueued, 16 started, 16 finished\n"));
  EXPECT_THAT(
      shown,
      HasSubstr(
          "ranks 0, 1 and 3 wait for rank 2 in collective 17, all_reduce(f32[1024], sum) of group world, for 31 s\n"));
  EXPECT_THAT(shown, HasSubstr("label 'mlp.fc1'"));
  const std::size_t verdict = shown.find("\nverdict: rank 2 did not reach collective 17");
  ASSERT_NE(verdict, std::string::npos) << shown;
  EXPECT_THAT(shown.substr(verdict), HasSubstr("\nconfidence: high (absent)\n"
                                               "next: look at the code of rank 2 in annotation"));
  EXPECT_EQ(std::count(shown.begin() + static_cast<std::ptrdiff_t>(verdict), shown.end(), '\n'), 4);
}

TEST(ExplainText, ShowsOnlyTheRanksAndTheGroupAskedFor) {
  const std::string ranks = text(stuck(), {.ranks = {2, 3}});
  EXPECT_THAT(ranks, Not(HasSubstr("\n  0  ")));
  EXPECT_THAT(ranks, HasSubstr("\n  2  "));
  EXPECT_THAT(ranks, Not(HasSubstr("group left")));
  const std::string group = text(stuck(), {.group = "left"});
  EXPECT_THAT(group, HasSubstr("group left"));
  EXPECT_THAT(group, Not(HasSubstr("group world (")));
  EXPECT_THAT(group, Not(HasSubstr("waits\n")));
}

TEST(ExplainText, ShowsAsManyLaunchesAsAskedFor) {
  const auto launches = [](const std::string& shown) {
    std::size_t count = 0;
    for (std::size_t at = shown.find("  rank 3    #"); at != std::string::npos;
         at = shown.find("  rank 3    #", at + 1))
      ++count;
    return count;
  };
  EXPECT_EQ(launches(text(stuck(), {.ranks = {3}, .last = 2})), 2U);
  EXPECT_EQ(launches(text(stuck(), {.ranks = {3}, .last = 100})), 17U);
  EXPECT_EQ(launches(text(stuck(), {.ranks = {3}, .last = 0})), 0U);
}

TEST(ExplainText, HasColorsOnlyWhereTheyAreAskedFor) {
  EXPECT_THAT(text(stuck()), Not(HasSubstr("\033")));
  EXPECT_THAT(text(stuck(), {.has_colors = true}), HasSubstr("\033[1;31mverdict: rank 2"));
}

TEST(ExplainText, MakesTextFromFilesVisible) {
  Evidence evidence = stuck();
  const std::string evil =
      "a\033[2Jb\nc\xff"
      "d";
  const std::string seen = "a\\x1b[2Jb\\nc\\xffd";
  evidence.ranks[2].annotations[0].name = evil;
  evidence.ranks[1].reason = evil;
  evidence.problems = {evil};
  for (Rank& rank : evidence.ranks) {
    for (Group& group : rank.groups) {
      group.name += evil;
      group.backend = evil;
      for (CollectiveCall& launch : group.launches) {
        launch.label = evil;
        for (RecordedOperation& operation : launch.operations) operation.kind += evil;
      }
    }
  }
  const std::string shown = text(evidence);
  EXPECT_EQ(shown.find('\033'), std::string::npos);
  EXPECT_EQ(shown.find('\xff'), std::string::npos);
  EXPECT_THAT(shown, HasSubstr(seen));
  const Explanation found = explain(evidence);
  EXPECT_EQ(found.verdict.sentence.find_first_of("\033\n\xff"), std::string::npos) << found.verdict.sentence;
  EXPECT_EQ(found.verdict.advice.find_first_of("\033\n\xff"), std::string::npos) << found.verdict.advice;
}

TEST(ExplainText, OthersDifferencesCirclesStragglersAndProblemsAreShown) {
  Explanation found;
  found.verdict.sentence = "the first";
  found.others = {{.fault = Fault::kDied, .sentence = "the second", .advice = "see", .confidence = Confidence::kHigh}};
  found.differences = {{"world", 7, {{{0, 1}, "barrier"}, {{2}, "all_reduce(f32[1], sum)"}}}};
  found.cycles = {{{.rank = 0, .peer = 1, .group = "a", .what = "collective 1, barrier"},
                   {.rank = 1, .peer = 0, .group = "b", .what = "collective 2, barrier"}}};
  found.stragglers = {{.rank = 3, .group = "world", .collectives = 9, .last_to_come = 8, .late_ms = 12.5}};
  const std::string shown = to_text({.problems = {"rank-3: cut off"}}, found);
  EXPECT_THAT(shown, HasSubstr("also: the second (died, high confidence)\nnext: see\n"));
  EXPECT_THAT(shown, HasSubstr("differences\n  group world, collective 7:\n    ranks 0 and 1: barrier\n    rank 2: "));
  EXPECT_THAT(shown, HasSubstr("deadlock cycle\n"
                               "  rank 0 waits for rank 1 in collective 1, barrier of group a\n"
                               "  rank 1 waits"));
  EXPECT_THAT(shown, HasSubstr("rank 3 was the last in 8 of 9 collectives of group world, 12.5 ms after the median"));
  EXPECT_THAT(shown, HasSubstr("problems\n  rank-3: cut off\n"));
}

TEST(ExplainText, OfManyRanksLaunchesAreShownOfThoseThatMatter) {
  EvidenceBuilder run(40);
  run.everyone(all_reduce(64), 3);
  for (int rank = 0; rank < 40; ++rank) {
    if (rank != 17) run.launch(rank, all_reduce(64), Stage::kBegun);
  }
  run.pass(20);
  const std::string shown = text(run.evidence());
  EXPECT_THAT(shown, HasSubstr("ranks 0-16 and 18-39: 4 enqueued"));
  EXPECT_THAT(shown, HasSubstr("  rank 17   #3"));
  EXPECT_THAT(shown, Not(HasSubstr("  rank 18   #3")));
}

TEST(ExplainJson, HasItsKeys) {
  const json shown = parsed(stuck());
  EXPECT_EQ(shown["source"], "run");
  EXPECT_EQ(shown["world_size"], 4);
  EXPECT_EQ(shown["verdict"]["fault"], "absent");
  EXPECT_EQ(shown["verdict"]["culprits"], json({2}));
  EXPECT_EQ(shown["verdict"]["group"], "world");
  EXPECT_EQ(shown["verdict"]["collective_number"], 17);
  EXPECT_EQ(shown["verdict"]["confidence"], "high");
  EXPECT_THAT(shown["verdict"]["sentence"].get<std::string>(), HasSubstr("rank 2 did not reach"));
  EXPECT_THAT(shown["verdict"]["advice"].get<std::string>(), HasSubstr("rank 2"));
  EXPECT_EQ(shown["others"], json::array());
  EXPECT_EQ(shown["waits"].size(), 3U);
  EXPECT_EQ(shown["waits"][0]["peer"], 2);
  EXPECT_EQ(shown["circles"], json::array());
  EXPECT_EQ(shown["differences"], json::array());
  EXPECT_EQ(shown["stragglers"], json::array());
  EXPECT_EQ(shown["problems"], json::array());
  ASSERT_EQ(shown["ranks"].size(), 4U);
  const json& rank = shown["ranks"][2];
  EXPECT_EQ(rank["state"], "is running");
  EXPECT_EQ(rank["marks"][0]["name"], "step");
  EXPECT_EQ(rank["marks"][0]["value"], 117);
  EXPECT_EQ(rank["memory"][0]["live_nbytes"], 3 << 20);
  const json& launch = shown["ranks"][0]["groups"][0]["launches"].back();
  EXPECT_EQ(launch["stage"], "begun");
  EXPECT_EQ(launch["collective_number"], 17);
  EXPECT_EQ(launch["label"], "mlp.fc1");
  EXPECT_EQ(launch["operations"][0]["kind"], "all_reduce");
}

TEST(ExplainJson, ShowsOnlyWhatIsAskedFor) {
  const json shown = parsed(stuck(), {.ranks = {0}, .group = "left", .last = 1});
  ASSERT_EQ(shown["ranks"].size(), 1U);
  ASSERT_EQ(shown["ranks"][0]["groups"].size(), 1U);
  EXPECT_EQ(shown["ranks"][0]["groups"][0]["name"], "left");
  EXPECT_EQ(shown["ranks"][0]["groups"][0]["launches"].size(), 1U);
  EXPECT_EQ(shown["waits"], json::array());
}

TEST(ExplainJson, BytesThatAreNoTextAreReplaced) {
  Evidence evidence = stuck();
  evidence.ranks[0].reason = "\xff\xfe";
  EXPECT_NO_THROW((void)parsed(evidence));
}

}  // namespace
}  // namespace tessera::analysis
