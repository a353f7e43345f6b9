// Cost of an annotation.
#include "tessera/base/probe/annotation.h"
#include "tessera/base/rank.h"
#include "tessera/base/testing/bench.h"

namespace tessera::probe {
namespace {

// Start and end: two records, and its row twice.
TESSERA_BENCH(mark) {
  const RankScope rank(std::make_shared<RankContext>(RankPlace{}));
  std::int64_t step = 0;
  context.measure(
      {.name = "record_mark", .unit = "ns", .ours = [&] { const Annotation scope("step", ++step); }, .must = 50});
}

}  // namespace
}  // namespace tessera::probe
