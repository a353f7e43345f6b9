// Annotations in the record of a rank while it trains.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tessera/base/probe/reader.h"
#include "tessera/base/probe/recorder.h"
#include "tessera/comm/world.h"
#include "tessera/train/testing/runs.h"
#include "tessera/train/trainer.h"

namespace tessera::train {
namespace {

// Returns "step 2", "data 1": the open annotations of this rank, by depth.
std::vector<std::string> open_marks() {
  const probe::RecordFile file = probe::RecordFile::open(probe::recorder().path());
  std::vector<std::string> annotations;
  const probe::TableInfo* table = file.find_table("record_mark");
  if (table == nullptr) return annotations;
  for (const probe::RowInfo& row : table->claimed) {
    const std::string name = probe::to_string(row.find("name")->value);
    if (name.empty()) continue;
    annotations.push_back(probe::to_string(row.find("depth")->value) + ": " + name + " " +
                          probe::to_string(row.find("value")->value));
  }
  std::ranges::sort(annotations);
  return annotations;
}

TEST(TrainingMarks, SayWhetherARankComputesWaitsForDataOrEvaluates) {
  Config config = testing::small_config();
  config.train.steps = 2;
  std::vector<std::vector<std::string>> seen;
  simulate(1, [&] {
    const SampleReader samples = testing::synthetic_samples(config);
    const SampleReader looking = [&](std::uint64_t number, std::span<std::int32_t> tokens) {
      seen.push_back(open_marks());
      samples(number, tokens);
    };
    Trainer trainer(config, looking);
    trainer.step();
    EXPECT_TRUE(open_marks().empty());
    seen.clear();
    trainer.step();
    ASSERT_FALSE(seen.empty());
    for (const auto& annotations : seen) EXPECT_EQ(annotations, (std::vector<std::string>{"0: step 2", "1: data 1"}));
    seen.clear();
    (void)trainer.evaluate(looking, 1);
    ASSERT_EQ(seen.size(), 1U);
    EXPECT_EQ(seen[0], std::vector<std::string>{"0: evaluate 2"});
    EXPECT_TRUE(open_marks().empty());
  });
}

}  // namespace
}  // namespace tessera::train
