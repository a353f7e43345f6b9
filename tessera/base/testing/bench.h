// Measuring, for the x_bench.cpp files of every layer.
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
// Ours and the reference are sampled in turns in one run (ours first, then the reference first, and so on), so that a
// machine that slows down slows both: at least 200 samples of each, or as many as fit in 30 s, and never fewer than 5.
// A value is the median; its interval is the 95% confidence interval of the median by order statistics. Bounds are
// shown as met or missed and never fail the program: numbers are read by people, tests judge behaviour.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace tessera::bench {

/// Makes the compiler believe that `value` is looked at, so that what computes it stays.
template <class T>
inline void do_not_optimize(const T& value) {
  asm volatile("" : : "r,m"(value) : "memory");
}

/// What is measured: nothing, a timed body, or a function that returns one sample in the measurement's unit.
class Work {
 public:
  /// Nothing to measure.
  Work() = default;
  /// A body that returns nothing is timed, many calls to a sample; it is inlined into the loop that repeats it. A body
  /// that returns a double is one sample, in the measurement's unit.
  template <class Body>
  requires(!std::is_same_v<std::remove_cvref_t<Body>, Work> &&
           (std::is_same_v<std::invoke_result_t<Body&>, void> || std::is_same_v<std::invoke_result_t<Body&>, double>))
      Work(Body body) {  // NOLINT(google-explicit-constructor): lambdas are written straight into a Measurement
    if constexpr (std::is_same_v<std::invoke_result_t<Body&>, double>) {
      sample_ = std::move(body);
    } else {
      repeat_ = [body = std::move(body)](std::size_t calls) mutable {
        for (std::size_t i = 0; i < calls; ++i) body();
      };
    }
  }
  /// Whether there is anything to measure.
  explicit operator bool() const { return sample_ || repeat_; }
  /// Whether the body is timed (otherwise it returns its own samples).
  [[nodiscard]] bool is_timed() const { return static_cast<bool>(repeat_); }
  /// One sample of a body that returns its own.
  double sample() const { return sample_(); }
  /// Nanoseconds that `calls` calls of a timed body take.
  double time(std::size_t calls) const;

 private:
  std::function<double()> sample_;
  std::function<void(std::size_t)> repeat_;
};

/// Which way a value is better.
enum class Better { kLower, kHigher };

/// One row of a suite.
struct Measurement {
  std::string name = {};  ///< the row's name in the tables, e.g. "pair_64KiB"
  /// Timed bodies know ns, us, ms, s (time of one operation) and /s, K/s, M/s, G/s, KB/s, MB/s, GB/s, KiB/s, MiB/s,
  /// GiB/s (operations or bytes a second); bodies that return samples may name any unit.
  std::string unit = "ns";
  double per = 1;                         ///< operations (or bytes) in one call of a timed body
  Work ours = {};                         ///< what is measured
  std::string reference_name = {};        ///< what it is held against, or why there is nothing to
  Work reference = {};                    ///< the same job done by the reference; none: no ratio
  double reference_per = 0;               ///< as `per`, for the reference; 0: the same
  std::optional<double> must = {};        ///< bound on the value: at most, or at least where higher is better
  std::optional<double> must_ratio = {};  ///< bound on the ratio: at least
  std::optional<Better> better = {};      ///< unset: higher for units ending in "/s", lower for the rest
  std::size_t calls = 0;                  ///< calls of a timed body to a sample; 0: as many as take 200 us
  std::function<void()> before = {};      ///< run before every sample, not measured
};

/// Median of samples with its 95% confidence interval. With fewer than 6 samples the interval is their range, which
/// then covers a little less (5 samples: 93.75%).
struct Summary {
  double median = 0;        ///< the middle sample, or the mean of the two in the middle
  double low = 0;           ///< lower end of the interval
  double high = 0;          ///< upper end of the interval
  std::size_t samples = 0;  ///< how many there were
};

/// Summary of at least one sample.
Summary summarize(std::vector<double> samples);

/// A measured row.
struct Result {
  std::string name = {};                  ///< as in the measurement
  std::string unit = {};                  ///< as in the measurement
  Better better = Better::kLower;         ///< which way the value is better
  Summary ours = {};                      ///< ours
  std::string reference_name = {};        ///< what it was held against, or why it was not; empty: nothing
  std::optional<Summary> reference = {};  ///< the reference, measured in the same run
  std::optional<double> ratio = {};       ///< how many times better than the reference ours is; above 1: better
  std::optional<double> must = {};        ///< bound on the value
  std::optional<double> must_ratio = {};  ///< bound on the ratio
  /// Whether the bounds are met; none where there are none.
  [[nodiscard]] std::optional<bool> met() const;
};

/// How a run was asked for.
struct Options {
  std::string filter = {};    ///< part of a row's name, * and ? as in a shell; "=NAME": that row; empty: all
  double seconds = 30;        ///< time for one row, warm-up not counted
  std::size_t samples = 200;  ///< samples of each side that are enough
  bool list_only = false;     ///< name the rows, measure nothing
};

/// What a bench is handed.
class Context {
 public:
  /// Told of every row as it is finished.
  using Listener = std::function<void(const Result&)>;
  /// A context that measures as `options` say.
  Context(Options options, Listener listener);
  /// Measures one row. Returns nothing where the filter leaves it out or rows are only listed.
  std::optional<Result> measure(const Measurement& what);
  /// Whether a row of this name will be measured: ask before a costly preparation.
  [[nodiscard]] bool wants(const std::string& name) const;
  /// Whether rows are only run to see that they work (--seconds 0): what is costly to start may be left out.
  [[nodiscard]] bool is_brief() const { return options_.seconds <= 0; }
  /// Says on the terminal why the bench measures nothing here, e.g. "no GPU".
  void skip(const std::string& why) const;
  /// Adds a field to the description of the machine, e.g. ("gpu", "NVIDIA H200").
  void describe_machine(const std::string& key, const std::string& value);
  /// Fields added so far.
  [[nodiscard]] const std::vector<std::pair<std::string, std::string>>& machine() const { return machine_; }

 private:
  Options options_;
  Listener listener_;
  std::vector<std::pair<std::string, std::string>> machine_;
};

/// Copies like the better of libc's memcpy and a plain vector loop; which one that is, is measured at the first call
/// with a size and kept while the size stays.
void memcpy_reference(void* to, const void* from, std::size_t nbytes);

/// Runs body(0) to body(threads - 1) at once, each on its own thread. Returns the nanoseconds from the moment all stand
/// ready to the end of the last one.
double run_together(int threads, const std::function<void(int)>& body);

/// Adds a bench to the program; made by TESSERA_BENCH.
bool add(const char* name, void (*body)(Context&));

/// The main function of a bench program: measures all rows, prints them as a table and writes them to `json`.
int run(const std::string& suite, const std::string& json, int argc, char** argv);

}  // namespace tessera::bench

/// Defines and registers a bench; its body sees a `bench::Context& context`.
#define TESSERA_BENCH(name)                                                                                           \
  static void tessera_bench_##name(::tessera::bench::Context& context);                                               \
  [[maybe_unused]] static const bool tessera_bench_added_##name = ::tessera::bench::add(#name, tessera_bench_##name); \
  static void tessera_bench_##name([[maybe_unused]] ::tessera::bench::Context& context)
