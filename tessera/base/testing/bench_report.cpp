#include "tessera/base/testing/bench_report.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tessera/base/error.h"

namespace tessera::bench {
namespace {

// Formats four significant digits without an exponent.
std::string number(double value) {
  const double size = std::abs(value);
  const int digits = size == 0 || size >= 1000 ? 0 : size >= 100 ? 1 : size >= 10 ? 2 : size >= 1 ? 3 : 4;
  return fmt::format("{:.{}f}", value, digits);
}

std::string bound(const BenchResult& result) {
  std::string text;
  if (result.must) text = (result.better == Better::kHigher ? ">= " : "<= ") + number(*result.must);
  if (result.must_ratio) text += (text.empty() ? "ratio >= " : ", ratio >= ") + number(*result.must_ratio);
  if (const auto met = result.met()) text += *met ? " met" : " MISSED";
  return text;
}

// Returns the value of the first `key : value` or key=value line of a system file; empty if no line matches.
std::string field_of(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    const auto begin = line.find_first_not_of(" \t:=\"", key.size());
    const auto end = line.find_last_not_of(" \t\"");
    if (begin != std::string::npos && end >= begin) return line.substr(begin, end - begin + 1);
  }
  return {};
}

std::string first_gpu() {
  const std::filesystem::path gpus = "/proc/driver/nvidia/gpus";
  std::error_code none;
  for (const auto& gpu : std::filesystem::directory_iterator(gpus, none)) {
    return field_of((gpu.path() / "information").string(), "Model");
  }
  return {};
}

std::string compiler() {
#ifdef __clang__
  return "clang " __clang_version__;
#else
  return "g++ " __VERSION__;
#endif
}

std::string build_kind() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return "sanitizer";
#elif !defined(NDEBUG)
  return "debug";
#elif defined(__OPTIMIZE__)
  return "optimised";
#else
  return "not optimized";
#endif
}

std::string date_now() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

struct Registered {
  const char* name;
  void (*body)(Context&);
};

std::vector<Registered>& registered() {
  static std::vector<Registered> all;
  return all;
}

// Runs every bench. If one fails, reports its name and continues with the others.
bool run_all(Context& context) {
  bool good = true;
  for (const auto& [name, body] : registered()) {
    try {
      body(context);
    } catch (const std::exception& error) {
      fmt::print(stderr, "bench {} failed: {}\n", name, error.what());
      good = false;
    }
  }
  return good;
}

}  // namespace

std::string table_head() {
  return fmt::format("{:<34} {:>10} {:<5} {:>21}  {:<18} {:>10} {:>7}  {}", "name", "value", "unit", "95% interval",
                     "reference", "value", "ratio", "must be");
}

std::string table_row(const BenchResult& result) {
  const auto interval = fmt::format("[{}, {}]", number(result.ours.low), number(result.ours.high));
  return fmt::format("{:<34} {:>10} {:<5} {:>21}  {:<18} {:>10} {:>7}  {}", result.name, number(result.ours.median),
                     result.unit, interval, result.reference_name.empty() ? "-" : result.reference_name,
                     result.reference ? number(result.reference->median) : "-",
                     result.ratio ? number(*result.ratio) : "-", bound(result));
}

std::vector<std::pair<std::string, std::string>> describe_machine() {
  utsname kernel{};
  uname(&kernel);
  const double memory = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  std::vector<std::pair<std::string, std::string>> fields = {
      {"cpu", field_of("/proc/cpuinfo", "model name")},
      {"cores", std::to_string(sysconf(_SC_NPROCESSORS_ONLN))},
      {"memory", fmt::format("{:.1f} GiB", memory / 1073741824.0)},
      {"os", fmt::format("{}, Linux {}", field_of("/etc/os-release", "PRETTY_NAME"), kernel.release)},
      {"compiler", compiler()},
      {"build", build_kind()}};
  if (const auto gpu = first_gpu(); !gpu.empty()) fields.emplace_back("gpu", gpu);
  fields.emplace_back("date", date_now());
  return fields;
}

std::string to_json(const std::string& suite, const std::vector<std::pair<std::string, std::string>>& machine,
                    const std::vector<BenchResult>& results) {
  using Json = nlohmann::ordered_json;
  const auto or_null = [](const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); };
  Json root = {{"suite", suite}, {"machine", Json::object()}, {"results", Json::array()}};
  for (const auto& [key, value] : machine) root["machine"][key] = value;
  for (const auto& result : results) {
    const auto& reference = result.reference;
    Json row = {{"name", result.name},
                {"value", result.ours.median},
                {"unit", result.unit},
                {"reference", result.reference_name.empty() ? Json(nullptr) : Json(result.reference_name)},
                {"reference_value", reference ? Json(reference->median) : Json(nullptr)},
                {"ratio", or_null(result.ratio)},
                {"better", result.better == Better::kHigher ? "higher" : "lower"},
                {"samples", result.ours.samples},
                {"low", result.ours.low},
                {"high", result.ours.high},
                {"reference_low", reference ? Json(reference->low) : Json(nullptr)},
                {"reference_high", reference ? Json(reference->high) : Json(nullptr)},
                {"must", or_null(result.must)},
                {"must_ratio", or_null(result.must_ratio)},
                {"met", result.met() ? Json(*result.met()) : Json(nullptr)}};
    root["results"].push_back(std::move(row));
  }
  return root.dump(2) + "\n";
}

void write_file(const std::string& path, const std::string& text) {
  const std::filesystem::path target(path);
  if (target.has_parent_path()) std::filesystem::create_directories(target.parent_path());
  const std::string aside = path + "." + std::to_string(getpid()) + ".part";
  {
    std::ofstream file(aside, std::ios::binary);
    file << text;
    file.flush();
    TESSERA_CHECK_AS(IoError, file.good(), "bench: cannot write ", aside);
  }
  std::filesystem::rename(aside, target);
}

bool add(const char* name, void (*body)(Context&)) {
  registered().push_back({name, body});
  return true;
}

int run(const std::string& suite, const std::string& json, int argc, char** argv) {
  Options options;
  std::string path;
  CLI::App app("Measure the suite '" + suite + "', print a table and write " + json + ".");
  app.add_option(
      "--filter", options.filter,
      "Measure only rows whose name contains this pattern (* and ? as in a shell), or only row NAME with =NAME");
  app.add_option("--seconds", options.seconds, "Time per row; up to 200 samples, at least 5");
  app.add_option("--samples", options.samples, "Maximum samples per row (default 200); may be below 5")
      ->check(CLI::PositiveNumber);
  app.add_option("--json", path, "File for the results; required to write them with --filter");
  app.add_flag("--list", options.list_only, "List the rows without measuring");
  CLI11_PARSE(app, argc, argv);

  std::vector<BenchResult> results;
  if (!options.list_only) fmt::print("{}\n", table_head());
  Context context(options, [&](const BenchResult& result) {
    fmt::print("{}\n", table_row(result));
    std::fflush(stdout);
    results.push_back(result);
  });
  const bool good = run_all(context);
  if (options.list_only) return good ? 0 : 1;

  if (path.empty() && options.filter.empty()) path = json;
  if (!path.empty()) {
    auto machine = describe_machine();
    for (const auto& added : context.machine()) {
      std::erase_if(machine, [&](const auto& field) { return field.first == added.first; });
      machine.push_back(added);
    }
    write_file(path, to_json(suite, machine, results));
    fmt::print("written to {}\n", path);
  }
  return good ? 0 : 1;
}

}  // namespace tessera::bench
