#include "tessera/ops/host_speed.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <vector>

#include "tessera/ops/detail/peak_rate.h"
#include "tessera/ops/matrix/detail/product.h"
#include "tessera/ops/matrix/detail/product_library.h"
#include "tessera/ops/nn/detail/row_kernels.h"

namespace tessera::ops {
namespace {

using Clock = std::chrono::steady_clock;

// The best of several: other work on the machine only ever takes time away.
template <class F>
double best_rate(double flops, const F& run) {
  constexpr auto kTime = std::chrono::milliseconds(10);
  run();
  double best = 0;
  const auto until = Clock::now() + kTime;
  do {
    const auto start = Clock::now();
    run();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    best = std::max(best, flops / seconds * 1e-9);
  } while (Clock::now() < until);
  return best;
}

double product_rate() {
  constexpr std::int64_t kSize = 384;
  const std::vector<float> a(kSize * kSize, 0.5F);
  std::vector<float> c(kSize * kSize);
  return best_rate(2.0 * kSize * kSize * kSize, [&] {
    detail::multiply({kSize, kSize, kSize}, 1.0F, {a.data(), kSize, false}, {a.data(), kSize, false}, 0.0F, c.data(),
                     kSize);
  });
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
                  .widest = detail::peak_target()};
  speed.peak_gflops = best_rate(detail::peak_flops(), [] { detail::run_peak(); });
  speed.product_gflops = product_rate();
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
