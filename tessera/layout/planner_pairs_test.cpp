// The published pairs equal the output of their generator. To write the file again after a change of the generator:
//   TESSERA_WRITE_PAIRS=1 layout_planner_pairs_test
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "tessera/layout/testing/random_requests.h"

namespace tessera::layout::testing {
namespace {

TEST(PublishedPairs, AreWhatTheirGeneratorDraws) {
  const auto drawn = draw_published_pairs();
  if (std::getenv("TESSERA_WRITE_PAIRS") != nullptr) {
    std::ofstream file(published_pairs_path());
    file << "# Pairs of layouts that plans are measured and proved on: mesh, shape, from -> to; 4-byte elements.\n"
            "# Drawn by draw_published_pairs() in testing/random_requests.cpp.\n";
    for (const PlanRequest& request : drawn) file << pair_text(request) << "\n";
  }
  const auto kept = load_published_pairs();
  ASSERT_EQ(kept.size(), drawn.size());
  for (std::size_t i = 0; i < kept.size(); ++i) EXPECT_EQ(pair_text(kept[i]), pair_text(drawn[i])) << "pair " << i;
}

}  // namespace
}  // namespace tessera::layout::testing
