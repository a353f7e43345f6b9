// record_report_pages --serve DIRECTORY: begins a run of 20 steps, whose process is this one, serves its page and
// prints the address. The line "end" on standard input ends the run; the end of the input ends the program.
//
// record_report_pages DIRECTORY [NAME...]: writes the pages that the browser test opens, and their data (NAME.html,
// NAME.json; without names all but the large one), and the run of the page (NAME/).
//
//   usual     an ended run of 4 ranks
//   kernels   the same with recorded kernels, of 16 ranks
//   hostile   text that would be markup, wherever a run chooses text
//   bare      a run with only losses
//   one       a run of one step and one rank
//   skipped   a run that skipped every step, because no loss was finite
//   stopped   a run that its policy for such steps stopped
//   asked     a run that was requested to end
//   gaps      a run with steps without a loss, and steps without lines
//   lost      a run whose records overwrote older ones
//   large     a million events
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <string>
#include <thread>

#include "tessera/analysis/report/live_report.h"
#include "tessera/analysis/report/report.h"
#include "tessera/analysis/report/serve.h"
#include "tessera/analysis/report/testing/made_run.h"
#include "tessera/base/probe/recorder.h"

namespace {

using tessera::analysis::testing::MadeRun;

constexpr const char* kHostile =
    "</script><script>window.wasRun=1</script><img src=x "
    "onerror=\"window.wasRun=1\">&lt;b&gt;\"'`${1}\xE2\x80\xA8]]><!--";

void write_page(const std::string& directory, const std::string& name, const MadeRun& run) {
  const std::string where = directory + "/" + name;
  std::filesystem::create_directories(where);
  make_run(where, run);
  const tessera::analysis::ReportPage page = tessera::analysis::make_report_page(where);
  std::ofstream(directory + "/" + name + ".html", std::ios::binary) << page.html;
  std::ofstream(directory + "/" + name + ".json", std::ios::binary) << page.data;
  std::printf("%s %zu bytes, %zu events\n", name.c_str(), page.html.size(), page.events);
}

void serve(const std::string& directory) {
  using tessera::probe::Recorder;
  MadeRun run;
  run.ranks = 1;
  run.steps = 20;
  run.has_summary = run.has_records = false;
  make_run(directory, run);
  Recorder rank(tessera::RankPlace{.rank = tessera::Rank{0}, .world_size = 1, .run_dir = directory},
                {.nbytes = tessera::probe::RecordOptions::kMinBytes});
  tessera::analysis::LiveReport report(directory);
  tessera::analysis::PageServer server({}, {.page = [&] { return report.page(); },
                                            .data = [&] { return report.data(); },
                                            .update = [&](std::string_view query) { return report.update(query); }});
  std::printf("%s\n", server.url().c_str());
  std::fflush(stdout);
  std::thread thread([&] { server.run(); });
  for (std::string line; std::getline(std::cin, line);) {
    if (line != "end") continue;
    rank.close();
    run.has_tables = false;
    run.has_summary = true;
    make_run(directory, run);
  }
  server.stop();
  thread.join();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: record_report_pages DIRECTORY [NAME...] | --serve DIRECTORY\n");
    return 2;
  }
  if (argc == 3 && std::string_view(argv[1]) == "--serve") {
    serve(argv[2]);
    return 0;
  }
  MadeRun hostile;
  hostile.odd = kHostile;
  MadeRun bare;
  bare.has_records = bare.has_summary = false;
  MadeRun gaps;
  gaps.has_gaps = true;
  MadeRun kernels;
  kernels.kernels = 20;
  kernels.ranks = 16;
  MadeRun one;
  one.ranks = one.steps = 1;
  MadeRun skipped;
  skipped.is_skipped = true;
  MadeRun stopped;
  stopped.end = "stopped";
  stopped.reason = "step 41: loss nan, gradient norm nan, not finite";
  MadeRun asked;
  asked.end = "interrupted";
  asked.reason = "stop requested; run the same command to continue";
  const std::map<std::string, MadeRun> runs = {{"usual", MadeRun()},
                                               {"one", one},
                                               {"skipped", skipped},
                                               {"stopped", stopped},
                                               {"asked", asked},
                                               {"kernels", kernels},
                                               {"hostile", hostile},
                                               {"bare", bare},
                                               {"gaps", gaps},
                                               {"lost", tessera::analysis::testing::overwritten_records()},
                                               {"large", tessera::analysis::testing::million_events()}};
  try {
    for (const auto& [name, run] : runs) {
      bool is_wanted = argc == 2 && name != "large";
      for (int i = 2; i < argc; ++i) is_wanted = is_wanted || name == argv[i];
      if (is_wanted) write_page(argv[1], name, run);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "record_report_pages: %s\n", error.what());
    return 1;
  }
  return 0;
}
