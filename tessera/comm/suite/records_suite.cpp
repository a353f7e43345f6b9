// Records that ranks leave, and the store of the world.
#include <algorithm>

#include "tessera/base/probe/recorder.h"
#include "tessera/comm/records.h"
#include "tessera/comm/suite/comm_suite.h"

namespace tessera::comm::suite {
namespace {

std::vector<std::string> recorded(const probe::RecordFile& file) {
  std::vector<std::string> lines;
  for (const probe::RecordRef& ref : file.records()) {
    if (const auto text = text_of_record(file, ref)) lines.push_back(*text);
  }
  return lines;
}

}  // namespace

TEST_P(CommSuite, TheRecordTellsOfEveryOperationThatItBeganAndEnded) {
  on_ranks(2, [](CaseRank& member) {
    for (int i = 0; i < 3; ++i) member.group.launch({.kind = OpKind::kBarrier}, member.stream).wait();
    const auto lines = recorded(probe::RecordFile::open(probe::recorder().path()));
    ASSERT_EQ(lines.size(), 9U);
    // If the backend knows when all ranks had arrived, the end contains that too.
    const auto has = [&](const std::string& words) {
      return std::ranges::any_of(lines, [&](const std::string& line) { return line.rfind(words, 0) == 0; });
    };
    for (const std::string number : {"1", "2", "3"}) {
      EXPECT_TRUE(has("world: #" + number + " barrier started (launch " + number + ", collective " + number + ")"));
      EXPECT_TRUE(has("world: #" + number + " finished (launch " + number + ")"));
    }
  });
}

TEST_P(CommSuite, TheRecordTellsHowFarAGroupHasCome) {
  on_ranks(2, [](CaseRank& member) {
    for (int i = 0; i < 3; ++i) member.group.launch({.kind = OpKind::kBarrier}, member.stream).wait();
    const std::string who = "world (ranks 0-1, " + std::string(member.group.backend());
    const auto lines = text_of_groups(probe::RecordFile::open(probe::recorder().path()));
    const auto line = std::ranges::find_if(lines, [&](const std::string& each) { return each.rfind(who, 0) == 0; });
    ASSERT_NE(line, lines.end());
    EXPECT_NE(line->find("of 2): 3 enqueued, the last barrier; ran #3 barrier"), std::string::npos) << *line;
  });
}

TEST_P(CommSuite, TheStoreOfAWorldIsOneForAllItsRanks) {
  on_ranks(3, [](CaseRank& member) {
    const std::string mine = std::to_string(member.rank());
    const std::string first = *store()->compare_set("who was first", std::nullopt, mine);
    store()->set("first seen by " + mine, first);
    EXPECT_LE(store()->add("ranks", 1), 3);
    member.group.launch({.kind = OpKind::kBarrier}, member.stream).wait();
    EXPECT_EQ(store()->add("ranks", 0), 3);
    EXPECT_EQ(store()->keys("first seen by ").size(), 3U);
    for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(store()->find("first seen by " + std::to_string(rank)), first);
    EXPECT_EQ(store()->find("nothing"), std::nullopt);
  });
}

}  // namespace tessera::comm::suite
