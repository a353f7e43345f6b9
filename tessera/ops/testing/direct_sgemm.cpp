#include "tessera/ops/testing/direct_sgemm.h"

#include <dlfcn.h>
#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "tessera/base/testing/bench.h"
#include "tessera/ops/matrix/detail/product_library.h"

namespace tessera::ops::testing {
namespace {

using Clock = std::chrono::steady_clock;
using CblasSgemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int, float, float*,
                            int);

// OpenBLAS 0.3.21 selects SSE3 kernels for unknown processors, so the kernels are set explicitly.
CblasSgemm load_openblas() {
  ::setenv("OPENBLAS_NUM_THREADS", "1", 0);
  if (__builtin_cpu_supports("avx512f")) ::setenv("OPENBLAS_CORETYPE", "SkylakeX", 0);
  void* library = ::dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  return library == nullptr ? nullptr : reinterpret_cast<CblasSgemm>(::dlsym(library, "cblas_sgemm"));
}

CblasSgemm openblas() {
  static const CblasSgemm kLoaded = load_openblas();
  return kLoaded;
}

template <class F>
double best_seconds(const F& run) {
  double best = 1e9;
  for (int i = 0; i < 7; ++i) {
    const auto start = Clock::now();
    run();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return best;
}

bool is_openblas_faster(const DirectSgemm& of) {
  if (openblas() == nullptr) return false;
  static std::mutex mutex;
  static std::map<std::tuple<int, int, int, bool, bool>, bool> known;
  const std::lock_guard lock(mutex);
  const auto key = std::tuple(of.m, of.n, of.k, of.is_a_transposed, of.is_b_transposed);
  if (const auto found = known.find(key); found != known.end()) return found->second;
  const double dnnl = best_seconds([&] { of.run_dnnl(); });
  const double blas = best_seconds([&] { (void)of.run_openblas(); });
  return known[key] = blas < dnnl;
}

}  // namespace

void DirectSgemm::run_dnnl() const {
  const detail::ProductCall call(0);  // direct library calls
  dnnl_sgemm(is_a_transposed ? 'T' : 'N', is_b_transposed ? 'T' : 'N', m, n, k, 1, a, is_a_transposed ? m : k, b,
             is_b_transposed ? k : n, 0, c, n);
}

bool DirectSgemm::run_openblas() const {
  constexpr int kRowMajor = 101;
  constexpr int kPlain = 111;
  constexpr int kTransposed = 112;
  const CblasSgemm sgemm = openblas();
  if (sgemm == nullptr) return false;
  sgemm(kRowMajor, is_a_transposed ? kTransposed : kPlain, is_b_transposed ? kTransposed : kPlain, m, n, k, 1, a,
        is_a_transposed ? m : k, b, is_b_transposed ? k : n, 0, c, n);
  return true;
}

void DirectSgemm::run() const {
  if (!is_openblas_faster(*this) || !run_openblas()) run_dnnl();
}

std::string DirectSgemm::library() const { return is_openblas_faster(*this) ? "OpenBLAS" : "oneDNN"; }

double direct_sgemm_rate(int threads, int size) {
  constexpr int kProducts = 4;
  const auto numel = static_cast<std::size_t>(size) * static_cast<std::size_t>(size);
  const std::vector<float> in(numel, 0.5F);
  std::vector<std::vector<float>> out(static_cast<std::size_t>(threads), std::vector<float>(numel));
  const auto product = [&](int thread) {
    float* const c = out[static_cast<std::size_t>(thread)].data();
    return DirectSgemm{.m = size, .n = size, .k = size, .a = in.data(), .b = in.data(), .c = c};
  };
  product(0).run();  // selects the library on one thread
  const double nanoseconds = bench::run_together(threads, [&](int thread) {
    for (int i = 0; i < kProducts; ++i) product(thread).run();
  });
  return threads * kProducts * 2.0 * size * size * size / (1e-9 * nanoseconds);
}

}  // namespace tessera::ops::testing
