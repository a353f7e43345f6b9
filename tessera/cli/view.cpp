// `tessera view`: serves the HTML report of a run to a browser on this machine, or writes it to a file. It only reads
// files of the run directory; each load of the page reads them again, and the page of an active run updates itself.
#include <spawn.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string_view>
#include <system_error>

#include "tessera/analysis/report/live_report.h"
#include "tessera/analysis/report/report.h"
#include "tessera/analysis/report/serve.h"
#include "tessera/base/error.h"
#include "tessera/cli/newest_run.h"
#include "tessera/cli/outputs.h"
#include "tessera/cli/port.h"
#include "tessera/cli/verb.h"

namespace tessera::cli {
namespace {

struct Options {
  std::string run;
  std::string out;
  std::string bind = "127.0.0.1";
  int port = 0;
  bool open = false;
};

// A page that redirects to an address, in a file that only this user can read: a command line would show the token to
// every user. The destructor removes the file.
class Door {
 public:
  explicit Door(const std::string& url) {
    const char* runtime = std::getenv("XDG_RUNTIME_DIR");
    path_ = std::string(runtime != nullptr && *runtime != '\0' ? runtime : "/tmp") + "/tessera_view_XXXXXX.html";
    const int descriptor = ::mkstemps(path_.data(), 5);
    const int error = errno;
    TESSERA_CHECK_AS(IoError, descriptor >= 0, "'", path_, "': ", std::generic_category().message(error));
    const std::string text =
        "<!doctype html><meta charset=utf-8><meta name=referrer content=no-referrer>"
        "<meta http-equiv=refresh content=\"0;url=" +
        url + "\">\n";
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    ::close(descriptor);
    TESSERA_CHECK_AS(IoError, written == static_cast<ssize_t>(text.size()), "'", path_, "': cannot be written");
  }
  ~Door() { ::unlink(path_.c_str()); }
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;

  void open_browser() const {
    std::string program = "xdg-open";
    std::string path = path_;
    char* words[] = {program.data(), path.data(), nullptr};
    pid_t child = 0;
    const int error = ::posix_spawnp(&child, program.c_str(), nullptr, nullptr, words, environ);
    if (error == 0) return;
    std::fprintf(stderr, "tessera: view: --open: requires xdg-open: %s; open the address manually\n",
                 std::generic_category().message(error).c_str());
  }

 private:
  std::string path_;
};

int view(const Options& options) {
  if (!options.out.empty()) {
    check_output("view: --out", options.out, files_of_run(options.run));
    std::printf("%s\n", analysis::write_report_page(options.run, options.out).c_str());
    return kDone;
  }
  (void)analysis::make_report_page(options.run, {.max_events = 0});  // reports an invalid directory before serving
  analysis::LiveReport report(options.run);
  analysis::PageServer server(
      {.bind = options.bind, .port = static_cast<std::uint16_t>(options.port), .ends_on_signals = true},
      {.page = [&report] { return report.page(); },
       .data = [&report] { return report.data(); },
       .update = [&report](std::string_view query) { return report.update(query); }});
  std::printf("%s\n", server.url().c_str());
  std::fflush(stdout);
  std::optional<Door> door;
  if (options.open) door.emplace(server.url()).open_browser();
  server.run();
  return kDone;
}

Body declare(Command& command) {
  const auto options = std::make_shared<Options>();
  command.add("RUN_DIR", &options->run, "Run directory of an active or ended run (default: the newest under ./runs)",
              {.paths = Paths::kDirectories});
  command.add("--out", &options->out, "Write the HTML report to this file instead of serving it",
              {.type = "FILE", .paths = Paths::kFiles});
  command.add("--port", &options->port, "Port to listen on (default: a free port)",
              {.type = "N", .fault = fault_of_port});
  command.add("--open", &options->open, "Open the HTML report in the default browser (xdg-open)");
  command.add("--bind", &options->bind, "Address to listen on; other hosts can reach addresses that are not loopback",
              {.type = "ADDRESS", .shows_default = true});
  command.footer =
      "Prints the address of the HTML report and serves it until Ctrl-C. Each load reads the run again, and the\n"
      "report of an active run updates itself.\n"
      "The address contains a random token, without which other users of this machine get no page.\n"
      "On a remote machine: ssh -L 8080:127.0.0.1:8080 HOST tessera view runs/night --port 8080\n"
      "  tessera view runs/night\n"
      "  tessera view runs/night --out night.html";
  return [options]() -> int {
    try {
      options->run = run_or_newest(options->run);
      return view(*options);
    } catch (const InvalidArgument& error) {  // an invalid address
      std::fprintf(stderr, "tessera: %s\n", error.message().c_str());
      return kUsage;
    } catch (const IoError& error) {
      std::fprintf(stderr, "tessera: %s\n", error.message().c_str());
      return kFailed;
    }
  };
}

const VerbRegistration kView({"view", "Serve the HTML report of a run, or write it to a file", declare});

}  // namespace
}  // namespace tessera::cli
