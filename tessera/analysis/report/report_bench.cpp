// Cost of the page of a large run: a million events of four ranks, from the files of the run directory to the page, and
// from the page to the first paint of a browser.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

#include "tessera/analysis/report/report.h"
#include "tessera/analysis/report/testing/made_run.h"
#include "tessera/base/error.h"
#include "tessera/base/testing/bench.h"

namespace tessera::analysis {
namespace {

// A run in a temporary directory.
class LargeRun {
 public:
  LargeRun() {
    std::string name = std::filesystem::temp_directory_path().string() + "/tessera_report_XXXXXX";
    TESSERA_CHECK_AS(IoError, ::mkdtemp(name.data()) != nullptr, "no directory for the bench: ", name);
    directory = name;
    testing::make_run(directory, testing::million_events());
  }
  ~LargeRun() {
    std::error_code ignored;
    std::filesystem::remove_all(directory, ignored);
  }
  LargeRun(const LargeRun&) = delete;
  LargeRun& operator=(const LargeRun&) = delete;
  std::string directory;
};

// Returns the milliseconds to the first paint of a page in a browser; nothing without a browser.
std::optional<double> first_paint_ms(const std::string& page) {
  const std::string command =
      std::string(TESSERA_PYTHON) + " '" + TESSERA_BROWSER_TOOL + "' '" + page + "' 2>/dev/null";
  std::FILE* out = ::popen(command.c_str(), "r");
  if (out == nullptr) return std::nullopt;
  double value = 0;
  const bool has_value = std::fscanf(out, "%lf", &value) == 1;
  return ::pclose(out) == 0 && has_value ? std::optional(value) : std::nullopt;
}

TESSERA_BENCH(report_build) {
  const char* names[] = {"report_build", "report_build_page", "report_build_events", "report_build_first_paint"};
  bool is_wanted = false;
  for (const char* name : names) is_wanted = is_wanted || context.wants(name);
  if (!is_wanted) return;
  const LargeRun run;
  ReportPage page;
  context.measure({.name = names[0],
                   .unit = "s",
                   .ours =
                       [&] {
                         const auto begin = std::chrono::steady_clock::now();
                         page = make_report_page(run.directory);
                         return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
                       },
                   .reference_name = "none: a bound of its own",
                   .must = 5});
  if (page.html.empty()) page = make_report_page(run.directory);
  context.measure({.name = names[1],
                   .unit = "MB",
                   .ours = [&] { return static_cast<double>(page.html.size()) / 1e6; },
                   .reference_name = "none: a bound of its own",
                   .must = 20});
  context.measure({.name = names[2],
                   .unit = "events",
                   .ours = [&] { return static_cast<double>(page.events); },
                   .reference_name = "what the rows above are of",
                   .must = 1e6,
                   .better = bench::Better::kHigher});
  const std::string file = run.directory + "/page.html";
  std::ofstream(file, std::ios::binary) << page.html;
  if (context.is_brief() || !first_paint_ms(file)) {
    context.skip("first paint: asked of a browser in whole runs alone, where chromium is");
    return;
  }
  context.measure({.name = names[3],
                   .unit = "ms",
                   .ours = [&] { return first_paint_ms(file).value_or(1e9); },
                   .reference_name = "none: a bound of its own",
                   .must = 1000});
}

}  // namespace
}  // namespace tessera::analysis
