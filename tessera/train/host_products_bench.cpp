// The suite host_train: f32 products on one thread, and the start of the library that computes them.
//
// References are independent of the measured code: a loop of multiply-adds in registers is the peak of the thread, and
// products are compared with direct calls of the fastest library on the same memory. Rows host_gemm_ROWSxCOLUMNSxINNER
// exist in the three forms of a linear layer: fwd is x W^T, dgrad is dy W, wgrad is dy^T x.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>

#include "tessera/base/error.h"
#include "tessera/base/testing/bench.h"
#include "tessera/ops/create/random.h"
#include "tessera/ops/host_speed.h"
#include "tessera/ops/matrix/matrix.h"
#include "tessera/ops/parallel.h"
#include "tessera/ops/peak_rate.h"
#include "tessera/ops/testing/direct_sgemm.h"
#include "tessera/train/testing/host_suite.h"

namespace tessera::train {
namespace {

using Clock = std::chrono::steady_clock;
using testing::wants_or_lists;

constexpr int kBriefSize = 64;  // largest size in a brief run

// Returns the milliseconds of the first host_speed() of this process; later calls return the same value.
double first_measurement() {
  static const double kMilliseconds = [] {
    const auto start = Clock::now();
    bench::do_not_optimize(ops::host_speed().product_gflops);
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  }();
  return kMilliseconds;
}

// Returns first_measurement() of a new process: this program again, with only this row.
double first_measurement_of_new_process() {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  std::FILE* out = ::popen(("'" + program + "' --filter =startup --seconds 0").c_str(), "r");
  TESSERA_CHECK(out != nullptr, "bench: cannot start ", program);
  double milliseconds = 0;
  bool is_found = false;
  std::array<char, 512> line = {};
  while (std::fgets(line.data(), line.size(), out) != nullptr) {
    is_found = is_found || std::sscanf(line.data(), "startup %lf", &milliseconds) == 1;
  }
  const int status = ::pclose(out);
  TESSERA_CHECK(status == 0 && is_found, "bench: ", program, " measured no startup, status ", status);
  return milliseconds;
}

TESSERA_BENCH(startup) {
  const bool is_brief = context.is_brief();
  context.measure(
      {.name = "startup",
       .unit = "ms",
       .ours = [is_brief]() -> double { return is_brief ? first_measurement() : first_measurement_of_new_process(); },
       .reference_name = "first host_speed() of a process",
       .must = 60});
}

// The comparison of `tessera info`.
TESSERA_BENCH(peak) {
  constexpr std::int64_t kSize = 384;
  ops::detail::set_thread_budget(1);
  if (!wants_or_lists(context, "host_peak")) return;
  const Tensor a = ops::randn({kSize, kSize});
  const Tensor b = ops::randn({kSize, kSize});
  const Tensor out = ops::randn({kSize, kSize});
  context.measure({.name = "host_peak",
                   .unit = "G/s",
                   .per = 2.0 * kSize * kSize * kSize,
                   .ours = [&] { ops::mm(a, b, {.out = out}); },
                   .reference_name = "multiply-adds, " + ops::detail::peak_target(),
                   .reference = [] { ops::detail::run_peak(); },
                   .reference_per = ops::detail::peak_flops(),
                   .must_ratio = 0.5});
}

struct Form {
  const char* name;
  bool is_a_transposed;
  bool is_b_transposed;
};
constexpr std::array<Form, 3> kForms = {{{"fwd", false, true}, {"dgrad", false, false}, {"wgrad", true, false}}};

struct ProductSizes {
  const char* name;
  int m, n, k;
};
constexpr std::array<ProductSizes, 9> kSizes = {{{"64", 64, 64, 64},
                                                 {"128", 128, 128, 128},
                                                 {"1024", 1024, 1024, 1024},
                                                 {"2048", 2048, 2048, 2048},
                                                 {"2048x768x768", 2048, 768, 768},
                                                 {"2048x2048x768", 2048, 2048, 768},
                                                 {"768x768x2048", 768, 768, 2048},
                                                 {"2048x352x128", 2048, 352, 128},
                                                 {"128x352x2048", 128, 352, 2048}}};

// A matrix [rows, columns] of random numbers, and the same memory as [columns, rows] if it is stored transposed.
struct Operand {
  Operand(std::int64_t rows, std::int64_t columns, bool is_transposed)
      : stored(is_transposed ? ops::randn({columns, rows}) : ops::randn({rows, columns})),
        view(is_transposed ? stored.as_strided({rows, columns}, {1, rows}, 0) : stored) {}
  Tensor stored;
  Tensor view;
};

void measure_product(bench::Context& context, const ProductSizes& sizes, const Form& form) {
  const std::string name = std::string("host_gemm_") + sizes.name + "_" + form.name;
  if (!wants_or_lists(context, name)) return;
  const int most = context.is_brief() ? kBriefSize : std::max({sizes.m, sizes.n, sizes.k});
  const int m = std::min(sizes.m, most);
  const int n = std::min(sizes.n, most);
  const int k = std::min(sizes.k, most);
  const Operand a(m, k, form.is_a_transposed);
  const Operand b(k, n, form.is_b_transposed);
  const Tensor out = ops::randn({m, n});
  out.device().synchronize();
  const ops::testing::DirectSgemm direct{.m = m,
                                         .n = n,
                                         .k = k,
                                         .a = a.stored.data_as<float>(),
                                         .b = b.stored.data_as<float>(),
                                         .c = out.data_as<float>(),
                                         .is_a_transposed = form.is_a_transposed,
                                         .is_b_transposed = form.is_b_transposed};
  context.measure({.name = name,
                   .unit = "us",
                   .ours = [&] { ops::mm(a.view, b.view, {.out = out}); },
                   .reference_name = direct.library(),
                   .reference = [&] { direct.run(); },
                   .must_ratio = 0.97});
}

TESSERA_BENCH(products) {
  ops::detail::set_thread_budget(1);
  for (const ProductSizes& sizes : kSizes) {
    for (const Form& form : kForms) measure_product(context, sizes, form);
  }
}

}  // namespace
}  // namespace tessera::train
