#include "tessera/ops/host_speed.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <vector>

#include "tessera/base/amx.h"
#include "tessera/base/half_floats.h"
#include "tessera/ops/instruction_set.h"
#include "tessera/ops/matrix/detail/bf16_panel.h"
#include "tessera/ops/matrix/detail/bf16_product.h"
#include "tessera/ops/matrix/detail/product.h"
#include "tessera/ops/matrix/detail/product_library.h"
#include "tessera/ops/nn/detail/row_kernels.h"
#include "tessera/ops/peak_rate.h"

namespace tessera::ops {
namespace {

using Clock = std::chrono::steady_clock;

// The best of several: other work on the machine only ever takes time away.
template <class F>
double best_rate(double flops, const F& run) {
  constexpr auto kTime = std::chrono::milliseconds(4);
  constexpr int kMinRuns = 4;  // other work may take the core for longer than kTime
  run();
  double best = 0;
  const auto until = Clock::now() + kTime;
  for (int runs = 0; runs < kMinRuns || Clock::now() < until; ++runs) {
    const auto start = Clock::now();
    run();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    best = std::max(best, flops / seconds * 1e-9);
  }
  return best;
}

constexpr std::int64_t kSize = 384;  // of measured products

double product_rate() {
  const std::vector<float> a(kSize * kSize, 0.5F);
  std::vector<float> c(kSize * kSize);
  return best_rate(2.0 * kSize * kSize * kSize, [&] {
    detail::multiply({kSize, kSize, kSize}, 1.0F, {a.data(), kSize, false}, {a.data(), kSize, false}, 0.0F, c.data(),
                     kSize);
  });
}

double bf16_product_rate() {
  const std::vector<bf16> a(kSize * kSize, bf16(0.5F));
  std::vector<bf16> c(kSize * kSize);
  const std::int64_t stride = detail::panel_stride(kSize);
  std::vector<float> left(static_cast<std::size_t>(stride * kSize));
  std::vector<float> right(left.size());
  std::vector<float> sums(c.size());
  const auto converted = [&] {
    detail::widen_panel(left.data(), {a.data(), kSize, 1}, kSize, kSize);
    detail::widen_panel(right.data(), {a.data(), 1, kSize}, kSize, kSize);
    detail::multiply({kSize, kSize, kSize}, 1.0F, {left.data(), stride, true}, {right.data(), stride, false}, 0.0F,
                     sums.data(), kSize);
    tessera::detail::narrow(c.data(), sums.data(), kSize * kSize);
  };
  const auto direct = [&] {
    detail::multiply_bf16({kSize, kSize, kSize}, {a.data(), kSize, false}, {a.data(), kSize, false}, false,
                          DType::kBF16, c.data(), kSize);
  };
  const double flops = 2.0 * kSize * kSize * kSize;
  return detail::has_fast_bf16() ? best_rate(flops, direct) : best_rate(flops, converted);
}

std::string processor_name() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("model name")) return line.substr(std::min(line.size(), line.find(": ") + 2));
  }
  return "unknown processor";
}

HostSpeed measure() {
  HostSpeed speed{.processor = processor_name(),
                  .vectors = detail::row_kernels_target(),
                  .products = fmt::format("{} ({})", detail::product_library(), detail::product_instructions()),
                  .widest = detail::peak_target(),
                  .bf16_products = detail::bf16_products_text(),
                  .amx = std::string(to_text(amx_state()))};
  speed.peak_gflops = best_rate(detail::peak_flops(), [] { detail::run_peak(); });
  speed.product_gflops = product_rate();
  speed.bf16_product_gflops = bf16_product_rate();
  return speed;
}

}  // namespace

bool HostSpeed::is_slow() const { return !warning().empty(); }

std::string HostSpeed::warning() const {
  if (!vectors.starts_with("AVX")) {
    return fmt::format("{}: no AVX2 instructions; operators run slow generic code ({})", processor, vectors);
  }
  if (product_gflops >= 0.5 * peak_gflops) return {};
  return fmt::format(
      "{}: products are slow: {} computes {:.0f} GFLOP/s on one thread, {} can do {:.0f}; other work may share the "
      "cores, "
      "or the library does not know this processor",
      processor, products, product_gflops, widest, peak_gflops);
}

const HostSpeed& host_speed() {
  static const HostSpeed kMeasured = measure();
  return kMeasured;
}

}  // namespace tessera::ops
