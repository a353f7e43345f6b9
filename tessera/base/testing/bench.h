// Measurements for the x_bench.cpp files of all layers.
//
//   TESSERA_BENCH(copies) {
//     std::vector<std::byte> from(65536), to(65536);
//     context.measure({.name = "pair_64KiB",
//                      .ours = [&] { our_copy(to.data(), from.data(), from.size()); },
//                      .reference_name = "memcpy",
//                      .reference = [&] { bench::memcpy_reference(to.data(), from.data(), from.size()); },
//                      .must = 4000});
//   }
//
// Ours and the reference are sampled alternately in one run (ours first, then the reference first, and so on), so that
// a machine that slows down affects both: at least 200 samples of each, or as many as fit in 30 s, and at least 5. A
// value is the median; its interval is the 95% confidence interval of the median by order statistics. Bounds are shown
// as met or missed and never fail the program.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace tessera::bench {

/// Prevents the compiler from removing the computation of `value`.
template <class T>
inline void do_not_optimize(const T& value) {
  asm volatile("" : : "r,m"(value) : "memory");
}

/// A measured function: empty, a timed body, or a function that returns one sample in the unit of the measurement.
class BenchWork {
 public:
  /// Constructs an empty object.
  BenchWork() = default;
  /// A body that returns nothing is timed over many calls per sample, and is inlined into the loop. A body that returns
  /// a double returns one sample, in the unit of the measurement.
  template <class Body>
  requires(!std::is_same_v<std::remove_cvref_t<Body>, BenchWork> &&
           (std::is_same_v<std::invoke_result_t<Body&>, void> || std::is_same_v<std::invoke_result_t<Body&>, double>))
      BenchWork(Body body) {  // NOLINT(google-explicit-constructor): lambdas are written straight into a Measurement
    if constexpr (std::is_same_v<std::invoke_result_t<Body&>, double>) {
      sample_ = std::move(body);
    } else {
      repeat_ = [body = std::move(body)](std::size_t calls) mutable {
        for (std::size_t i = 0; i < calls; ++i) body();
      };
    }
  }
  /// Returns true if there is a body.
  explicit operator bool() const { return sample_ || repeat_; }
  /// Returns true if the body is timed; otherwise it returns its own samples.
  [[nodiscard]] bool is_timed() const { return static_cast<bool>(repeat_); }
  /// Returns one sample of a body that returns its own.
  double sample() const { return sample_(); }
  /// Returns the nanoseconds of `calls` calls of a timed body.
  double time(std::size_t calls) const;

 private:
  std::function<double()> sample_;
  std::function<void(std::size_t)> repeat_;
};

/// Direction of improvement.
enum class Better { kLower, kHigher };

/// One row of a suite.
struct Measurement {
  std::string name = {};  ///< Name in the tables, such as "pair_64KiB".
  /// Timed bodies support ns, us, ms, s (time of one operation) and /s, K/s, M/s, G/s, KB/s, MB/s, GB/s, KiB/s, MiB/s,
  /// GiB/s (operations or bytes per second). Bodies that return samples may use any unit.
  std::string unit = "ns";
  double per = 1;                         ///< Operations (or bytes) in one call of a timed body.
  BenchWork ours = {};                    ///< Measured function.
  std::string reference_name = {};        ///< Name of the reference, or the reason for its absence.
  BenchWork reference = {};               ///< The same work done by the reference. Empty: no ratio.
  double reference_per = 0;               ///< `per` of the reference. 0: the same.
  std::optional<double> must = {};        ///< Bound of the value: a maximum, or a minimum if higher is better.
  std::optional<double> must_ratio = {};  ///< Minimum of the ratio.
  std::optional<Better> better = {};      ///< Default: higher for units that end in "/s", otherwise lower.
  std::size_t calls = 0;                  ///< Calls of a timed body per sample. 0: as many as take 200 us.
  std::function<void()> before = {};      ///< Runs before every sample, not measured.
};

/// Median of samples with its 95% confidence interval. With fewer than 6 samples the interval is their range, which
/// covers slightly less (5 samples: 93.75%).
struct SampleSummary {
  double median = 0;        ///< The middle sample, or the mean of the two in the middle.
  double low = 0;           ///< Lower end of the interval.
  double high = 0;          ///< Upper end of the interval.
  std::size_t samples = 0;  ///< Number of samples.
};

/// Returns the summary of at least one sample.
SampleSummary summarize(std::vector<double> samples);

/// A measured row.
struct BenchResult {
  std::string name = {};
  std::string unit = {};
  Better better = Better::kLower;
  SampleSummary ours = {};
  std::string reference_name = {};              ///< Name of the reference, or the reason for its absence. May be empty.
  std::optional<SampleSummary> reference = {};  ///< Measured in the same run.
  std::optional<double> ratio = {};             ///< How many times better than the reference. Above 1: better.
  std::optional<double> must = {};              ///< Bound of the value.
  std::optional<double> must_ratio = {};        ///< Bound of the ratio.
  /// Returns true if the bounds are met; nothing if there are no bounds.
  [[nodiscard]] std::optional<bool> met() const;
};

/// Options of a run.
struct Options {
  std::string filter = {};    ///< Part of a row name with * and ? as in a shell; "=NAME": that row; empty: all.
  double seconds = 30;        ///< Time for one row, without warm-up.
  std::size_t samples = 200;  ///< Sufficient number of samples per side.
  bool list_only = false;     ///< Only list the names of the rows.
};

/// Interface for the body of a bench.
class Context {
 public:
  /// Called with every finished row.
  using Listener = std::function<void(const BenchResult&)>;
  Context(Options options, Listener listener);
  /// Measures one row. Returns nothing if the filter excludes it or rows are only listed.
  std::optional<BenchResult> measure(const Measurement& what);
  /// Returns true if a row of this name will be measured. Call it before an expensive preparation.
  [[nodiscard]] bool wants(const std::string& name) const;
  /// Returns true if rows run only as a smoke test (--seconds 0): expensive preparations may be skipped.
  [[nodiscard]] bool is_brief() const { return options_.seconds <= 0; }
  /// Prints the reason why the bench measures nothing here, such as "no GPU".
  void skip(const std::string& why) const;
  /// Adds a field to the description of the machine, such as ("gpu", "NVIDIA H200").
  void describe_machine(const std::string& key, const std::string& value);
  /// Returns the fields added so far.
  [[nodiscard]] const std::vector<std::pair<std::string, std::string>>& machine() const { return machine_; }

 private:
  Options options_;
  Listener listener_;
  std::vector<std::pair<std::string, std::string>> machine_;
};

/// Copies like the faster of libc memcpy and a plain vector loop. The first call with a size measures which one is
/// faster; the choice is kept while the size stays the same.
void memcpy_reference(void* to, const void* from, std::size_t nbytes);

/// Runs body(0) to body(threads - 1) concurrently, each on its own thread. Returns the nanoseconds from the time when
/// all are ready to the end of the last one.
double run_together(int threads, const std::function<void(int)>& body);

/// Adds a bench to the program; used by TESSERA_BENCH.
bool add(const char* name, void (*body)(Context&));

/// Main function of a bench program: measures all rows, prints them as a table and writes them to `json`.
int run(const std::string& suite, const std::string& json, int argc, char** argv);

}  // namespace tessera::bench

/// Defines and registers a bench; its body has a `bench::Context& context`.
#define TESSERA_BENCH(name)                                                                                           \
  static void tessera_bench_##name(::tessera::bench::Context& context);                                               \
  [[maybe_unused]] static const bool tessera_bench_added_##name = ::tessera::bench::add(#name, tessera_bench_##name); \
  static void tessera_bench_##name([[maybe_unused]] ::tessera::bench::Context& context)
