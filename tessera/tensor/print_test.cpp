// Text of printed tensors.
#include "tessera/tensor/print.h"

#include <gtest/gtest.h>

#include <complex>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#include "tessera/base/rank.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/device/host/host_device.h"
#include "tessera/layout/layout.h"

namespace tessera::tensor {
namespace {

template <class T>
Tensor of(std::vector<T> values, const Shape& shape) {
  const auto owner = std::make_shared<std::vector<T>>(std::move(values));
  return Tensor::wrap(owner->data(), shape, dtype_of<T>(), device::Device::get("host"), owner);
}
Tensor counting(const Shape& shape) {
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  std::iota(values.begin(), values.end(), 0.0F);
  return of(values, shape);
}

TEST(Print, HasAHeadingAndTheValues) {
  EXPECT_EQ(to_string(of<float>({1, 2.5, 3}, {3})), "f32[3] on host [1.0, 2.5, 3.0]");
  EXPECT_EQ(to_string(of<float>({1, 2.5, -3, 10}, {2, 2})), "f32[2, 2] on host\n[[ 1.0,  2.5],\n [-3.0, 10.0]]");
  EXPECT_EQ(to_string(Tensor()), "no tensor");
}

TEST(Print, ScalarsAndEmptyTensors) {
  EXPECT_EQ(to_string(of<double>({0.5}, {})), "f64[] on host 0.5");
  EXPECT_EQ(to_string(of<std::int32_t>({7}, {})), "i32[] on host 7");
  EXPECT_EQ(to_string(of<float>({}, {0})), "f32[0] on host []");
  EXPECT_EQ(to_string(of<float>({}, {2, 0, 3})), "f32[2, 0, 3] on host []");
}

TEST(Print, NestsBracketsWithAnEmptyLineBetweenBlocks) {
  EXPECT_EQ(to_string(of<std::int8_t>({1, 2, 3, 4, 5, 6, 7, -8}, {2, 2, 2})),
            "i8[2, 2, 2] on host\n"
            "[[[ 1,  2],\n  [ 3,  4]],\n\n [[ 5,  6],\n  [ 7, -8]]]");
}

TEST(Print, OneFormatForABlockWithAsManyDecimalsAsNeeded) {
  EXPECT_EQ(to_string(of<float>({0.1F, 2}, {2})), "f32[2] on host [0.1, 2.0]");
  EXPECT_EQ(to_string(of<float>({0.25F, 100}, {2})), "f32[2] on host [  0.25, 100.00]");
  EXPECT_EQ(to_string(of<double>({1.0 / 3}, {1})), "f64[1] on host [0.3333]");
  EXPECT_EQ(to_string(of<double>({1.0 / 3}, {1}), {.precision = 8}), "f64[1] on host [0.33333333]");
  EXPECT_EQ(to_string(of<double>({1.5, 2}, {2}), {.precision = 0}), "f64[2] on host [2, 2]");
}

TEST(Print, PowersOfTenOnlyWhereNeeded) {
  EXPECT_EQ(to_string(of<double>({99999999, 0.5}, {2})), "f64[2] on host [99999999.0,        0.5]");
  EXPECT_EQ(to_string(of<double>({1e8, 1}, {2})), "f64[2] on host [1.0e+08, 1.0e+00]");
  EXPECT_EQ(to_string(of<double>({0.0001, 1}, {2})), "f64[2] on host [0.0001, 1.0000]");
  EXPECT_EQ(to_string(of<double>({0.00001234, 0}, {2})), "f64[2] on host [1.234e-05, 0.000e+00]");
}

TEST(Print, NotANumberAndInfinity) {
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(to_string(of<double>({std::nan(""), inf, -inf, 1}, {4})), "f64[4] on host [ nan,  inf, -inf,  1.0]");
  EXPECT_EQ(to_string(of<double>({inf}, {1})), "f64[1] on host [inf]");
}

TEST(Print, EveryDType) {
  EXPECT_EQ(to_string(of<f16>({f16(1.5F)}, {1})), "f16[1] on host [1.5]");
  EXPECT_EQ(to_string(of<bf16>({bf16(-2.0F)}, {1})), "bf16[1] on host [-2.0]");
  EXPECT_EQ(to_string(of<f8e4m3>({f8e4m3(448.0F)}, {1})), "f8e4m3[1] on host [448.0]");
  EXPECT_EQ(to_string(of<f8e5m2>({f8e5m2(0.25F)}, {1})), "f8e5m2[1] on host [0.25]");
  EXPECT_EQ(to_string(of<std::uint64_t>({~std::uint64_t{0}}, {1})), "u64[1] on host [18446744073709551615]");
  EXPECT_EQ(to_string(of<std::int64_t>({-5, 10}, {2})), "i64[2] on host [-5, 10]");
  EXPECT_EQ(to_string(of<std::uint8_t>({200}, {1})), "u8[1] on host [200]");
  EXPECT_EQ(to_string(of<std::int16_t>({-300}, {1})), "i16[1] on host [-300]");
  EXPECT_EQ(to_string(of<std::uint16_t>({60000}, {1})), "u16[1] on host [60000]");
  EXPECT_EQ(to_string(of<std::uint32_t>({4000000000U}, {1})), "u32[1] on host [4000000000]");
  EXPECT_EQ(to_string(of<std::complex<float>>({{1, -2}, {0.5, 3}}, {2})), "c64[2] on host [1.0-2.0i, 0.5+3.0i]");
  EXPECT_EQ(to_string(of<std::complex<double>>({{0, 0.25}}, {})), "c128[] on host 0.0+0.25i");
  const auto bytes = std::make_shared<std::vector<char>>(std::vector<char>{1, 0});
  const Tensor truths = Tensor::wrap(bytes->data(), {2}, DType::kBool, device::Device::get("host"), bytes);
  EXPECT_EQ(to_string(truths), "bool[2] on host [ true, false]");
}

TEST(Print, ElidesTheMiddleOfLargeTensors) {
  EXPECT_EQ(to_string(counting({1001})), "f32[1001] on host [   0.0,    1.0,    2.0, ...,  998.0,  999.0, 1000.0]");
  EXPECT_EQ(to_string(counting({8, 5}), {.threshold = 10, .edge_items = 1}),
            "f32[8, 5] on host\n[[ 0.0, ...,  4.0],\n ...,\n [35.0, ..., 39.0]]");
  EXPECT_EQ(to_string(counting({2, 3}), {.threshold = 0, .edge_items = 1}),
            "f32[2, 3] on host\n[[0.0, ..., 2.0],\n [3.0, ..., 5.0]]")
      << "a dimension that is shown whole has no dots";
  EXPECT_EQ(to_string(counting({1000}), {.line_width = 1 << 20}).find("..."), std::string::npos);
}

TEST(Print, WrapsLongRows) {
  EXPECT_EQ(to_string(counting({7}), {.line_width = 20}), "f32[7] on host\n[0.0, 1.0, 2.0, 3.0,\n 4.0, 5.0, 6.0]");
  for (const int width : {1, 7, 20, 33, 100}) {
    const std::string text = to_string(counting({3, 40}), {.line_width = width});
    std::size_t longest = 0;
    for (std::size_t at = text.find('\n') + 1; at < text.size();) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      longest = std::max(longest, end - at);
      at = end + 1;
    }
    EXPECT_LE(longest, static_cast<std::size_t>(std::max(width, 11))) << text;
  }
}

TEST(Print, FollowsStrides) {
  const Tensor x = counting({2, 3});
  EXPECT_EQ(to_string(x.as_strided({3, 2}, {1, 3}, 0)), "f32[3, 2] on host\n[[0.0, 3.0],\n [1.0, 4.0],\n [2.0, 5.0]]");
  EXPECT_EQ(to_string(x.as_strided({3}, {-2}, 4)), "f32[3] on host [4.0, 2.0, 0.0]");
  EXPECT_EQ(to_string(x.as_strided({2, 2}, {0, 1}, 1)), "f32[2, 2] on host\n[[1.0, 2.0],\n [1.0, 2.0]]");
}

TEST(Print, WaitsForTheWorkOnTheTensor) {
  const RankScope rank(std::make_shared<RankContext>(RankPlace{}));  // destroys its devices with it
  const device::Device host = device::host::make_host_device({.mode = device::host::Mode::kThreaded, .name = "h"});
  const Tensor x = Tensor::allocate({2}, DType::kF32, host);
  const device::Stream& stream = current_stream(host);
  host.stall_stream(stream, true);
  auto* data = x.data_as<float>();
  const device::Access accesses[] = {device::writes(data, 8)};
  stream.run([data] { data[0] = data[1] = 3; }, {.label = "fill", .accesses = accesses});
  std::string text;
  Thread printing("print", [&] { text = to_string(x); });
  host.stall_stream(stream, false);
  printing.join();
  EXPECT_EQ(text, "f32[2] on h [3.0, 3.0]");
}

TEST(Print, RefusesInACaptureAndTellsWhatIsParked) {
  const RankScope rank(std::make_shared<RankContext>(RankPlace{}));  // destroys its devices with it
  const device::Device host = device::host::make_host_device();
  const Tensor x = Tensor::allocate({2}, DType::kF32, host);
  const device::Stream stream = host.create_stream();
  const StreamScope scope(stream);
  stream.begin_capture();
  expect_error<InvalidArgument>([&] { (void)to_string(x); }, {"printing f32[2] on host", "captured"});
  stream.abort_capture();
  stream.run([] { TESSERA_THROW(DeviceError, "this kernel failed"); },
             {.label = "fail", .accesses = std::span<const device::Access>()});
  expect_error<DeviceError>([&] { (void)to_string(x); }, {"this kernel failed"});
  stream.reset_error();
}

TEST(Print, AShardedTensorShowsItsLayoutAndThisRanksPart) {
  const layout::Layout layout = layout::Layout::parse("dp=2 {Shard(0)}");
  const Tensor whole = Tensor::sharded({4, 2}, DType::kF32, layout, counting({2, 2}));
  const auto rank = std::make_shared<RankContext>(RankPlace{.rank = Rank(1), .world_size = 2});
  const RankScope scope(rank);
  EXPECT_EQ(to_string(whole),
            "f32[4, 2] dp=2 {Shard(0)}\nrank 1 of 2 holds f32[2, 2] on host\n[[0.0, 1.0],\n [2.0, 3.0]]");
  EXPECT_EQ(to_string(Tensor::sharded({4, 2}, DType::kF32, layout, {})),
            "f32[4, 2] dp=2 {Shard(0)}\nrank 1 of 2 is not in the mesh and holds no shard");
}

}  // namespace
}  // namespace tessera::tensor
