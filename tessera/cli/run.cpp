// `tessera run`: starts the ranks of one machine (implemented in comm/launch/launch.h).
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "tessera/base/error.h"
#include "tessera/cli/port.h"
#include "tessera/cli/verb.h"
#include "tessera/comm/launch/launch.h"
#include "tessera/watch/verdict_file.h"

namespace tessera::cli {
namespace {

Body declare(Command& command) {
  const auto options = std::make_shared<comm::LaunchOptions>();
  const auto on_failure = std::make_shared<std::string>("kill");
  command.add("-n,--ranks", &options->ranks, "Number of ranks to start",
              {.type = "N", .is_required = true, .range = Range{1, 4096}});
  command.add("--on-failure", on_failure.get(),
              "Action if a rank fails: kill (the others get SIGTERM, after 3 s SIGKILL), keep (the others continue) "
              "or shrink (the others continue; the exit code is 0 if one of them succeeds)",
              {.type = "WHAT", .shows_default = true, .choices = {"kill", "keep", "shrink"}});
  command.add("--restarts", &options->restarts, "Number of times to restart all ranks after a failure",
              {.type = "N", .shows_default = true, .range = Range{0, 1'000'000}});
  command.add("--run-dir", &options->run_dir,
              "Directory for launch.json and the record files (default: TESSERA_RUN_DIR, or ./runs/TIME-PID)",
              {.type = "DIR", .paths = Paths::kDirectories});
  command.add("--shared", &options->shared,
              "Let the user group read the run directory (modes 0750 and 0640 instead of 0700 and 0600)");
  command.add("--pin", &options->pinned,
              "Pin each rank to separate adjacent cores, and set TESSERA_THREADS to their number");
  command.add("--port", &options->port, "Port of the store; 0 selects a free port",
              {.type = "P", .shows_default = true, .fault = fault_of_port});
  const auto patience = std::make_shared<double>(10);
  command.add("--patience", patience.get(), "Seconds without a heartbeat before a rank is reported as stopped or stuck",
              {.type = "SECONDS", .shows_default = true, .range = Range{0.1, 1e6}});
  const auto deadline = std::make_shared<int>(0);
  command.add("--deadline", deadline.get(), "Deadline of group operations in seconds (default: TESSERA_DEADLINE, 300)",
              {.type = "SECONDS", .range = Range{1, 31'536'000}});
  command.add("PROGRAM", &options->command, "Program and its arguments, after --",
              {.is_required = true, .is_rest = true, .paths = Paths::kFiles});
  command.footer =
      "Each rank gets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT, TESSERA_STORE,\n"
      "TESSERA_STORE_SECRET and TESSERA_RUN_DIR. Output of the ranks is printed as \"[rank] line\", to stdout and "
      "stderr\n"
      "separately. INT, TERM, HUP, USR1 and USR2 go to all ranks; a second INT or TERM kills them. Ranks inherit "
      "ignored\n"
      "signals (nohup). If nothing reads the output, the run ends; if HUP is ignored, the output is dropped instead.\n"
      "Exit code: that of the rank that failed first (128 + signal if a signal killed it), 0 if none failed, 1 if the "
      "run\n"
      "cannot start.\n"
      "  tessera run -n 4 -- ./train --steps 1000\n"
      "  tessera run -n 2 --restarts 3 --run-dir runs/night -- python3 train.py";
  return [options, on_failure, patience, deadline]() -> int {
    if (*deadline > 0) ::setenv("TESSERA_DEADLINE", std::to_string(*deadline).c_str(), 1);  // for the ranks
    options->patience = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(*patience));
    options->verdict = watch::verdict_of_run;
    if (*on_failure == "keep") options->on_failure = comm::OnFailure::kKeep;
    if (*on_failure == "shrink") options->on_failure = comm::OnFailure::kShrink;
    try {
      return comm::launch(*options).exit_code;
    } catch (const IoError& error) {  // an unavailable program, port or directory: the source location does not matter
      std::fprintf(stderr, "tessera: %s\n", error.message().c_str());
      return kFailed;
    }
  };
}

const VerbRegistration kRun({"run", "Start a program as several ranks on this machine", declare});

}  // namespace
}  // namespace tessera::cli
