// Export of tensors to other libraries and import from them.
#include "tessera/tensor/dlpack.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <vector>

#include "tessera/base/rank.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/device/host/host_device.h"
#include "tessera/layout/layout.h"

namespace tessera::tensor {
namespace {

using dlpack::ManagedTensor;
using dlpack::ManagedTensorVersioned;

device::Device host() { return device::Device::get("host"); }

// A capsule of another library that counts its deletions.
template <class Capsule>
struct Foreign {
  std::vector<float> data = {0, 1, 2, 3, 4, 5};
  std::vector<std::int64_t> shape = {2, 3};
  std::vector<std::int64_t> strides = {3, 1};
  int deleted = 0;
  Capsule capsule = {};

  Foreign() {
    if constexpr (std::is_same_v<Capsule, ManagedTensorVersioned>) capsule.version = {1, 0};
    capsule.tensor = {data.data(), {dlpack::kCpu, 0}, 2, {dlpack::kFloat, 32, 1}, shape.data(), strides.data(), 0};
    capsule.context = this;
    capsule.deleter = [](Capsule* self) { ++static_cast<Foreign*>(self->context)->deleted; };
  }
};
using ForeignVersioned = Foreign<ManagedTensorVersioned>;

struct Tracked : GradientState {
  Tracked() { is_tracked = true; }
};

template <class Capsule>
class DlpackImport : public ::testing::Test {};
using Capsules = ::testing::Types<ManagedTensorVersioned, ManagedTensor>;
TYPED_TEST_SUITE(DlpackImport, Capsules);

TYPED_TEST(DlpackImport, SharesTheElementsAndDeletesOnce) {
  Foreign<TypeParam> foreign;
  {
    const Tensor x = from_dlpack(&foreign.capsule);
    EXPECT_EQ(x.data_as<float>(), foreign.data.data());
    EXPECT_EQ(describe(x), "f32[2, 3] on host");
    EXPECT_TRUE(x.is_contiguous());
    const Tensor row = x.as_strided({3}, {1}, 3);
    EXPECT_EQ(row.data_as<float>()[0], 3);
    EXPECT_EQ(foreign.deleted, 0);
  }
  EXPECT_EQ(foreign.deleted, 1);
}

TYPED_TEST(DlpackImport, NoStridesAreDense) {
  Foreign<TypeParam> foreign;
  foreign.capsule.tensor.strides = nullptr;
  EXPECT_EQ(from_dlpack(&foreign.capsule).strides(), Strides({3, 1}));
}

TYPED_TEST(DlpackImport, OffsetsNegativeStepsScalarsAndEmptyOnes) {
  Foreign<TypeParam> foreign;
  foreign.capsule.deleter = nullptr;
  foreign.capsule.tensor.byte_offset = 20;
  foreign.strides = {-3, -1};
  const Tensor turned = from_dlpack(&foreign.capsule);
  EXPECT_EQ(turned.data_as<float>()[0], 5);
  EXPECT_EQ(turned.data_as<float>()[-5], 0);
  foreign.capsule.tensor.ndim = 0;
  foreign.capsule.tensor.shape = nullptr;
  EXPECT_EQ(*from_dlpack(&foreign.capsule).template data_as<float>(), 5);
  foreign.shape = {0, 3};
  foreign.capsule.tensor.ndim = 2;
  foreign.capsule.tensor.shape = foreign.shape.data();
  foreign.capsule.tensor.data = nullptr;
  EXPECT_EQ(from_dlpack(&foreign.capsule).numel(), 0);
}

TEST(DlpackImportLifetime, DeletesBehindTheWorkThatUsesTheElements) {
  const RankScope rank(std::make_shared<RankContext>(RankPlace{}));  // destroys its devices with it
  const device::Device device = device::host::make_host_device({.mode = device::host::Mode::kThreaded});
  ForeignVersioned foreign;
  Tensor x = from_dlpack(&foreign.capsule, {.device = device});
  const device::Stream stream = device.create_stream();
  device.stall_stream(stream, true);
  float* data = x.data_as<float>();
  int deleted_then = -1;
  x.storage().use_on(stream);
  const device::Access accesses[] = {device::writes(data, 24)};
  stream.run(
      [&, data] {
        data[0] = 7;
        deleted_then = foreign.deleted;
      },
      {.label = "write", .accesses = accesses});
  x = Tensor();
  EXPECT_EQ(foreign.deleted, 0) << "the work is still queued";
  device.stall_stream(stream, false);
  stream.synchronize();
  EXPECT_EQ(deleted_then, 0);
  EXPECT_EQ(foreign.deleted, 1);
}

struct Hostile {
  const char* name;
  std::function<void(ForeignVersioned&)> spoil;
  std::vector<std::string_view> words;
};

TEST(DlpackImportRefuses, WhatMakesNoSenseAndLeavesTheCapsuleToItsOwner) {
  constexpr std::int64_t kHuge = std::int64_t{1} << 60;
  const std::vector<Hostile> all = {
      {"major",
       [](auto& f) {
         f.capsule.version = {2, 3};
       },
       {"major version must be 1, got version 2.3"}},
      {"read-only", [](auto& f) { f.capsule.flags = 1; }, {"read-only", "accept_read_only"}},
      {"negative ndim", [](auto& f) { f.capsule.tensor.ndim = -1; }, {"ndim must be in [0, 64], got -1"}},
      {"many dims", [](auto& f) { f.capsule.tensor.ndim = 65; }, {"ndim must be in [0, 64], got 65"}},
      {"no shape", [](auto& f) { f.capsule.tensor.shape = nullptr; }, {"requires a shape"}},
      {"negative size", [](auto& f) { f.shape[1] = -3; }, {"dimension 1 must be at least 0, got -3"}},
      {"lanes", [](auto& f) { f.capsule.tensor.dtype.lanes = 4; }, {"elements must have 1 lane, got 4"}},
      {"no lanes", [](auto& f) { f.capsule.tensor.dtype.lanes = 0; }, {"elements must have 1 lane, got 0"}},
      {"bits", [](auto& f) { f.capsule.tensor.dtype.bits = 24; }, {"got code 2 with 24 bits"}},
      {"code", [](auto& f) { f.capsule.tensor.dtype.code = 200; }, {"got code 200"}},
      {"device",
       [](auto& f) { f.capsule.tensor.device.type = 8; },
       {"device type must be 1 (CPU), 2 (CUDA) or 3 (CUDA host), got 8"}},
      {"elements overflow",
       [](auto& f) {
         f.shape = {kHuge, kHuge};
         f.capsule.tensor.shape = f.shape.data();
       },
       {"63 bits"}},
      {"bytes overflow",
       [](auto& f) {
         f.shape = {1, kHuge << 1};
         f.capsule.tensor.shape = f.shape.data();
       },
       {"63 bits"}},
      {"past all addresses",
       [](auto& f) {
         f.shape = {1, kHuge};
         f.capsule.tensor.shape = f.shape.data();
       },
       {"outside the address space"}},
      {"step overflow", [](auto& f) { f.strides[0] = std::numeric_limits<std::int64_t>::max(); }, {"64 bits"}},
      {"long step",
       [](auto& f) { f.strides[0] = std::numeric_limits<std::int64_t>::max() - 2; },
       {"outside the address space"}},
      {"least step",
       [](auto& f) { f.strides[0] = std::numeric_limits<std::int64_t>::min(); },
       {"outside the address space"}},
      {"steps overflow",
       [](auto& f) {
         f.strides = {std::numeric_limits<std::int64_t>::max(), kHuge};
         f.capsule.tensor.strides = f.strides.data();
       },
       {"64 bits"}},
      {"before all addresses", [](auto& f) { f.strides[0] = -kHuge; }, {"outside the address space"}},
      {"offset", [](auto& f) { f.capsule.tensor.byte_offset = ~std::uint64_t{0}; }, {"outside the address space"}},
      {"null", [](auto& f) { f.capsule.tensor.data = nullptr; }, {"outside the address space"}},
      {"null and offset",
       [](auto& f) {
         f.capsule.tensor.data = nullptr;
         f.capsule.tensor.byte_offset = 4096;
       },
       {"outside the address space"}},
      {"alignment", [](auto& f) { f.capsule.tensor.byte_offset = 2; }, {"aligned to 4"}},
  };
  for (const Hostile& hostile : all) {
    SCOPED_TRACE(hostile.name);
    ForeignVersioned foreign;
    hostile.spoil(foreign);
    try {
      (void)from_dlpack(&foreign.capsule);
      ADD_FAILURE() << "was taken";
    } catch (const Error& error) {
      for (const std::string_view word : hostile.words) {
        EXPECT_NE(std::string_view(error.what()).find(word), std::string_view::npos) << error.what();
      }
    }
    EXPECT_EQ(foreign.deleted, 0);
  }
  expect_error<InvalidArgument>([] { (void)from_dlpack(static_cast<ManagedTensor*>(nullptr)); },
                                {"capsule must not be null"});
}

TEST(DlpackImportRefuses, ADeviceOfAnotherKind) {
  ForeignVersioned foreign;
  foreign.capsule.tensor.device = {dlpack::kCuda, 0};
  expect_error<InvalidArgument>([&] { (void)from_dlpack(&foreign.capsule, {.device = host()}); },
                                {"device must be that of the tensor, type 2 and index 0, got host"});
  foreign.capsule.tensor.device = {dlpack::kCuda, 4711};
  EXPECT_THROW((void)from_dlpack(&foreign.capsule), Error);
  foreign.capsule.tensor.device = {dlpack::kCudaHost, 0};
  EXPECT_EQ(from_dlpack(&foreign.capsule).device(), host());
}

TEST(DlpackImportFlags, TakesReadOnlyElementsWhenTold) {
  ForeignVersioned foreign;
  foreign.capsule.flags = dlpack::kReadOnly | dlpack::kCopied;
  EXPECT_EQ(from_dlpack(&foreign.capsule, {.accept_read_only = true}).numel(), 6);
  EXPECT_EQ(foreign.deleted, 1);
}

TEST(Dlpack, EveryDTypeGoesOutAndComesBack) {
  for (const DType dtype : kAllDTypes) {
    const Tensor x = Tensor::allocate({3, 2}, dtype, host());
    ManagedTensorVersioned* capsule = to_dlpack(x);
    EXPECT_EQ(capsule->version.major, 1U);
    EXPECT_EQ(capsule->tensor.dtype.bits, 8 * itemsize(dtype));
    EXPECT_EQ(capsule->tensor.dtype.lanes, 1);
    EXPECT_EQ(capsule->flags, 0U);
    const Tensor y = from_dlpack(capsule);
    EXPECT_EQ(y.dtype(), dtype);
    EXPECT_EQ(y.data(), x.data());
    EXPECT_EQ(from_dlpack(to_dlpack_unversioned(x)).dtype(), dtype);
  }
}

TEST(Dlpack, NumbersAreThoseOfTheSpecification) {
  const auto code = [](DType dtype) {
    ManagedTensorVersioned* capsule = to_dlpack(Tensor::allocate({1}, dtype, host()));
    const int found = capsule->tensor.dtype.code;
    EXPECT_EQ(capsule->tensor.device.type, 1);
    capsule->deleter(capsule);
    return found;
  };
  EXPECT_EQ(code(DType::kI32), 0);
  EXPECT_EQ(code(DType::kU16), 1);
  EXPECT_EQ(code(DType::kF64), 2);
  EXPECT_EQ(code(DType::kBF16), 4);
  EXPECT_EQ(code(DType::kC64), 5);
  EXPECT_EQ(code(DType::kBool), 6);
  EXPECT_EQ(code(DType::kF8E4M3), 10);
  EXPECT_EQ(code(DType::kF8E5M2), 12);
}

TEST(Dlpack, ViewsKeepTheirStepsAndTheStorageLivesWithTheCapsule) {
  Tensor x = Tensor::allocate({4, 6}, DType::kF32, host());
  x.device().synchronize();
  for (int i = 0; i < 24; ++i) x.data_as<float>()[i] = static_cast<float>(i);
  ManagedTensorVersioned* capsule = to_dlpack(x.as_strided({6, 2}, {1, 6}, 12), {.read_only = true});
  const float* before = x.data_as<float>();
  x = Tensor();
  const Tensor other = Tensor::allocate({4, 6}, DType::kF32, host());
  EXPECT_NE(other.data_as<float>(), before) << "the memory was given out again";
  EXPECT_EQ(capsule->flags, dlpack::kReadOnly);
  EXPECT_EQ(capsule->tensor.strides[1], 6);
  EXPECT_EQ(capsule->tensor.shape[0], 6);
  EXPECT_EQ(static_cast<float*>(capsule->tensor.data)[7], 19);
  capsule->deleter(capsule);
  EXPECT_EQ(Tensor::allocate({4, 6}, DType::kF32, host()).data_as<float>(), before) << "the deleter gave it back";
}

TEST(Dlpack, AStreamIsMadeToWaitForTheProducer) {
  const RankScope rank(std::make_shared<RankContext>(RankPlace{}));  // destroys its devices with it
  const device::Device device = device::host::make_host_device({.mode = device::host::Mode::kThreaded});
  const Tensor x = Tensor::allocate({1}, DType::kF32, device);
  const device::Stream consumer = device.create_stream();
  const device::Stream& producer = current_stream(device);
  const Tick written = producer.stamp();
  ManagedTensorVersioned* plain = to_dlpack(x);
  EXPECT_FALSE(consumer.covers(producer.id(), written)) << "no stream: no order";
  plain->deleter(plain);
  ManagedTensorVersioned* ordered = to_dlpack(x, {.stream = consumer});
  EXPECT_TRUE(consumer.covers(producer.id(), written));
  ordered->deleter(ordered);
  expect_error<InvalidArgument>([&] { (void)to_dlpack(x, {.stream = host().default_stream()}); },
                                {"stream must belong to the device of", "of host"});
}

TEST(Dlpack, IsSafeInACaptureWithoutAStream) {
  const RankScope rank(std::make_shared<RankContext>(RankPlace{}));  // destroys its devices with it
  const device::Device device = device::host::make_host_device();
  const Tensor x = Tensor::allocate({1}, DType::kF32, device);
  const device::Stream stream = device.create_stream();
  const StreamScope scope(stream);
  stream.begin_capture();
  const Tensor y = from_dlpack(to_dlpack(x), {.device = device});
  const device::Graph graph = stream.end_capture();
  EXPECT_EQ(y.data(), x.data());
}

TEST(Dlpack, RefusesLayoutsTrackedTensorsAndNone) {
  const Tensor local = Tensor::allocate({2}, DType::kF32, host());
  const Tensor whole = Tensor::sharded({4}, DType::kF32, layout::Layout::parse("dp=2 {Shard(0)}"), local);
  expect_error<InvalidArgument>([&] { (void)to_dlpack(whole); },
                                {"tensor must be plain, got f32[4] dp=2 {Shard(0)}", "local()"});
  expect_error<InvalidArgument>([&] { (void)to_dlpack(Tensor()); }, {"tensor must not be empty"});
  expect_error<InvalidArgument>([&] { (void)to_dlpack_unversioned(local, {.read_only = true}); },
                                {"read_only requires DLPack 1"});
  const Tensor tracked = local.detach();
  tracked.set_gradient_state(std::make_unique<Tracked>());
  expect_error<InvalidArgument>([&] { (void)to_dlpack(tracked); }, {"autograd", "detach()"});
}

}  // namespace
}  // namespace tessera::tensor
