// Sampling and statistics; see bench.h. bench_report.cpp prints and writes the results.
#include "tessera/base/testing/bench.h"

#include <fnmatch.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <map>
#include <thread>

#include <fmt/format.h>

#include "tessera/base/error.h"
#include "tessera/base/rank.h"

namespace tessera::bench {
namespace {

using Clock = std::chrono::steady_clock;

double nanoseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
}

constexpr double kSampleNs = 200e3;  // long relative to the clock resolution, short relative to a time slice
constexpr double kWarmUpNs = 20e6;
constexpr std::size_t kFewestSamples = 5;

bool is_rate(const std::string& unit) { return unit.ends_with("/s"); }

// Converts nanoseconds for `operations` into the unit.
double in_unit(const std::string& unit, double nanoseconds, double operations) {
  static const std::map<std::string, double> per_time = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
  static const std::map<std::string, double> per_rate = {
      {"/s", 1},     {"K/s", 1e3},  {"M/s", 1e6},      {"G/s", 1e9},         {"KB/s", 1e3},
      {"MB/s", 1e6}, {"GB/s", 1e9}, {"KiB/s", 1024.0}, {"MiB/s", 1048576.0}, {"GiB/s", 1073741824.0}};
  if (const auto time = per_time.find(unit); time != per_time.end()) return nanoseconds / operations / time->second;
  const auto rate = per_rate.find(unit);
  const bool is_known = rate != per_rate.end();
  TESSERA_CHECK(is_known, "bench: unit of a timed body must be a time or a rate, got '", unit,
                "'; or return the samples from the body");
  return operations / (nanoseconds * 1e-9) / rate->second;
}

// One side of a measurement, with its number of calls per sample.
class Side {
 public:
  Side(const Measurement& what, const BenchWork& work, double per) : what_(what), work_(work), per_(per) {}

  // Runs until caches, branch predictors and clock speed have settled, and finds the calls per sample.
  void warm_up(double budget_ns) {
    calls_ = what_.calls != 0 ? what_.calls : 1;
    raw_sample();  // the first call may open files and load code: it does not predict the next
    const auto start = Clock::now();
    do {
      const double took = raw_sample();
      if (!work_.is_timed() || what_.calls != 0) continue;
      // Grows in steps: the first call may be cold and a bad predictor of the next.
      if (took < kSampleNs / 2) {
        const double wanted = took > 0 ? kSampleNs / took : 10;
        calls_ = std::max(calls_ + 1, static_cast<std::size_t>(static_cast<double>(calls_) * std::min(wanted, 10.0)));
      }
    } while (nanoseconds_since(start) < std::min(kWarmUpNs, budget_ns));
  }

  double sample() {
    const double raw = raw_sample();
    return work_.is_timed() ? in_unit(what_.unit, raw, per_ * static_cast<double>(calls_)) : raw;
  }

 private:
  double raw_sample() {
    if (what_.before) what_.before();
    return work_.is_timed() ? work_.time(calls_) : work_.sample();
  }

  const Measurement& what_;
  const BenchWork& work_;
  double per_;
  std::size_t calls_ = 1;
};

}  // namespace

double BenchWork::time(std::size_t calls) const {
  const auto start = Clock::now();
  repeat_(calls);
  return nanoseconds_since(start);
}

SampleSummary summarize(std::vector<double> samples) {
  TESSERA_CHECK(!samples.empty(), "bench: a summary requires at least one sample");
  std::sort(samples.begin(), samples.end());
  const std::size_t n = samples.size();
  // The k-th smallest and k-th largest sample enclose the median unless fewer than k samples fall on one side of it,
  // which is a binomial count with probability 1/2. Take the largest k for which each tail is at most 2.5%.
  std::size_t k = 1;
  double tail = std::exp2(-static_cast<double>(n));
  double log_term = -static_cast<double>(n) * std::log(2.0);
  for (std::size_t i = 1; i <= n / 2; ++i) {
    log_term += std::log(static_cast<double>(n - i + 1) / static_cast<double>(i));
    tail += std::exp(log_term);
    if (tail > 0.025) break;
    k = i + 1;
  }
  const double median = n % 2 != 0 ? samples[n / 2] : (samples[n / 2 - 1] + samples[n / 2]) / 2;
  return {.median = median, .low = samples[k - 1], .high = samples[n - k], .samples = n};
}

std::optional<bool> BenchResult::met() const {
  if (!must && !must_ratio) return std::nullopt;
  bool good = true;
  if (must) good = better == Better::kHigher ? ours.median >= *must : ours.median <= *must;
  if (must_ratio) good = good && ratio && *ratio >= *must_ratio;
  return good;
}

Context::Context(Options options, Listener listener) : options_(std::move(options)), listener_(std::move(listener)) {}

bool Context::wants(const std::string& name) const {
  if (options_.list_only) return false;
  if (options_.filter.starts_with('=')) return options_.filter.compare(1, std::string::npos, name) == 0;
  return fnmatch(("*" + options_.filter + "*").c_str(), name.c_str(), 0) == 0;
}

std::optional<BenchResult> Context::measure(const Measurement& what) {
  TESSERA_CHECK(!what.name.empty() && what.ours, "bench: a measurement requires a name and a body");
  if (options_.list_only) {
    fmt::print("{}\n", what.name);
    return std::nullopt;
  }
  if (!wants(what.name)) return std::nullopt;

  const double budget_ns = options_.seconds * 1e9;
  Side ours(what, what.ours, what.per);
  Side reference(what, what.reference, what.reference_per > 0 ? what.reference_per : what.per);
  ours.warm_up(budget_ns);
  if (what.reference) reference.warm_up(budget_ns);

  std::vector<double> our_samples;
  std::vector<double> reference_samples;
  const auto start = Clock::now();
  while (our_samples.size() < options_.samples &&
         (our_samples.size() < kFewestSamples || nanoseconds_since(start) < budget_ns)) {
    const bool ours_first = our_samples.size() % 2 == 0;
    if (ours_first) our_samples.push_back(ours.sample());
    if (what.reference) reference_samples.push_back(reference.sample());
    if (!ours_first) our_samples.push_back(ours.sample());
  }

  BenchResult result{.name = what.name,
                     .unit = what.unit,
                     .better = what.better.value_or(is_rate(what.unit) ? Better::kHigher : Better::kLower),
                     .ours = summarize(std::move(our_samples)),
                     .reference_name = what.reference_name,
                     .must = what.must,
                     .must_ratio = what.must_ratio};
  if (what.reference) {
    result.reference_name = what.reference_name.empty() ? "reference" : what.reference_name;
    result.reference = summarize(std::move(reference_samples));
    const double mine = result.ours.median;
    const double other = result.reference->median;
    result.ratio = result.better == Better::kHigher ? mine / other : other / mine;
  }
  listener_(result);
  return result;
}

void Context::skip(const std::string& why) const { fmt::print("skipped: {}\n", why); }

void Context::describe_machine(const std::string& key, const std::string& value) { machine_.emplace_back(key, value); }

double run_together(int threads, const std::function<void(int)>& body) {
  std::atomic<int> ready = 0;
  std::atomic<bool> go = false;
  Clock::time_point start;
  {
    std::vector<Thread> running;
    running.reserve(static_cast<std::size_t>(threads));
    for (int i = 0; i < threads; ++i) {
      running.emplace_back("bench", [&, i] {
        ready.fetch_add(1);
        while (!go.load(std::memory_order_acquire)) std::this_thread::yield();
        body(i);
      });
    }
    while (ready.load() < threads) std::this_thread::yield();
    start = Clock::now();
    go.store(true, std::memory_order_release);
  }
  return nanoseconds_since(start);
}

}  // namespace tessera::bench
