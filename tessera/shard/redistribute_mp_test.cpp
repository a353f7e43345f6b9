// Moves between processes: the same pairs as between threads, on the backend that processes of one machine have.
#include <gtest/gtest.h>

#include "tessera/autograd/autograd.h"
#include "tessera/base/rank.h"
#include "tessera/comm/process_group.h"
#include "tessera/comm/testing/rank_processes.h"
#include "tessera/device/device.h"
#include "tessera/layout/testing/random_requests.h"
#include "tessera/shard/distribute.h"
#include "tessera/shard/redistribute.h"
#include "tessera/shard/testing/all_ranks.h"

namespace tessera::shard {
namespace {

using layout::Layout;
using testing::counted;
using testing::placed;

void run(int ranks, const std::function<void(int)>& body) {
  for (const comm::ProcessEnd& end : comm::run_rank_processes(ranks, body)) {
    EXPECT_EQ(end.exit_code, 0) << "signal " << end.signal;
  }
}

// Each rank sees only its own part: by definition it is that of the whole.
void expect_part(const Tensor& x, const ops::testing::Whole& whole) {
  ASSERT_TRUE(x.layout().partials().empty());
  device::Device::get("host").synchronize();
  const Tensor want = placed(whole, x.layout()).local();
  ASSERT_EQ(static_cast<bool>(x.local()), static_cast<bool>(want));
  if (!want) return;
  const auto got = ops::testing::read(x.local());
  const auto wanted = ops::testing::read(want);
  ASSERT_EQ(got.shape, wanted.shape);
  for (std::size_t i = 0; i < got.values.size(); ++i) ASSERT_NEAR(got.values[i], wanted.values[i], 1e-6);
}

TEST(RedistributeProcesses, RandomPairsGiveTheSameDataAndGradients) {
  run(4, [](int) {
    const layout::testing::RequestKind kind{
        .most_axes = 3, .uneven_percent = 40, .special_percent = 30, .partial_percent = 40};
    int checked = 0;
    for (std::uint64_t seed = 0; checked < 60; ++seed) {
      const layout::PlanRequest pair = layout::testing::random_request(seed, kind);
      if (pair.from.mesh().size() > 4 || pair.shape.numel() > 2048) continue;
      SCOPED_TRACE(layout::testing::pair_text(pair));
      ++checked;
      const auto whole = counted(pair.shape, DType::kF64);
      const Tensor x = placed(whole, pair.from);
      autograd::set_requires_grad(x, true);
      const Tensor y = redistribute(x, pair.to);
      const Tensor settled = redistribute(y, layout::gradient_layout(pair.to));
      expect_part(settled, whole);
      const Tensor g = placed(whole, layout::gradient_layout(pair.to));
      const Tensor back = autograd::gradients({settled}, {x}, {g})[0];
      EXPECT_EQ(back.layout(), layout::gradient_layout(pair.from));
      expect_part(back, whole);
    }
  });
}

TEST(RedistributeProcesses, TheFirstRankSendsAndEveryRankGathers) {
  run(3, [](int) {
    const layout::Mesh mesh = layout::Mesh::parse("x=3");
    const auto whole = counted(Shape{7, 5});
    for (const char* text : {"R", "S0", "S1"}) {
      const Tensor x = distribute(testing::plain(whole), Layout::parse(mesh, text), DataOn::kFirstRank);
      expect_part(x, whole);
      expect_part(replicate(full(x), mesh), whole);
      EXPECT_EQ(from_local(local(x), x.layout(), {.check = true}).shape(), whole.shape);
    }
  });
}

}  // namespace
}  // namespace tessera::shard
