// Annotations of simulated ranks.
#include <gtest/gtest.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <vector>

#include "tessera/base/probe/annotation.h"
#include "tessera/base/probe/reader.h"
#include "tessera/base/probe/recorder.h"
#include "tessera/comm/process_group.h"
#include "tessera/comm/world.h"

namespace tessera::analysis {
namespace {

TEST(RankAnnotations, OneMayOutliveASimulation) {
  std::optional<probe::Annotation> kept[2];
  simulate(2, [&] { kept[comm::world().rank()].emplace("kept", comm::world().rank()); });
  kept[1].reset();
  kept[0].reset();
}

TEST(RankAnnotations, EachRankHasItsOwn) {
  simulate(3, [] {
    const int rank = comm::world().rank();
    const probe::Annotation scope("rank", rank);
    const probe::RecordFile file = probe::RecordFile::open(probe::recorder().path());
    const probe::TableInfo* table = file.find_table("record_mark");
    ASSERT_NE(table, nullptr);
    std::vector<std::string> names;
    for (const probe::RowInfo& row : table->claimed) {
      const std::string name = probe::to_string(row.find("name")->value);
      if (!name.empty()) names.push_back(name + " " + probe::to_string(row.find("value")->value));
    }
    EXPECT_EQ(names, std::vector{"rank " + std::to_string(rank)});
  });
}

}  // namespace
}  // namespace tessera::analysis
