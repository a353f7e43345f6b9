// The effect of a backend's capabilities on groups. The test backend has configurable capabilities; its world has one
// rank, and operations end when they are enqueued.
#include "tessera/comm/communicator.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/base/rank.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/process_group.h"
#include "tessera/comm/world.h"
#include "tessera/device/device.h"

namespace tessera::comm {
namespace {

Capabilities declared;

class Alone : public Communicator {
 public:
  [[nodiscard]] const Capabilities& capabilities() const override { return declared; }
  void enqueue(const std::shared_ptr<Task>& task, const device::Stream& /*stream*/) override {
    task->sequence.store(++sequence_);
    task->is_done.store(1, std::memory_order_release);
  }
  void abort(std::string_view /*reason*/) noexcept override {}
  [[nodiscard]] std::vector<int> gone() const override { return {}; }
  void extend_deadline(std::chrono::nanoseconds /*by*/) override {}
  [[nodiscard]] std::uint64_t sequence() const override { return sequence_; }

 private:
  std::uint64_t sequence_ = 0;
};

const BackendInfo kInfo{.name = "alone",
                        .preference = -1,
                        .why_not = [](const ConnectRequest& request) -> std::string {
                          return request.ranks.size() == 1 ? "" : "it is for one rank";
                        },
                        .connect = [](const ConnectRequest& /*request*/) -> std::shared_ptr<Communicator> {
                          return std::make_shared<Alone>();
                        }};
const BackendRegistration kAlone{kInfo};

// A backend that is never usable: errors about missing features name it, because it is registered with them.
const BackendRegistration kDistant{
    {.name = "distant",
     .preference = -2,
     .capabilities = {.kinds = kAllOpKinds, .device_kinds = {"distant"}, .has_capture = true},
     .why_not = [](const ConnectRequest& /*request*/) -> std::string { return "it is far away"; },
     .connect = [](const ConnectRequest& /*request*/) -> std::shared_ptr<Communicator> { return nullptr; }}};

// Runs `body` as a new rank on that backend, with these capabilities.
void on_rank(const Capabilities& capabilities, const std::function<void(const ProcessGroup&)>& body) {
  declared = capabilities;
  const RankScope scope(std::make_shared<RankContext>(RankPlace{}));
  const int self[] = {0};
  body(world().subgroup(self, {.name = "one", .backend = "alone", .fixed_order = false}));
}

device::Stream stream() { return device::Device::get("host").default_stream(); }

std::vector<std::string> lines_of_start(const Capabilities& capabilities, const char* check) {
  ::setenv("TESSERA_COMM_CHECK", check, 1);
  const log::LineCapture log(log::Level::kWarn);
  on_rank(capabilities, [](const ProcessGroup& group) { EXPECT_EQ(group.backend(), "alone"); });
  ::unsetenv("TESSERA_COMM_CHECK");
  return log.lines();
}

TEST(Transport, WithoutACheckedModeSaysSoWhenItIsAskedFor) {
  const auto lines = lines_of_start({}, "1");
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_NE(lines[0].find("TESSERA_COMM_CHECK: ranks 0 are not checked: backend alone has no checked mode"),
            std::string::npos)
      << lines[0];
  EXPECT_TRUE(lines_of_start({}, "0").empty());
  EXPECT_TRUE(lines_of_start({.has_checked_mode = true}, "1").empty());
}

TEST(Transport, OperationsItDoesNotDeclareAreRefused) {
  on_rank({.kinds = bit_of(OpKind::kBarrier), .device_kinds = {"host"}}, [](const ProcessGroup& group) {
    group.launch({.kind = OpKind::kBarrier}, stream()).wait();
    float x = 1;
    expect_error<NotSupported>(
        [&] { (void)group.all_reduce(&x, &x, 1, DType::kF32, {}, stream()); },
        {"group one", "backend alone does not support all_reduce; use backend ", "distant, ", "shm"});
    EXPECT_EQ(group.sequence(), 1U);
  });
}

TEST(Transport, MemoryItDoesNotDeclareIsRefused) {
  on_rank({.kinds = kAllOpKinds, .device_kinds = {"cuda"}}, [](const ProcessGroup& group) {
    expect_error<NotSupported>([&] { group.launch({.kind = OpKind::kBarrier}, stream()); },
                               {"backend alone does not support memory of host; use backend ",
                                "shm or thread, which GroupOptions::backend selects"});
  });
}

TEST(Transport, CapturesAndAbortsItDoesNotDeclareAreRefused) {
  on_rank({.kinds = kAllOpKinds, .device_kinds = {"host"}}, [](const ProcessGroup& group) {
    const device::Stream side = device::Device::get("host").create_stream();
    side.begin_capture();
    expect_error<NotSupported>([&] { group.launch({.kind = OpKind::kBarrier}, side); },
                               {"operations of backend alone cannot be captured", "or use backend ", "distant, "});
    (void)side.end_capture();
    expect_error<NotSupported>([&] { group.abort("enough"); },
                               {"backend alone cannot abort pending operations", "use backend ", "shm or thread"});
    group.launch({.kind = OpKind::kBarrier}, side).wait();
  });
}

TEST(Transport, FixedOrderItDoesNotDeclareIsRefused) {
  on_rank({}, [](const ProcessGroup& group) {
    const int self[] = {0};
    expect_error<NotSupported>([&] { (void)group.subgroup(self, {.fixed_order = true}); },
                               {"deterministic reductions"});
  });
}

TEST(TransportDeathTest, TwoOfOneNameEndTheProcess) {
  EXPECT_DEATH(BackendRegistration{kInfo}, "backend 'alone' is registered twice");
}

}  // namespace
}  // namespace tessera::comm
