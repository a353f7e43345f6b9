// Reuse of allocator memory, and release of external memory to its owner.
#include "tessera/tensor/storage.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <vector>

#include "tessera/base/rank.h"
#include "tessera/device/host/host_device.h"
#include "tessera/tensor/call.h"

namespace tessera::tensor {
namespace {

using device::host::Mode;

device::Device threaded() { return device::host::make_host_device({.mode = Mode::kThreaded}); }

void run_nothing(const device::Stream& stream) {
  stream.run([] {}, {.label = "nothing", .accesses = std::span<const device::Access>()});
}

// Reports its destruction.
struct Owner {
  explicit Owner(std::atomic<int>& released) : released_(released) {}
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;
  ~Owner() { ++released_; }
  std::atomic<int>& released_;
};

class OutsideMemory : public ::testing::Test {
 protected:
  RankScope rank_{std::make_shared<RankContext>(RankPlace{})};  // destroys its devices with it
  device::Device device_ = threaded();
  device::Stream first_ = device_.create_stream();
  device::Stream second_ = device_.create_stream();
  std::atomic<int> released_ = 0;
  float data_[4] = {};

  Tensor wrapped() { return Tensor::wrap(data_, {4}, DType::kF32, device_, std::make_shared<Owner>(released_)); }
};

TEST_F(OutsideMemory, ThatWasNotUsedIsReleasedAtOnce) {
  { const Tensor x = wrapped(); }
  EXPECT_EQ(released_, 1);
}

TEST_F(OutsideMemory, IsReleasedBehindTheWorkOfEveryStreamThatUsedIt) {
  device_.stall_stream(first_, true);
  device_.stall_stream(second_, true);
  {
    const Tensor x = wrapped();
    x.storage().use_on(first_);
    run_nothing(first_);
    x.storage().use_on(second_);
    x.storage().use_on(second_);
    run_nothing(second_);
  }
  EXPECT_EQ(released_, 0);
  device_.stall_stream(first_, false);
  first_.synchronize();
  EXPECT_EQ(released_, 0) << "the second stream has not got there";
  device_.stall_stream(second_, false);
  second_.synchronize();
  EXPECT_EQ(released_, 1);
}

TEST_F(OutsideMemory, IsHeldByEveryView) {
  Tensor view = wrapped().as_strided({2}, {2}, 0);
  EXPECT_EQ(released_, 0);
  view = Tensor();
  EXPECT_EQ(released_, 1);
}

TEST_F(OutsideMemory, IsReleasedThoughTheStreamFailedOrIsGone) {
  {
    const Tensor x = wrapped();
    x.storage().use_on(first_);
    first_.run([] { TESSERA_THROW(DeviceError, "failed"); },
               {.label = "fail", .accesses = std::span<const device::Access>()});
  }
  EXPECT_THROW(first_.synchronize(), DeviceError);
  device_.poll(first_.id());
  {
    const Tensor x = wrapped();
    x.storage().use_on(second_);
    second_.synchronize();
    second_.reset();
  }
  first_.reset_error();
  device_.synchronize();
  EXPECT_EQ(released_, 2);
}
// A stream without handles still does its work.
TEST_F(OutsideMemory, IsReleasedBehindTheWorkOfAStreamThatWasLetGoOf) {
  std::atomic<bool> may_end = false;
  {
    const Tensor x = wrapped();
    x.storage().use_on(first_);
    first_.run([&] { may_end.wait(false); }, {.label = "long", .accesses = std::span<const device::Access>()});
    first_.reset();
  }
  EXPECT_EQ(released_, 0);
  may_end = true;
  may_end.notify_all();
  device_.synchronize();
  EXPECT_EQ(released_, 1);
}

TEST_F(OutsideMemory, UsedInACaptureIsNotKeptByIt) {
  first_.begin_capture();
  {
    const Tensor x = wrapped();
    x.storage().use_on(first_);
  }
  EXPECT_EQ(released_, 1) << "it is on the caller to keep it as long as the graph";
  const device::Graph graph = first_.end_capture();
}

TEST(Storage, CountsWritesThroughAnyThread) {
  const Tensor x = Tensor::allocate({1}, DType::kF32, device::Device::get("host"));
  const auto before = x.version();
  {
    const auto bump = [&] {
      for (int i = 0; i < 1000; ++i) x.as_strided({1}, {1}, 0).storage().bump_version();
    };
    Thread a("bump", bump);
    Thread b("bump", bump);
  }
  EXPECT_EQ(x.version(), before + 2000);
}

// An operator that only reads its input, some time later.
void read_later(const KernelCall& call) {
  const auto* data = call.inputs[0].data();
  const device::Access accesses[] = {device::reads(data, call.inputs[0].nbytes())};
  call.stream().run([] {}, {.label = "read", .accesses = accesses});
}
const Operator kRead = register_op({.name = "storage_test.read",
                                    .inputs = "x",
                                    .infer =
                                        [](const Call&, std::span<OutputInfo> outputs) {
                                          outputs[0] = {{}, DType::kF32};
                                        },
                                    .host = read_later});

TEST(Storage, FreedMemoryIsReusedInStreamOrder) {
  const RankScope rank(std::make_shared<RankContext>(RankPlace{}));  // destroys its devices with it
  const device::Device device = threaded();
  device.stall_stream(device.default_stream(), true);
  Tensor x = Tensor::allocate({1000}, DType::kF32, device);
  const std::byte* at = x.data();
  (void)call(kRead, {x});
  x = Tensor();
  EXPECT_EQ(Tensor::allocate({1000}, DType::kF32, device).data(), at) << "work after the read may have it immediately";
  device.stall_stream(device.default_stream(), false);
}

TEST(Storage, MemoryUsedOnAnotherStreamIsNotReusedBeforeThatWork) {
  const RankScope rank(std::make_shared<RankContext>(RankPlace{}));  // destroys its devices with it
  const device::Device device = threaded();
  const device::Stream side = device.create_stream();
  device.stall_stream(side, true);
  Tensor x = Tensor::allocate({1000}, DType::kF32, device);
  const std::byte* at = x.data();
  {
    const StreamScope scope(side);
    (void)call(kRead, {x});
  }
  x = Tensor();
  EXPECT_NE(Tensor::allocate({1000}, DType::kF32, device).data(), at) << "the call on the side stream still reads it";
  device.stall_stream(side, false);
}

}  // namespace
}  // namespace tessera::tensor
