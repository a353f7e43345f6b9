// Evidence as JSON: all fields are written, under the names in the header.
#include "tessera/analysis/evidence_json.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <nlohmann/json.hpp>

#include "tessera/analysis/testing/small_evidence.h"
#include "tessera/base/error.h"
#include "tessera/base/testing/expect_error.h"

namespace tessera::analysis {
namespace {

using analysis::testing::small_evidence;
using nlohmann::json;

std::string written(const Evidence& evidence) {
  std::ostringstream out;
  write_evidence_json(out, evidence);
  return out.str();
}

TEST(EvidenceJson, HoldsTheRunItsRanksAndTheirStanding) {
  const Evidence evidence = small_evidence();
  const json all = json::parse(written(evidence));
  EXPECT_EQ(all.at("format"), "tessera evidence");
  EXPECT_EQ(all.at("version"), 1);
  EXPECT_EQ(all.at("source"), "runs/a");
  EXPECT_EQ(all.at("world_size"), 3);
  EXPECT_EQ(all.at("taken_ns"), evidence.taken_ns);
  EXPECT_EQ(all.at("before"), "4 ranks began");
  EXPECT_EQ(all.at("problems").at(0), "runs/a/rank-2: no such file \xef\xbf\xbd") << "what is not UTF-8 is replaced";
  ASSERT_EQ(all.at("ranks").size(), 3U);
  const json& first = all.at("ranks").at(0);
  EXPECT_EQ(first.at("state"), "running");
  EXPECT_EQ(first.at("pid"), 4242);
  EXPECT_EQ(first.at("host"), "node7");
  EXPECT_EQ(first.at("first_ns"), evidence.ranks[0].first_ns);
  EXPECT_EQ(first.at("last_ns"), evidence.ranks[0].last_ns);
  EXPECT_EQ(first.at("marks").at(0), (json{{"name", "step"},
                                           {"value", 117},
                                           {"thread", "4243"},
                                           {"since_ns", evidence.ranks[0].annotations[0].since_ns},
                                           {"tid", 0}}));
  EXPECT_EQ(first.at("memory").at(0), (json{{"device", "host"},
                                            {"live_nbytes", 1000},
                                            {"mapped_nbytes", 4096},
                                            {"refused_nbytes", 0},
                                            {"owners", {{{"label", "weights"}, {"nbytes", 900}}}}}));
  EXPECT_EQ(first.at("launches").at(0).at("name"), "softmax_rows");
  const json& second = all.at("ranks").at(1);
  EXPECT_EQ(second.at("state"), "died");
  EXPECT_EQ(second.at("signal"), 9);
  EXPECT_EQ(second.at("reason"), "killed by signal 9");
  EXPECT_EQ(second.at("lost"), 12);
  EXPECT_EQ(all.at("ranks").at(2).at("state"), "missing");
}

TEST(EvidenceJson, HoldsEveryLaunchWithItsOperations) {
  const Evidence evidence = small_evidence();
  const json all = json::parse(written(evidence));
  for (std::size_t rank = 0; rank < 2; ++rank) {
    ASSERT_EQ(all.at("ranks").at(rank).at("groups").size(), 2U);
    for (std::size_t i = 0; i < 2; ++i) {
      const Group& group = evidence.ranks[rank].groups[i];
      const json& shown = all.at("ranks").at(rank).at("groups").at(i);
      EXPECT_EQ(shown.at("name"), group.name);
      EXPECT_EQ(shown.at("ranks"), json(group.ranks));
      EXPECT_EQ(shown.at("rank"), group.rank);
      EXPECT_EQ(shown.at("ended"), group.ended);
      ASSERT_EQ(shown.at("launches").size(), group.launches.size());
      for (std::size_t at = 0; at < group.launches.size(); ++at) {
        const CollectiveCall& launch = group.launches[at];
        const json& each = shown.at("launches").at(at);
        EXPECT_EQ(each.at("task"), launch.task);
        EXPECT_EQ(each.at("sequence"), launch.sequence);
        EXPECT_EQ(each.at("collective_number"), launch.collective_number);
        EXPECT_EQ(each.at("asked_ns"), launch.asked_ns);
        EXPECT_EQ(each.at("begun_ns"), launch.begun_ns);
        EXPECT_EQ(each.at("met_ns"), launch.met_ns);
        EXPECT_EQ(each.at("ended_ns"), launch.ended_ns);
        EXPECT_EQ(each.at("operations").size(), launch.operations.size());
        EXPECT_EQ(each.at("operations").at(0).at("count"), launch.operations[0].count);
        EXPECT_EQ(each.at("operations").at(0).at("peer"), launch.operations[0].peer);
      }
    }
  }
  const json& replayed = all.at("ranks").at(0).at("groups").at(1).at("launches").at(1);
  EXPECT_EQ(replayed.at("stage"), "failed");
  EXPECT_EQ(replayed.at("failure"), "timeout");
  EXPECT_EQ(replayed.at("replay"), 117);
  EXPECT_EQ(replayed.at("node"), 4);
  EXPECT_EQ(replayed.at("is_whole"), true);
  EXPECT_EQ(replayed.at("operations").at(0).at("parts"), 0xabcd);
  const json& labelled = all.at("ranks").at(0).at("groups").at(0).at("launches").at(1);
  EXPECT_EQ(labelled.at("label"), "layers.3 \"mlp\"");
  EXPECT_EQ(labelled.at("stage"), "done");
}

TEST(EvidenceJson, OfNothingIsStillJson) {
  const json all = json::parse(written({}));
  EXPECT_TRUE(all.at("ranks").empty());
}

TEST(EvidenceJson, AFileIsWholeOrNotThere) {
  char name[] = "/tmp/tessera_evidence_XXXXXX";
  ASSERT_NE(::mkdtemp(name), nullptr);
  const std::string path = std::string(name) + "/evidence.json";
  write_evidence_json_file(path, small_evidence());
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_EQ(text.str(), written(small_evidence()));
  expect_error<IoError>([&] { write_evidence_json_file(std::string(name) + "/none/x", {}); }, {"/none"});
  std::filesystem::remove_all(name);
  std::ostringstream out;
  out.setstate(std::ios::badbit);
  expect_error<IoError>([&] { write_evidence_json(out, small_evidence()); }, {"runs/a"});
}

TEST(EvidenceJson, ComesBackAsItWas) {
  const std::string text = written(small_evidence());
  EXPECT_EQ(written(read_evidence_json(text)), text);
}

TEST(EvidenceJson, WhatIsNoneIsRefusedByName) {
  const std::string good = written(small_evidence());
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  };
  const auto refused = [](const std::string& text, const char* words) {
    expect_error<IoError>([&] { (void)read_evidence_json(text); }, {words});
  };
  refused("", "must be a JSON object");
  refused(good.substr(0, good.size() / 2), "must be a JSON object");
  refused("[]", "must be a JSON object");
  refused("{}", "format must be 'tessera evidence'");
  refused(std::string(1000, '['), "must be nested at most");
  refused(changed("\"version\": 1", "\"version\": 2"), "version must be 1, got 2");
  refused(changed("\"world_size\": 3", "\"world_size\": -1"), "], got -1");
  refused(changed("\"world_size\": 3", "\"world_size\": 9999999999"), "'world_size' is out of range, got 9999999999");
  refused(changed("\"world_size\": 3", "\"world_size\": 3.5"), "'world_size' must be an integer");
  refused(changed("\"rank\": 0", "\"rank\": 70000"), "), got 70000");
  refused(changed("\"state\": \"running\"", "\"state\": \"walking\""), "'walking'");
  refused(changed("\"state\": \"running\"", "\"state\": 7"), "'state' must be a string");
  refused(changed("\"stage\": \"done\"", "\"stage\": \"over\""), "'over'");
  refused(changed("\"is_whole\": true", "\"is_whole\": 1"), "'is_whole'");
}

TEST(EvidenceJson, SpoiltTextIsReadOrRefusedAndNeverTrusted) {
  const std::string good = written(small_evidence());
  std::uint64_t state = 1;
  for (int run = 0; run < 300; ++run) {
    std::string text = good;
    for (int change = 0; change < 3; ++change) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      text[(state >> 33) % text.size()] = "0]}{[,:\"-9etx\xff"[(state >> 20) % 14];
    }
    try {
      for (const Rank& rank : read_evidence_json(text).ranks) {
        EXPECT_GE(rank.rank, 0);
        for (const Group& group : rank.groups) {
          for (const CollectiveCall& launch : group.launches) EXPECT_FALSE(launch.operations.empty());
        }
      }
    } catch (const IoError&) {
      // Rejected with a message.
    }
  }
}

}  // namespace
}  // namespace tessera::analysis
