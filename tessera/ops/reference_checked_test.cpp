// Runs every operator on a checked device with the seeded scheduler. Work on several streams writes the arguments, and
// calls run on other streams, ordered by events. Several calls are in flight, and arguments are released before the
// work is done, so that memory is reused. Results must match the reference, and the device must find no race.
//
// Then tests the declared accesses, because a kernel that declares too little never races. Without the event after an
// argument is written, the device must reject the call, at the first and at the last element. A write must wait for the
// readers of a tensor, and a read must not.
#include <gtest/gtest.h>

#include <functional>

#include "tessera/base/rank.h"
#include "tessera/device/host/host_device.h"
#include "tessera/device/host/seeded_scheduler.h"
#include "tessera/ops/detail/elements.h"
#include "tessera/ops/testing/sample_memory.h"
#include "tessera/tensor/device_context.h"

namespace tessera::ops::testing {
namespace {

using device::host::Mode;
using device::host::SeededScheduler;

void hand_over(const device::Stream& from, const device::Stream& to) {
  const device::Event event = from.device().create_event();
  from.record(event);
  to.wait(event);
}

// A checked device with several streams; the scheduler also runs this thread.
class CheckedDevice {
 public:
  explicit CheckedDevice(std::uint64_t seed)
      : scheduler_(SeededScheduler::create(seed)),
        participant_(scheduler_, "test"),
        rank_(std::make_shared<RankContext>(RankPlace{})),
        random(seed),
        device(device::host::make_host_device({.mode = Mode::kSeeded, .scheduler = scheduler_, .checked = true})) {
    for (const char* name : {"one", "two", "three"}) streams.push_back(device.create_stream({.name = name}));
  }
  ~CheckedDevice() { device.synchronize(); }
  CheckedDevice(const CheckedDevice&) = delete;
  CheckedDevice& operator=(const CheckedDevice&) = delete;

  const device::Stream& any_stream() { return streams[random() % streams.size()]; }

 private:
  std::shared_ptr<SeededScheduler> scheduler_;
  SeededScheduler::Participant participant_;
  RankScope rank_;

 public:
  Random random;
  device::Device device;
  std::vector<device::Stream> streams;
};

// Returns a tensor with these elements, written by work on `stream`.
Tensor made_on(CheckedDevice& on, const device::Stream& stream, const Array& value, DType dtype) {
  const tensor::StreamScope scope(stream);
  Tensor made =
      allocate_laid(value.shape, dtype, on.device, on.random() % 2 == 0 ? Lay::kDense : Lay::kRandom, on.random);
  write_on(stream, made, value, "argument");
  return made;
}

struct Launched {
  const OpCaseInfo* info;
  OpSample sample;
  std::vector<Tensor> outputs;
};

Launched launch(CheckedDevice& on, const OpCaseInfo& info, const OpSample& sample) {
  const device::Stream& stream = on.any_stream();
  const auto argument = [&](const Array& value, DType dtype) {
    const device::Stream& from = on.any_stream();
    Tensor made = made_on(on, from, value, dtype);
    hand_over(from, stream);
    return made;
  };
  std::vector<Tensor> inputs;
  for (const SampleInput& input : sample.inputs) {
    inputs.push_back(input.is_absent ? Tensor() : argument(input.value, dtype_in(input, DType::kF32)));
  }
  const tensor::StreamScope scope(stream);
  Launched launched{&info, sample, std::vector<Tensor>(static_cast<std::size_t>(sample.outputs))};
  call_sample(info, sample, on.device, inputs, launched.outputs);
  if (tensor::find_op(info.op)->def.view != nullptr || on.random() % 2 == 0) return launched;
  for (Tensor& out : launched.outputs) out = argument(Array(out.shape(), 1), out.dtype());
  call_sample(info, sample, on.device, inputs, launched.outputs);
  return launched;
}

void expect_right(const Launched& launched) {
  const OpCaseInfo& info = *launched.info;
  SCOPED_TRACE(text_of(info, launched.sample));
  const auto want = info.reference(reference_inputs(launched.sample, DType::kF32), launched.sample.attributes.ref());
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(difference(to_array(launched.outputs[i]), want[i], info.tolerance), "");
  }
}

TEST(CheckedReference, EveryOperatorIsRightOnAnyStreams) {
  for (const std::uint64_t seed : {1, 2, 3, 4}) {
    SCOPED_TRACE(seed);
    CheckedDevice on(seed);
    std::vector<Launched> under_way;
    for (const OpCaseInfo& info : all_cases()) {
      if (!info.reference) continue;
      Random random(seed);
      for (const OpSample& sample : info.samples(random)) {
        try {
          under_way.push_back(launch(on, info, sample));
        } catch (const Error& error) {
          FAIL() << text_of(info, sample) << ": " << error.what();
        }
        if (under_way.size() < 6) continue;
        on.device.synchronize();
        for (const Launched& launched : under_way) expect_right(launched);
        under_way.clear();
      }
    }
    for (const Launched& launched : under_way) expect_right(launched);
    if (HasFailure()) return;
  }
}

// Declared accesses of a call
// -----------------------------------------------------------------------------------------

// Launches work on `stream` that accesses one element of a tensor: the first byte, or the last.
void touch(const device::Stream& stream, const Tensor& tensor, bool is_last, device::AccessMode mode) {
  const detail::ByteRange range = detail::byte_range(tensor);
  const device::Access access[] = {{range.address + (is_last ? range.nbytes - 1 : 0), 1, mode}};
  stream.run([] {}, {.label = "elsewhere", .accesses = access});
}

// A call of a sample on one stream, while another stream accesses one of its tensors without an order.
class Unordered {
 public:
  Unordered(CheckedDevice& on, const OpCaseInfo& info, const OpSample& sample)
      : on_(on), info_(info), sample_(sample), calls_(on.streams[0]), elsewhere_(on.streams[1]) {
    for (const SampleInput& input : sample.inputs) {
      inputs_.push_back(input.is_absent ? Tensor() : made_on(on, calls_, input.value, dtype_in(input, DType::kF32)));
    }
    outputs_.resize(static_cast<std::size_t>(sample.outputs));
    const tensor::StreamScope scope(calls_);
    call_sample(info, sample, on.device, inputs_, outputs_);
    on_.device.synchronize();
  }
  [[nodiscard]] const std::vector<Tensor>& inputs() const { return inputs_; }
  [[nodiscard]] const std::vector<Tensor>& outputs() const { return outputs_; }
  [[nodiscard]] bool has_elements() const {
    return std::ranges::any_of(outputs_, [](const Tensor& out) { return out.numel() > 0; });
  }

  /// Returns true if the device rejects the call.
  [[nodiscard]] bool is_refused(const Tensor& tensor, bool is_last, device::AccessMode mode) {
    touch(elsewhere_, tensor, is_last, mode);
    bool is_refused = false;
    try {
      const tensor::StreamScope scope(calls_);
      std::vector<Tensor> outputs = outputs_;
      call_sample(info_, sample_, on_.device, inputs_, outputs);
    } catch (const InvalidArgument& error) {
      EXPECT_NE(std::string(error.what()).find("'elsewhere'"), std::string::npos) << error.what();
      is_refused = true;
    }
    on_.device.synchronize();
    return is_refused;
  }

 private:
  CheckedDevice& on_;
  const OpCaseInfo& info_;
  const OpSample& sample_;
  device::Stream calls_;
  device::Stream elsewhere_;
  std::vector<Tensor> inputs_;
  std::vector<Tensor> outputs_;
};

void expect_declared(Unordered& call) {
  using device::AccessMode;
  for (const bool is_last : {false, true}) {
    const char* const where = is_last ? "to its last element" : "from its first element";
    for (std::size_t i = 0; i < call.inputs().size(); ++i) {
      const Tensor& input = call.inputs()[i];
      if (!input || input.numel() == 0) continue;
      EXPECT_TRUE(call.is_refused(input, is_last, AccessMode::kWrite)) << "input " << i << " is not read " << where;
      EXPECT_FALSE(call.is_refused(input, is_last, AccessMode::kRead)) << "input " << i << " is written";
    }
    for (std::size_t i = 0; i < call.outputs().size(); ++i) {
      const Tensor& output = call.outputs()[i];
      if (output.numel() == 0) continue;
      EXPECT_TRUE(call.is_refused(output, is_last, AccessMode::kRead)) << "output " << i << " is not written " << where;
    }
  }
}

TEST(CheckedReference, EveryOperatorDeclaresWhatItTouches) {
  CheckedDevice on(7);
  for (const OpCaseInfo& info : all_cases()) {
    if (!info.samples || tensor::find_op(info.op)->def.view != nullptr) continue;
    Random random(7);
    for (const OpSample& sample : info.samples(random)) {
      SCOPED_TRACE(text_of(info, sample));
      Unordered call(on, info, sample);
      if (call.has_elements()) expect_declared(call);
    }
  }
}

// A kernel that does not declare its second argument; the test above must detect it.
const tensor::Operator kForgetful =
    tensor::register_op({.name = "test.forgetful",
                         .inputs = "a, b",
                         .infer =
                             [](const tensor::Call& call, std::span<tensor::OutputInfo> outputs) {
                               outputs[0] = {call.inputs[0].shape(), DType::kF32};
                             },
                         .host =
                             [](const tensor::KernelCall& call) {
                               const detail::ByteRange read = detail::byte_range(call.inputs[0]);
                               const detail::ByteRange written = detail::byte_range(call.outputs[0]);
                               const device::Access accesses[] = {device::reads(read.address, read.nbytes),
                                                                  device::writes(written.address, written.nbytes)};
                               call.stream().run([] {}, {.label = "test.forgetful", .accesses = accesses});
                             }});

TEST(CheckedReference, SeesAKernelThatDeclaresTooLittle) {
  CheckedDevice on(7);
  const OpCaseInfo info{.op = "test.forgetful", .samples = {}};
  Random random(7);
  const OpSample sample{.inputs = {normal(random, {5, 7}), normal(random, {5, 7})}};
  Unordered call(on, info, sample);
  EXPECT_TRUE(call.is_refused(call.inputs()[0], true, device::AccessMode::kWrite));
  EXPECT_FALSE(call.is_refused(call.inputs()[1], true, device::AccessMode::kWrite));
}

}  // namespace
}  // namespace tessera::ops::testing
