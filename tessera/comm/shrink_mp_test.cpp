// shrink() if a rank dies during the agreement, and error() after an unnoticed death.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>

#include "tessera/base/error.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/process_group.h"
#include "tessera/comm/store/prefix_store.h"
#include "tessera/comm/store/store.h"
#include "tessera/comm/testing/rank_processes.h"
#include "tessera/comm/world.h"
#include "tessera/device/device.h"

namespace tessera::comm {
namespace {

using namespace std::chrono_literals;

// Rank 2 takes part in the first agreement manually, and dies before or after the others have agreed.
void shrink_past_a_death(bool has_agreed) {
  const std::vector<ProcessEnd> ends = run_rank_processes(3, [&](int rank) {
    const device::Stream stream = device::Device::get("host").default_stream();
    const ProcessGroup group = world();
    group.launch({.kind = OpKind::kBarrier}, stream).wait();
    if (rank == 2) {
      PrefixStore meeting("group world/agree 1", store());
      meeting.set("here 2", "");
      if (has_agreed) (void)meeting.get("result", 60s);
      std::raise(SIGKILL);
    }
    if (!has_agreed) {
      // Waits until its death is noticed; it announced itself before.
      EXPECT_THROW(group.launch({.kind = OpKind::kBarrier}, stream).wait(), Error);
      stream.reset_error();
    }
    const ProcessGroup left = group.shrink(60s);
    EXPECT_EQ(left.ranks(), (std::vector<Rank>{Rank(0), Rank(1)}));
    std::int64_t sum = 1;
    left.all_reduce(&sum, &sum, 1, DType::kI64, {}, stream).wait();
    EXPECT_EQ(sum, 2);
  });
  EXPECT_EQ(ends[0].exit_code, 0);
  EXPECT_EQ(ends[1].exit_code, 0);
  EXPECT_EQ(ends[2].signal, SIGKILL);
}

TEST(Shrink, LeavesOutARankThatDiedBeforeAllHadAgreed) { shrink_past_a_death(/*has_agreed=*/false); }
TEST(Shrink, AgreesAgainWhenARankDiesAfterwards) { shrink_past_a_death(/*has_agreed=*/true); }

// No operation is pending that could notice it.
TEST(GroupError, NamesAPeerThatWasKilled) {
  const std::vector<ProcessEnd> ends = run_rank_processes(2, [&](int rank) {
    const device::Stream stream = device::Device::get("host").default_stream();
    const ProcessGroup group = world();
    group.launch({.kind = OpKind::kBarrier}, stream).wait();
    if (rank == 1) {
      (void)store()->get("looked", 60s);
      std::raise(SIGKILL);
    }
    EXPECT_EQ(group.error(), nullptr);
    store()->set("looked", "");
    std::exception_ptr error;
    while (error == nullptr) error = group.error();
    expect_error<AbortedError>([&] { std::rethrow_exception(error); }, {"group world: rank 1 died"});
  });
  EXPECT_EQ(ends[0].exit_code, 0);
  EXPECT_EQ(ends[1].signal, SIGKILL);
}

}  // namespace
}  // namespace tessera::comm
