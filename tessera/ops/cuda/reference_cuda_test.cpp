// Tests operators on the first CUDA device: each operator with a kernel there is compared with its reference, and with
// the host bits if these are guaranteed. Edge cases: empty tensors, one element, more than 2^31 elements, graphs,
// rejected calls.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "tessera/memory/graph_capture.h"
#include "tessera/ops/create/create.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/ops/reduce/reduce.h"
#include "tessera/ops/testing/reference.h"
#include "tessera/ops/testing/sample_memory.h"
#include "tessera/tensor/print.h"

namespace tessera::ops::testing {
namespace {

class CudaOps : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      gpu = device::Device::get("cuda");
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
  }
  [[nodiscard]] Tensor on_gpu(const Tensor& x) const { return to(x, gpu); }

  device::Device host = device::Device::get("host");
  device::Device gpu;
};

std::vector<std::byte> bytes_of(const Tensor& x) {
  const Tensor here = contiguous(to(x, device::Device::get("host")));
  here.device().synchronize();
  return {here.data(), here.data() + here.nbytes()};
}

// Returns arbitrary bits.
Tensor random_bits(const Shape& shape, DType dtype, unsigned seed) {
  Tensor x = Tensor::allocate(shape, dtype, device::Device::get("host"));
  x.device().synchronize();
  std::mt19937_64 random(seed);
  for (std::size_t i = 0; i < x.nbytes(); ++i) x.data()[i] = static_cast<std::byte>(random() >> 24);
  if (dtype == DType::kBool) {
    for (std::size_t i = 0; i < x.nbytes(); ++i) x.data()[i] &= std::byte{1};
  }
  return x;
}

// Returns numbers that keep sums and products in range, also in integers and bool.
Tensor random_numbers(const Shape& shape, DType dtype, unsigned seed, bool strided = false) {
  Array array(shape);
  std::mt19937_64 random(seed);
  for (double& value : array.values) {
    value = static_cast<double>(random() % 2001) / (is_floating(dtype) ? 128 : 20) - (is_signed(dtype) ? 8 : 0);
  }
  if (dtype == DType::kBool) {
    for (double& value : array.values) value = static_cast<double>(random() % 2);
  }
  return to_tensor(array, dtype, strided);
}

bool is_nan_at(const std::byte* at, DType dtype) {
  if (dtype == DType::kC64 || dtype == DType::kC128) {
    return is_nan_at(at, real_of(dtype)) || is_nan_at(at + itemsize(real_of(dtype)), real_of(dtype));
  }
  return is_floating(dtype) && std::isnan(read_element(at, dtype));
}

// Nans may differ in sign and payload if the arithmetic of the host produced them.
void expect_same(const Tensor& on_gpu, const Tensor& on_host, const std::string& what) {
  SCOPED_TRACE(what);
  ASSERT_EQ(on_gpu.shape(), on_host.shape());
  ASSERT_EQ(on_gpu.dtype(), on_host.dtype());
  const auto got = bytes_of(on_gpu);
  const auto want = bytes_of(on_host);
  const std::size_t item = itemsize(on_host.dtype());
  for (std::size_t i = 0; i < got.size(); i += item) {
    if (std::memcmp(&got[i], &want[i], item) == 0) continue;
    ASSERT_TRUE(is_nan_at(&got[i], on_host.dtype()) && is_nan_at(&want[i], on_host.dtype()))
        << "element " << i / item << " of " << describe(on_host);
  }
}

std::string text(DType from, DType to) { return std::string(to_string(from)) + " to " + std::string(to_string(to)); }

// Needs no GPU.
TEST(CudaKernels, EveryOperatorHasOne) {
  for (const tensor::Operator& op : tensor::all_ops()) {
    EXPECT_TRUE(op->def.view != nullptr || op->kernels[tensor::device_kind("cuda")] != nullptr) << op->name;
  }
}

class CudaReference : public CudaOps, public ::testing::WithParamInterface<OpCaseInfo> {};

TEST_P(CudaReference, GivesWhatPlainLoopsGive) { run_case(GetParam(), gpu); }

INSTANTIATE_TEST_SUITE_P(Operators, CudaReference, ::testing::ValuesIn(all_cases()),
                         [](const auto& tested) { return tested.param.op; });

TEST_F(CudaOps, TensorsComeBackAsTheyWent) {
  for (const DType dtype : kAllDTypes) {
    const Tensor x = random_bits({37, 11}, dtype, 5);
    EXPECT_EQ(bytes_of(on_gpu(x)), bytes_of(x)) << to_string(dtype);
  }
  const Tensor large = random_bits({(5 << 20) + 3}, DType::kF32, 6);  // several staging buffers
  EXPECT_EQ(bytes_of(on_gpu(large)), bytes_of(large));
}

TEST_F(CudaOps, StridedTensorsComeBackAsTheyWent) {
  const Tensor x = random_numbers({7, 5, 3}, DType::kF32, 8, true);
  EXPECT_EQ(bytes_of(on_gpu(x)), bytes_of(x)) << "strided on the host";
  EXPECT_EQ(bytes_of(on_device(x, gpu)), bytes_of(x)) << "strided on the device";
  const Tensor target = on_device(random_numbers({7, 5, 3}, DType::kF32, 9, true), gpu);
  copy_(target, x);
  EXPECT_EQ(bytes_of(target), bytes_of(x)) << "into strided memory of the device";
  const Tensor back = random_numbers({7, 5, 3}, DType::kF64, 10, true);
  copy_(back, target);
  expect_same(cast(back, DType::kF32), x, "and back into another dtype");
}

// Each copy waits for earlier work on both sides, and later work waits for the copy.
TEST_F(CudaOps, CopiesKeepTheOrderOfBothDevices) {
  Tensor x = random_numbers({1 << 16}, DType::kF32, 11);
  Tensor want = clone(x);
  for (int i = 0; i < 20; ++i) {
    x = add(to(mul(on_gpu(add(x, 1.0)), 0.5), host), 1.0);
    want = add(mul(add(want, 1.0), 0.5), 1.0);
  }
  expect_same(x, want, "after 20 rounds");
}

TEST_F(CudaOps, CastGivesTheBitsOfTheHost) {
  for (const DType from : kAllDTypes) {
    const Tensor x = random_bits({4099}, from, 21);
    const Tensor x_gpu = on_gpu(x);
    for (const DType dtype : kAllDTypes) {
      if (dtype == from) continue;
      expect_same(cast(x_gpu, dtype), cast(x, dtype), text(from, dtype));
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(CudaOps, CastRoundsEveryHalfAsTheHostDoes) {
  Array all(Shape({65536}));
  for (std::size_t i = 0; i < all.values.size(); ++i) all.values[i] = static_cast<double>(i);
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    const Tensor bits = cast(to_tensor(all, DType::kI32), DType::kU16);
    const Tensor halves = bits.reinterpreted(dtype, bits.shape(), bits.strides(), 0);
    expect_same(cast(on_gpu(halves), DType::kF32), cast(halves, DType::kF32), std::string(to_string(dtype)));
    // Halfway between two values, and slightly to either side.
    const Tensor wide = cast(halves, DType::kF64);
    for (const double off : {0.25, 0.5, 0.50001, 0.75}) {
      const Tensor between =
          cast(add(wide, mul(mul(wide, 1.0 / (dtype == DType::kF16 ? 1024 : 128)), off)), DType::kF32);
      expect_same(cast(on_gpu(between), dtype), cast(between, dtype), std::string(to_string(dtype)) + " rounded");
    }
  }
}

TEST_F(CudaOps, ArithmeticGivesTheBitsOfTheHost) {
  const DType all[] = {DType::kF64, DType::kF32, DType::kF16, DType::kBF16, DType::kI64,
                       DType::kI32, DType::kI16, DType::kI8,  DType::kU8,   DType::kBool};
  unsigned seed = 30;
  for (const DType left : all) {
    for (const DType right : all) {
      for (const bool strided : {false, true}) {
        const Tensor a = random_numbers({65, 36}, left, ++seed, strided);
        const Tensor b = random_numbers({65, 36}, right, ++seed);
        const Tensor row = random_numbers({36}, right, ++seed);
        const Tensor column = random_numbers({65, 1}, right, ++seed);
        const Tensor a_gpu = on_device(a, gpu);
        for (const Tensor& other : {b, row, column}) {
          const std::string what = describe(a) + (strided ? " strided, " : ", ") + describe(other);
          expect_same(add(a_gpu, on_gpu(other)), add(a, other), "add " + what);
          expect_same(mul(a_gpu, on_gpu(other)), mul(a, other), "mul " + what);
        }
        expect_same(add(a_gpu, 3), add(a, 3), "add 3 to " + describe(a));
        expect_same(mul(a_gpu, 2.5), mul(a, 2.5), "mul 2.5 by " + describe(a));
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_F(CudaOps, ComplexNumbersAreComputed) {
  const Tensor parts = random_numbers({33, 10}, DType::kF32, 70);
  const Tensor a = parts.reinterpreted(DType::kC64, {33, 5}, Strides({5, 1}), 0);
  expect_same(add(on_gpu(a), on_gpu(a)), add(a, a), "add");
  // Hosts with fused multiply-add round a product once less often.
  const auto as_parts = [](const Tensor& x) { return x.reinterpreted(DType::kF32, {33, 10}, Strides({10, 1}), 0); };
  expect_close(to_array(to(as_parts(mul(on_gpu(a), on_gpu(a))), host)), to_array(as_parts(mul(a, a))), 1e-5);
  expect_close(to_array(to(as_parts(add(on_gpu(a), Scalar(std::complex<double>(1, 2)))), host)),
               to_array(as_parts(add(a, Scalar(std::complex<double>(1, 2))))), 0);
}

TEST_F(CudaOps, WritesIntoItsOwnInput) {
  for (const std::int64_t size : {std::int64_t{5}, std::int64_t{4096}, std::int64_t{100003}}) {
    const Tensor a = random_numbers({size}, DType::kF32, 80);
    const Tensor b = random_numbers({size}, DType::kBF16, 81);
    const Tensor a_gpu = on_gpu(a);
    add_(a_gpu, on_gpu(b));
    mul_(a_gpu, 3);
    add_(a, b);
    mul_(a, 3);
    expect_same(a_gpu, a, std::to_string(size));
  }
}

TEST_F(CudaOps, UnalignedViewsAreComputed) {
  const Tensor a = random_numbers({5001}, DType::kBF16, 82);
  const auto from_1 = [](const Tensor& x) { return x.as_strided({5000}, Strides({1}), 1); };
  expect_same(add(from_1(on_gpu(a)), from_1(on_gpu(a))), add(from_1(a), from_1(a)), "add");
  expect_same(sum(from_1(on_gpu(cast(a, DType::kI64)))), sum(from_1(cast(a, DType::kI64))), "sum");
  const auto backwards = [](const Tensor& x) { return x.as_strided({5001}, Strides({-1}), 5000); };
  expect_same(add(backwards(on_gpu(a)), on_gpu(a)), add(backwards(a), a), "backwards");
}

TEST_F(CudaOps, SumsOfIntegersAreThoseOfTheHost) {
  const Shape shapes[] = {{1},         {3, 0, 4},    {7},          {1000003},       {3, 100000}, {100000, 3},
                          {257, 1025}, {1030, 4, 5}, {33, 50, 64}, {2, 3, 4, 5, 6}, {6, 70000}};
  for (const Shape& shape : shapes) {
    for (const DType dtype : {DType::kI64, DType::kI32, DType::kU8, DType::kBool, DType::kI16}) {
      const Tensor x = random_numbers(shape, dtype, 90);
      const Tensor x_gpu = on_gpu(x);
      const std::string what = describe(x);
      expect_same(sum(x_gpu), sum(x), what);
      for (std::int64_t dim = 0; dim < x.ndim(); ++dim) {
        expect_same(sum(x_gpu, {dim}), sum(x, {dim}), what + " over " + std::to_string(dim));
        expect_same(sum(x_gpu, {dim}, true, DType::kI32), sum(x, {dim}, true, DType::kI32), what + " kept, in i32");
      }
      if (x.ndim() >= 3) {
        expect_same(sum(x_gpu, {0, 2}), sum(x, {0, 2}), what + " over 0 and 2");
        expect_same(sum(x_gpu, {1}, false, DType::kBool), sum(x, {1}, false, DType::kBool), what + " in bool");
      }
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(CudaOps, SumsAndMeansOfFloatsAreClose) {
  const Shape shapes[] = {{1}, {1000003}, {3, 100000}, {100000, 3}, {257, 1025}, {1024, 4096}, {33, 50, 64}};
  for (const Shape& shape : shapes) {
    for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kF16}) {
      const Tensor x = random_numbers(shape, dtype, 91);
      const Tensor x_gpu = on_gpu(x);
      const double tolerance = dtype == DType::kF64 ? 1e-12 : dtype == DType::kF32 ? 1e-6 : 1.0 / 128;
      for (std::int64_t dim = 0; dim < x.ndim(); ++dim) {
        SCOPED_TRACE(describe(x) + " over " + std::to_string(dim));
        expect_close(to_array(to(sum(x_gpu, {dim}), host)), to_array(sum(x, {dim})), tolerance);
        expect_close(to_array(to(mean(x_gpu, {dim}), host)), to_array(mean(x, {dim})), tolerance);
      }
      expect_close(to_array(to(mean(x_gpu), host)), to_array(mean(x)), tolerance);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(CudaOps, SumsHaveTheSameBitsWhereverTheyLie) {
  const Tensor x = random_numbers({100004}, DType::kF32, 92);
  const Tensor x_gpu = on_gpu(x);
  const Tensor shifted = empty({100005}, {.dtype = DType::kF32, .device = gpu}).as_strided({100004}, Strides({1}), 1);
  copy_(shifted, x_gpu);
  const auto want = bytes_of(sum(x_gpu));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(bytes_of(sum(x_gpu)), want);
  EXPECT_EQ(bytes_of(sum(shifted)), want);
}

TEST_F(CudaOps, NothingAndOneElementAreComputed) {
  const Tensor none = on_gpu(to_tensor(Array(Shape({3, 0})), DType::kF32));
  EXPECT_EQ(add(none, none).shape(), Shape({3, 0}));
  EXPECT_EQ(cast(none, DType::kBF16).numel(), 0);
  EXPECT_EQ(clone(none).numel(), 0);
  expect_same(sum(none, {1}), zeros({3}), "sum of nothing");
  EXPECT_TRUE(std::isnan(to_array(to(mean(none), host)).values[0]));
  const Tensor one = on_gpu(to_tensor(Array(Shape(), 2.5), DType::kF32));
  EXPECT_EQ(to_array(to(mul(add(one, one), 2), host)).values[0], 10);
  EXPECT_EQ(to_array(to(sum(one), host)).values[0], 2.5);
}

TEST_F(CudaOps, FillsEveryDtype) {
  for (const DType dtype : kAllDTypes) {
    const CreateOptions there{.dtype = dtype, .device = gpu};
    const CreateOptions here{.dtype = dtype, .device = host};
    for (const double value : {0.0, 1.0, 3.5}) {
      expect_same(full({1029}, value, there), full({1029}, value, here), std::string(to_string(dtype)));
    }
    const Tensor x = zeros({6, 8}, there);
    const Tensor want = zeros({6, 8}, here);
    const auto columns = [](const Tensor& t) { return t.as_strided({6, 3}, Strides({8, 2}), 1); };
    fill_(columns(x), 7);
    fill_(columns(want), 7);
    expect_same(x, want, "every other column in " + std::string(to_string(dtype)));
  }
}

TEST_F(CudaOps, Prints) {
  const Tensor x = on_gpu(to_tensor(Array(Shape({2, 2}), {1, 2, 3, 4}), DType::kF32));
  const std::string there = to_string(add(x, 1));
  EXPECT_NE(there.find("2.0, 3.0"), std::string::npos) << there;
  EXPECT_NE(there.find("4.0, 5.0"), std::string::npos) << there;
}

TEST_F(CudaOps, MoreThan2To31ElementsAreComputed) {
  const std::int64_t count = (std::int64_t{1} << 31) + 5;
  const Tensor x = zeros({count}, {.dtype = DType::kU8, .device = gpu});
  const auto last = [&](const Tensor& t) { return t.as_strided({7}, Strides({1}), count - 7); };
  fill_(last(x), 9);
  const Tensor sums = add(x, x);
  EXPECT_EQ(to_array(to(last(sums), host)).values, std::vector<double>(7, 18));
  EXPECT_EQ(to_array(to(sum(sums), host)).values[0], 7 * 18);
  const Tensor halves = cast(x, DType::kBF16);
  EXPECT_EQ(to_array(to(last(halves), host)).values, std::vector<double>(7, 9));
  // As a walk over two of every three elements. The last seven elements leave count - 7, - 6, - 4 and - 3.
  ASSERT_EQ((count - 7) % 3, 0);
  const Tensor wide = x.as_strided({count / 3, 2}, Strides({3, 1}), 0);
  EXPECT_EQ(to_array(to(sum(wide, {}, false, DType::kI64), host)).values[0], 9 * 4);
}

TEST_F(CudaOps, ACapturedGraphIsReplayed) {
  const device::Stream stream = gpu.create_stream({.name = "captured"});
  const tensor::StreamScope scope(stream);
  const Tensor a = full({20000}, 1, {.device = gpu});
  const Tensor b = full({20000}, 2, {.device = gpu});
  const Tensor out = full({20000}, 0, {.device = gpu});
  const Tensor total = full({}, 0, {.device = gpu});
  memory::CapturedGraph graph;
  {
    memory::GraphCapture capture(memory::Allocator::of(gpu), stream);
    add(a, b, {.out = out});
    mul_(out, 10);
    add_(a, 1);
    tensor::call_out(tensor::find_op("sum"), total, {out}, SumAttributes{{}, false, DType::kF32});  // has scratch
    graph = capture.end();
  }
  for (int i = 0; i < 3; ++i) graph.replay(stream);
  EXPECT_EQ(to_array(to(out, host)).values, std::vector<double>(20000, 50)) << "(3 + 2) * 10";
  EXPECT_EQ(to_array(to(a, host)).values, std::vector<double>(20000, 4));
  EXPECT_EQ(to_array(to(total, host)).values[0], 1e6);
}

TEST_F(CudaOps, TensorsOnTwoDevicesAreRefused) {
  const Tensor x = random_numbers({4}, DType::kF32, 96);
  try {
    (void)add(x, on_gpu(x));
    FAIL() << "added";
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find("copy one with to()"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace tessera::ops::testing
