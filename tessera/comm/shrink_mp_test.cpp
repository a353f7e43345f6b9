// shrink() if a rank dies during the agreement, and error() after an unnoticed death.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/process_group.h"
#include "tessera/comm/smaller_world.h"
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

// Rank 2 waits for rank 1, which is alive, to join a group. Rank 1 learns of the death and never joins.
void end_a_creation(const std::function<void(const ProcessGroup& pair)>& create, const std::string& text) {
  const std::vector<ProcessEnd> ends = run_rank_processes(3, [&](int rank) {
    const device::Stream stream = device::Device::get("host").default_stream();
    const std::vector<Rank> last = {Rank(1), Rank(2)};
    const ProcessGroup pair = rank == 0 ? ProcessGroup() : group_of(last);
    world().launch({.kind = OpKind::kBarrier}, stream).wait();
    if (rank == 0) std::raise(SIGKILL);
    if (rank == 2) expect_error<AbortedError>([&] { create(pair); }, {text});
    while (rank == 1 && world().error() == nullptr) {
    }
    EXPECT_EQ(agree_on_left("rank 0 died", 60s), (std::vector<int>{1, 2}));
  });
  EXPECT_EQ(ends[0].signal, SIGKILL);
  EXPECT_EQ(ends[1].exit_code, 0);
  EXPECT_EQ(ends[2].exit_code, 0);
}

constexpr const char* kAbortOfOne = "rank 1 aborted all groups: rank 0 died";

TEST(AgreeOnLeft, EndsTheWaitForARankToJoin) {
  const std::vector<Rank> ranks = {Rank(2), Rank(1)};
  end_a_creation([&](const ProcessGroup& /*pair*/) { (void)group_of(ranks); }, kAbortOfOne);
}
TEST(AgreeOnLeft, EndsTheWaitForTheFirstRankOfAGroup) {
  end_a_creation([](const ProcessGroup& pair) { (void)pair.subgroup(std::vector<int>{0, 1}); }, kAbortOfOne);
}
TEST(AgreeOnLeft, EndsASplit) {
  end_a_creation([](const ProcessGroup& pair) { (void)pair.split(0); }, kAbortOfOne);
}
// Rank 2 has begun to create one group more than rank 1.
TEST(AgreeOnLeft, FindsRanksThatBeganToCreateGroups) {
  end_a_creation([](const ProcessGroup& /*pair*/) { (void)world().split(0); }, "group world: split 1: rank ");
}

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
    EXPECT_EQ(group.lost(), std::vector<int>());
    store()->set("looked", "");
    std::exception_ptr error;
    while (error == nullptr) error = group.error();
    expect_error<AbortedError>([&] { std::rethrow_exception(error); }, {"group world: rank 1 died"});
    EXPECT_EQ(group.lost(), std::vector<int>{1});
  });
  EXPECT_EQ(ends[0].exit_code, 0);
  EXPECT_EQ(ends[1].signal, SIGKILL);
}

}  // namespace
}  // namespace tessera::comm
