// `tessera view`: the page of a run, served to a browser on this machine or written to a file. It reads files of the
// run directory and nothing else of the job; each load of the page reads them again.
#include <cstdio>
#include <memory>

#include "tessera/base/error.h"
#include "tessera/cli/verb.h"
#include "tessera/record/report/report.h"
#include "tessera/record/report/serve.h"

namespace tessera::cli {
namespace {

struct Options {
  std::string run;
  std::string out;
  std::string bind = "127.0.0.1";
  std::uint16_t port = 0;
};

int view(const Options& options) {
  if (!options.out.empty()) {
    std::printf("%s\n", record::write_report_page(options.run, options.out).c_str());
    return kDone;
  }
  (void)record::make_report_page(options.run, {.most_events = 0});  // a directory that is none is told before serving
  record::PageServer server({.bind = options.bind, .port = options.port, .ends_on_signals = true},
                            [&options] { return record::make_report_page(options.run).html; });
  std::printf("%s\n", server.url().c_str());
  std::fflush(stdout);
  server.run();
  return kDone;
}

std::function<int()> declare(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  app.add_option("RUN_DIR", options->run, "Run directory, of a run that goes on or is over")->required();
  app.add_option("--out", options->out, "Write the page to this file and serve nothing")->type_name("FILE");
  app.add_option("--port", options->port, "Port to listen on (default: one that is free)")->type_name("N");
  app.add_option("--bind", options->bind, "Address to listen on; others than loopback can be reached from outside")
      ->capture_default_str()
      ->type_name("ADDRESS");
  app.footer(
      "Prints the address of the page and serves it until Ctrl-C. Every load reads the run again.\n"
      "On a machine far away: ssh -L 8080:127.0.0.1:8080 there tessera view runs/night --port 8080\n"
      "  tessera view runs/night\n"
      "  tessera view runs/night --out night.html");
  return [options]() -> int {
    try {
      return view(*options);
    } catch (const InvalidArgument& error) {  // an address that is none
      std::fprintf(stderr, "tessera: %s\n", error.message().c_str());
      return kUsage;
    } catch (const IoError& error) {
      std::fprintf(stderr, "tessera: %s\n", error.message().c_str());
      return kFailed;
    }
  };
}

const VerbRegistration kView({"view", "Show a run as a page in the browser, or write the page to a file", declare});

}  // namespace
}  // namespace tessera::cli
