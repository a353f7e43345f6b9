#include "tessera/train/detail/product_rate.h"

#include <fmt/format.h>

#include <chrono>

#include "tessera/autograd/autograd.h"
#include "tessera/base/rank.h"
#include "tessera/comm/device_of_rank.h"
#include "tessera/device/device.h"
#include "tessera/memory/allocator.h"
#include "tessera/memory/label.h"
#include "tessera/ops/create/create.h"
#include "tessera/ops/matrix/matrix.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/ops/pointwise/functions.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/ops/shape/shape.h"
#include "tessera/tensor/device_context.h"

namespace tessera::train::detail {
namespace {

constexpr std::int64_t kSize = 4096;
constexpr double kFlops = 2.0 * kSize * kSize * kSize;  // of one product
constexpr auto kLongEnough = std::chrono::milliseconds(30);

// Returns values without a pattern. Products of equal values take less power, and run faster than those of a model.
Tensor matrix(DType dtype, double factor) {
  const Tensor angles = ops::mul(ops::arange(kSize * kSize, {.dtype = DType::kF32}), factor);
  return ops::cast(ops::reshape(ops::sin(angles), {kSize, kSize}), dtype);
}

std::chrono::nanoseconds time_of(int products, const Tensor& a, const Tensor& b) {
  const device::Stream& stream = tensor::current_stream(a.device());
  const device::Event begin = a.device().create_event({.timing = true});
  const device::Event end = a.device().create_event({.timing = true});
  stream.record(begin);
  for (int i = 0; i < products; ++i) (void)ops::matmul(a, b);
  stream.record(end);
  end.synchronize();
  return device::Event::elapsed(begin, end);
}

}  // namespace

double product_rate(std::string_view dtype) {
  const autograd::NoGrad no_grad;
  const memory::Label label("activations");
  const device::Device device = tensor::default_device();
  const int ranks = comm::shares_device(device) ? current_place().world_size : 1;
  double seconds = 0;
  int products = 4;
  {
    const DType type = dtype == "bf16" ? DType::kBF16 : DType::kF32;
    const Tensor a = matrix(type, 1.0);
    const Tensor b = matrix(type, 0.7);
    (void)time_of(2, a, b);  // loads the library
    std::chrono::nanoseconds time = time_of(products, a, b);
    for (; time < kLongEnough; time = time_of(products, a, b)) products *= 2;
    seconds = std::chrono::duration<double>(time).count();
  }
  memory::Allocator::of(device).trim();
  memory::Allocator::of(device).reset_peaks();
  return kFlops * products / seconds / ranks;
}

std::string product_rate_text(std::string_view dtype, double flops) {
  return fmt::format("compute: {}, {:.3g} TFLOP/s in {} products\n", tensor::default_device().properties().description,
                     flops / 1e12, dtype);
}

}  // namespace tessera::train::detail
