// Checkpoints of device tensors, on the host and on the first GPU: copied as work on the stream, concurrently with the
// host, written, and loaded back into device memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/comm/world.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/tensor/device_context.h"
#include "tessera/train/checkpoint/testing/checkpoints.h"
#include "tessera/train/checkpoint/verify.h"

namespace tessera::train {
namespace {

using layout::Layout;
using layout::Mesh;
using testing::CheckpointDirectory;
using ::testing::IsEmpty;
using testing::KnownTensor;
using namespace std::chrono_literals;

class CheckpointOn : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    try {
      (void)device();
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
  }
  // Device of this rank.
  static device::Device device() { return device::Device::get(GetParam()); }
  static const device::Stream& stream() { return tensor::current_stream(device()); }

  static Tensor on(const device::Device& where, const Tensor& x) {
    if (!x.has_layout()) return ops::to(x, where);
    return Tensor::sharded(x.shape(), x.dtype(), x.layout(), ops::to(x.local(), where));
  }

  // Device tensors with the known elements of a step: large and small ones, of all element sizes.
  static CheckpointState known(std::int64_t step) {
    const KnownTensor tensors[] = {{"large", DType::kF32, {640, 1024}},
                                   {"halves", DType::kBF16, {33, 65}},
                                   {"numbers", DType::kI64, {7}},
                                   {"bytes", DType::kU8, {3, 5}},
                                   {"one", DType::kF64, {}}};
    Layout layout;
    const int ranks = current_place().world_size;
    if (ranks > 1) layout = Layout::parse(Mesh::parse("fsdp=" + std::to_string(ranks)), "S0");
    CheckpointState here;
    for (const KnownTensor& each : tensors) {
      here.tensors.emplace_back(each.name, testing::allocate(each, each.name == "large" ? layout : Layout()));
    }
    testing::set_known(here, step);
    CheckpointState there;
    for (const auto& [name, tensor] : here.tensors) there.tensors.emplace_back(name, on(device(), tensor));
    device().synchronize();
    return there;
  }
  static std::int64_t count_wrong(const CheckpointState& there, std::int64_t step) {
    device().synchronize();
    CheckpointState here;
    for (const auto& [name, tensor] : there.tensors) {
      here.tensors.emplace_back(name, on(device::Device::get("host"), tensor));
    }
    device::Device::get("host").synchronize();
    return testing::count_wrong(here, step);
  }

  // Enqueues copies of all elements on the current stream.
  static void set(const CheckpointState& to, const CheckpointState& from) {
    for (std::size_t t = 0; t < to.tensors.size(); ++t) {
      const Tensor into = to.tensors[t].second.local();
      const Tensor values = from.tensors[t].second.local();
      into.storage().use_on(stream());
      values.storage().use_on(stream());
      stream().copy(into.data(), values.data(), into.nbytes());
    }
  }

  CheckpointDirectory directory_;
};

TEST_P(CheckpointOn, ComesBackInMemoryOfTheDevice) {
  CheckpointWriter writer({.directory = directory_.path()});
  writer.save(4, known(4));
  writer.finish();
  EXPECT_THAT(writer.take_errors(), IsEmpty());
  const CheckpointInfo saved = last_good(directory_.path(), {}).value();
  CheckpointState state = known(9);
  set(state, known(8));  // pending work must not run after the load
  load_checkpoint(saved, state);
  EXPECT_EQ(count_wrong(state, 4), 0);
  for (const auto& [name, tensor] : state.tensors) EXPECT_EQ(tensor.device().name(), device().name()) << name;
}

// The stream is stopped when save() is called: neither the saved values nor the later ones have been written.
TEST_P(CheckpointOn, HoldsWhatTheTensorsHeldWhenItWasSaved) {
  const CheckpointState values[] = {known(2), known(3)};
  CheckpointState state = known(1);
  CheckpointWriter writer({.directory = directory_.path()});
  const device::Stream work = device().create_stream({.name = "work", .may_spin = true});
  {
    const tensor::StreamScope scope(work);
    const device::Hold hold = work.hold(60s);
    set(state, values[0]);
    writer.save(2, state);
    set(state, values[1]);
    hold.release();
    work.synchronize();
    EXPECT_FALSE(hold.timed_out());
  }
  writer.finish();
  EXPECT_THAT(writer.take_errors(), IsEmpty());
  EXPECT_EQ(count_wrong(state, 3), 0);
  load_checkpoint(last_good(directory_.path(), {}).value(), state);
  EXPECT_EQ(count_wrong(state, 2), 0);
}

// The memory of the copy is reused by the next save only after it was written.
TEST_P(CheckpointOn, SavesThatFollowEachOtherEachHoldTheirOwn) {
  constexpr std::int64_t kSaves = 5;
  std::vector<CheckpointState> values;
  for (std::int64_t step = 0; step <= kSaves; ++step) values.push_back(known(step));
  CheckpointState state = known(0);
  CheckpointWriter writer({.directory = directory_.path(), .keep = kSaves});
  for (std::int64_t step = 1; step <= kSaves; ++step) {
    set(state, values[static_cast<std::size_t>(step)]);
    writer.save(step, state);
    set(state, values[0]);
  }
  writer.finish();
  EXPECT_THAT(writer.take_errors(), IsEmpty());
  const std::vector<CheckpointInfo> saved = checkpoints_in(directory_.path());
  ASSERT_EQ(saved.size(), kSaves);
  for (const CheckpointInfo& each : saved) {
    EXPECT_THAT(verify_checkpoint(each.path).faults, IsEmpty());
    load_checkpoint(each, state);
    EXPECT_EQ(count_wrong(state, each.step), 0) << "step " << each.step;
  }
}

TEST_P(CheckpointOn, TensorsOfHostAndDeviceAndViewsThatDoNotLieDenseGoTogether) {
  const device::Device host = device::Device::get("host");
  const CheckpointState whole = known(6);
  const Tensor large = whole.tensors[0].second;
  CheckpointState state;
  state.tensors.emplace_back("turned", large.as_strided({1024, 640}, {1, 1024}, 0));
  state.tensors.emplace_back("of the host", on(host, whole.tensors[1].second));
  state.tensors.emplace_back("of the device", whole.tensors[1].second);
  CheckpointWriter writer({.directory = directory_.path()});
  writer.save(6, state);
  writer.finish();
  EXPECT_THAT(writer.take_errors(), IsEmpty());

  const CheckpointState other = known(7);
  CheckpointState loaded;
  loaded.tensors.emplace_back("turned", Tensor::allocate({1024, 640}, DType::kF32, device()));
  loaded.tensors.emplace_back("of the host", other.tensors[1].second);
  loaded.tensors.emplace_back("of the device", on(host, other.tensors[1].second));
  load_checkpoint(last_good(directory_.path(), {}).value(), loaded);
  CheckpointState again = known(7);
  again.tensors[0].second =
      on(device(), ops::contiguous(loaded.tensors[0].second.as_strided(large.shape(), {1, 640}, 0)));
  for (const std::size_t way : {1, 2}) {
    again.tensors.resize(1);
    again.tensors.emplace_back("halves", on(device(), loaded.tensors[way].second));
    EXPECT_EQ(count_wrong(again, 6), 0);
  }
}

TEST_P(CheckpointOn, PartsOfSeveralRanksAreReadByOne) {
  simulate(2, [&] {
    CheckpointWriter writer({.directory = directory_.path()});
    const CheckpointState state = known(5);
    writer.save(5, state);
    set(state, known(6));
    stream().synchronize();
    writer.finish();
    EXPECT_THAT(writer.take_errors(), IsEmpty());
  });
  CheckpointState whole = known(1);
  load_checkpoint(last_good(directory_.path(), {}).value(), whole);
  EXPECT_EQ(count_wrong(whole, 5), 0);
}

INSTANTIATE_TEST_SUITE_P(Devices, CheckpointOn, ::testing::Values("host", "cuda"),
                         [](const auto& of) { return std::string(of.param); });

}  // namespace
}  // namespace tessera::train
