// The Tensor handle: wrapping, views, and calls that throw for tensors with layouts.
#include "tessera/tensor/tensor.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "tessera/base/testing/expect_error.h"
#include "tessera/layout/layout.h"

namespace tessera::tensor {
namespace {

device::Device host() { return device::Device::get("host"); }

struct Tracked : GradientState {
  Tracked() { is_tracked = true; }
};

TEST(Tensor, IsAHandleThatSharesElements) {
  const Tensor none;
  EXPECT_FALSE(none);
  EXPECT_EQ(describe(none), "no tensor");
  const Tensor a = Tensor::allocate({2, 3}, DType::kI32, host());
  const Tensor b = a;
  EXPECT_TRUE(a.is_same(b));
  EXPECT_FALSE(a.is_same(a.detach())) << "another object, if of the same elements";
  EXPECT_EQ(a.numel(), 6);
  EXPECT_EQ(a.nbytes(), 24U);
  EXPECT_EQ(a.size(-1), 3);
  EXPECT_EQ(a.ndim(), 2);
  EXPECT_TRUE(a.is_contiguous());
  EXPECT_EQ(a.strides(), Strides({3, 1}));
  EXPECT_EQ(describe(a), "i32[2, 3] on host");
  expect_error<InvalidArgument>([&] { (void)a.size(2); }, {"shape [2, 3]: dimension must be in [-2, 2), got 2"});
  expect_error<InvalidArgument>([&] { (void)a.data_as<float>(); },
                                {"data_as: T must be the type of i32 elements, got that of f32"});
}

TEST(Tensor, ScalarsAndEmptyOnes) {
  const Tensor scalar = Tensor::allocate({}, DType::kF64, host());
  EXPECT_EQ(scalar.numel(), 1);
  EXPECT_EQ(scalar.nbytes(), 8U);
  const Tensor empty = Tensor::allocate({3, 0}, DType::kF64, host());
  EXPECT_EQ(empty.numel(), 0);
  EXPECT_EQ(empty.data(), nullptr);
  EXPECT_TRUE(empty.is_contiguous());
  expect_error<InvalidArgument>(
      [] {
        (void)Tensor::allocate({std::int64_t{1} << 60, 8}, DType::kF64, host());
      },
      {"63 bits"});
}

TEST(Tensor, WrapsMemoryFromOutside) {
  const auto owner = std::make_shared<std::vector<float>>(std::vector<float>{0, 1, 2, 3, 4, 5});
  const std::weak_ptr<std::vector<float>> watch = owner;
  {
    const Tensor x = Tensor::wrap(owner->data(), {2, 3}, DType::kF32, host(), owner);
    EXPECT_EQ(x.data_as<float>(), owner->data());
    EXPECT_TRUE(x.storage().is_external());
    EXPECT_EQ(x.storage().nbytes(), 24U);
    EXPECT_EQ(watch.use_count(), 2);
  }
  EXPECT_EQ(watch.use_count(), 1);
}

TEST(Tensor, WrapsNegativeStrides) {
  std::vector<float> data = {0, 1, 2, 3, 4, 5};
  const Strides strides = {-3, 1};
  const Tensor x = Tensor::wrap(data.data() + 3, {2, 3}, DType::kF32, host(), nullptr, &strides);
  EXPECT_EQ(*x.data_as<float>(), 3);
  EXPECT_EQ(x.offset(), 3);
  EXPECT_EQ(x.storage().data(), reinterpret_cast<std::byte*>(data.data()));
  EXPECT_EQ(x.storage().nbytes(), 24U);
  EXPECT_FALSE(x.is_contiguous());
  EXPECT_EQ(*x.as_strided({6}, {1}, 0).data_as<float>(), 0) << "the whole range belongs to the view";
}

TEST(Tensor, WrapRefusesWhatCannotBe) {
  alignas(16) char data[64] = {};
  const auto wrap = [&](void* at, const Shape& shape, DType dtype, const Strides& strides) {
    (void)Tensor::wrap(at, shape, dtype, host(), nullptr, &strides);
  };
  expect_error<InvalidArgument>([&] { wrap(data + 2, {1}, DType::kF32, {1}); }, {"aligned to 4", "copy it"});
  EXPECT_NO_THROW(wrap(data + 4, {1}, DType::kC64, {1})) << "complex elements are aligned like their parts";
  expect_error<InvalidArgument>([&] { wrap(data + 4, {1}, DType::kC128, {1}); }, {"aligned to 8"});
  expect_error<InvalidArgument>([&] { wrap(nullptr, {1}, DType::kF32, {1}); },
                                {"Tensor::wrap: data must be the address of 1 elements, got null"});
  EXPECT_NO_THROW(wrap(nullptr, {0}, DType::kF32, {1}));
  expect_error<InvalidArgument>([&] { wrap(data, {1, 2}, DType::kF32, {1}); }, {"one entry per dimension"});
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
  expect_error<InvalidArgument>([&] { wrap(data, {2, 2}, DType::kF32, {kMax, -kMax}); }, {"64 bits"});
  expect_error<InvalidArgument>([&] { wrap(data, {2}, DType::kU8, {kMax}); }, {"64 bits"});
  expect_error<InvalidArgument>([&] { wrap(data, {2}, DType::kF32, {kMin}); }, {"64 bits"});
  expect_error<InvalidArgument>([&] { wrap(data, {2}, DType::kF32, {kMax / 2}); }, {"64 bits"});
  expect_error<InvalidArgument>([&] { (void)Tensor::wrap(data, {1}, DType::kU8, device::Device(), nullptr); });
}

TEST(Tensor, ViewsStayInsideTheStorage) {
  const Tensor x = Tensor::allocate({4, 6}, DType::kF32, host());
  const Tensor view = x.as_strided({2, 3}, {6, 2}, 7);
  EXPECT_EQ(view.data_as<float>(), x.data_as<float>() + 7);
  EXPECT_EQ(&view.storage(), &x.storage());
  EXPECT_FALSE(view.is_contiguous());
  EXPECT_EQ(view.as_strided({24}, {1}, 0).data(), x.data()) << "offsets count from the storage, not from the view";
  EXPECT_EQ(x.as_strided({3, 5}, {0, 0}, 23).numel(), 15);
  EXPECT_EQ(x.as_strided({0}, {1}, 1000).numel(), 0);
  EXPECT_EQ(x.as_strided({4}, {-6}, 18).numel(), 4);
  expect_error<InvalidArgument>([&] { (void)x.as_strided({25}, {1}, 0); },
                                {"as_strided: view must end in its storage of 24 elements, got one that ends at 25"});
  expect_error<InvalidArgument>([&] { (void)x.as_strided({2}, {-1}, 0); },
                                {"view must start in its storage, got one that starts 1 elements before"});
  expect_error<InvalidArgument>([&] { (void)x.as_strided({2}, {1, 1}, 0); }, {"one entry per dimension"});
  expect_error<InvalidArgument>([&] { (void)x.as_strided({2}, {std::numeric_limits<std::int64_t>::max()}, 1); },
                                {"64 bits"});
  expect_error<InvalidArgument>([&] { (void)x.as_strided({}, {}, -1); }, {"starts 1 elements before"});
}

TEST(Tensor, BytesCanBeReadAsAnotherDType) {
  const Tensor x = Tensor::allocate({2, 4}, DType::kF32, host());
  const Tensor pairs = x.reinterpreted(DType::kC64, {2, 2}, {2, 1}, 0);
  EXPECT_EQ(pairs.data(), x.data());
  EXPECT_EQ(describe(pairs), "c64[2, 2] on host");
  EXPECT_EQ(x.reinterpreted(DType::kU8, {4}, {1}, 28).data(), x.data() + 28);
  expect_error<InvalidArgument>([&] { (void)x.reinterpreted(DType::kF64, {5}, {1}, 0); },
                                {"its storage of 4 elements, got one that ends at 5"});
  alignas(8) char data[24] = {};
  const Tensor odd = Tensor::wrap(data + 2, {16}, DType::kU8, host(), nullptr);
  expect_error<InvalidArgument>([&] { (void)odd.reinterpreted(DType::kF32, {1}, {1}, 0); },
                                {"u8[16] on host", "aligned to elements of f32"});
}

TEST(Tensor, DetachLeavesAutogradBehindAndSharesTheVersion) {
  const Tensor x = Tensor::allocate({2}, DType::kF32, host());
  x.set_gradient_state(std::make_unique<Tracked>());
  EXPECT_TRUE(x.is_tracked());
  const Tensor y = x.detach();
  EXPECT_FALSE(y.is_tracked());
  EXPECT_EQ(y.gradient_state(), nullptr);
  EXPECT_EQ(y.data(), x.data());
  x.storage().bump_version();
  EXPECT_EQ(y.version(), x.version());
  EXPECT_FALSE(x.as_strided({1}, {1}, 1).is_tracked());
}

layout::Layout cut_in_two() { return layout::Layout::parse("dp=2 {Shard(0)}"); }

TEST(ShardedTensor, HasAGlobalShapeAndALocalPart) {
  const Tensor local = Tensor::allocate({2, 3}, DType::kF32, host());
  const Tensor x = Tensor::sharded({4, 3}, DType::kF32, cut_in_two(), local);
  EXPECT_EQ(x.shape(), Shape({4, 3}));
  EXPECT_EQ(x.numel(), 12);
  EXPECT_TRUE(x.has_layout());
  EXPECT_EQ(x.layout(), cut_in_two());
  EXPECT_TRUE(x.local().is_same(local));
  EXPECT_TRUE(local.local().is_same(local)) << "a plain tensor is its own part";
  EXPECT_EQ(x.device(), host());
  EXPECT_EQ(describe(x), "f32[4, 3] dp=2 {Shard(0)}");
  local.storage().bump_version();
  EXPECT_EQ(x.version(), local.version());
  EXPECT_TRUE(x.detach().local().is_same(local));
  EXPECT_EQ(x.detach().layout(), cut_in_two());
}

TEST(ShardedTensor, RefusesWhatWouldTakeAPartForTheWhole) {
  const Tensor x = Tensor::sharded({4}, DType::kF32, cut_in_two(), Tensor::allocate({2}, DType::kF32, host()));
  const auto refused = [&](const char* what, const std::function<void()>& body) {
    expect_error<InvalidArgument>(body, {what, "f32[4] dp=2 {Shard(0)}", "use local() for the local shard"});
  };
  refused("data()", [&] { (void)x.data(); });
  refused("data()", [&] { (void)x.data_as<float>(); });
  refused("strides()", [&] { (void)x.strides(); });
  refused("storage()", [&] { (void)x.storage(); });
  refused("is_contiguous()", [&] { (void)x.is_contiguous(); });
  refused("as_strided()", [&] { (void)x.as_strided({1}, {1}, 0); });
}

TEST(ShardedTensor, OffTheMeshThereIsNoPart) {
  const Tensor x = Tensor::sharded({4}, DType::kF32, cut_in_two(), {});
  EXPECT_FALSE(x.local());
  expect_error<InvalidArgument>([&] { (void)x.device(); }, {"not in the mesh", "f32[4] dp=2 {Shard(0)}"});
  expect_error<InvalidArgument>([&] { (void)x.version(); }, {"not in the mesh"});
}

TEST(ShardedTensor, IsMadeOfAPlainPartOfTheSameKind) {
  const Tensor local = Tensor::allocate({2}, DType::kF32, host());
  const Tensor whole = Tensor::sharded({4}, DType::kF32, cut_in_two(), local);
  expect_error<InvalidArgument>([&] { (void)Tensor::sharded({4}, DType::kF32, {}, local); },
                                {"Tensor::sharded: layout must not be empty"});
  expect_error<InvalidArgument>([&] { (void)Tensor::sharded({8}, DType::kF32, cut_in_two(), whole); },
                                {"local shard must be a plain tensor"});
  expect_error<InvalidArgument>([&] { (void)Tensor::sharded({4}, DType::kF64, cut_in_two(), local); },
                                {"must have the dtype of the tensor, f64, got f32"});
  expect_error<InvalidArgument>(
      [&] {
        (void)Tensor::sharded({4, 1}, DType::kF32, cut_in_two(), local);
      },
      {"as many dimensions as the global shape"});
  expect_error<InvalidArgument>([&] { (void)Tensor::sharded({}, DType::kF32, cut_in_two(), {}); },
                                {"must have at least 1 dimensions for layout dp=2 {Shard(0)}, got []"});
}

}  // namespace
}  // namespace tessera::tensor
