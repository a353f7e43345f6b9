// `tessera run`: starts the ranks of one machine (implemented in comm/launch/launch.h).
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "tessera/base/error.h"
#include "tessera/cli/port.h"
#include "tessera/cli/verb.h"
#include "tessera/comm/launch/launch.h"
#include "tessera/watch/report.h"

namespace tessera::cli {
namespace {

std::function<int()> declare(CLI::App& app) {
  const auto options = std::make_shared<comm::LaunchOptions>();
  const auto on_failure = std::make_shared<std::string>("kill");
  app.add_option("-n,--ranks", options->ranks, "How many ranks to start")
      ->required()
      ->check(CLI::Range(1, 4096))
      ->type_name("N");
  app.add_option(
         "--on-failure", *on_failure,
         "When a rank fails: kill (the others get SIGTERM, after 3 s SIGKILL), keep (they go on) or shrink (they "
         "go on, and the exit code is 0 when one of them ends well)")
      ->check(CLI::IsMember({"kill", "keep", "shrink"}))
      ->capture_default_str()
      ->type_name("WHAT");
  app.add_option("--restarts", options->restarts, "How often to start all ranks again after a failure")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str()
      ->type_name("N");
  app.add_option("--run-dir", options->run_dir,
                 "Where launch.json and the records of the ranks go (default: TESSERA_RUN_DIR, else ./runs/TIME-PID)")
      ->type_name("DIR");
  app.add_flag("--shared", options->shared,
               "Let members of the group read the run directory (modes 0750 and 0640, else 0700 and 0600)");
  app.add_flag("--pin", options->pinned,
               "Give each rank cores of its own, near each other, and as many threads (TESSERA_THREADS)");
  app.add_option("--port", options->port, "Port of the store that ranks meet at; 0: one that is free")
      ->check(port_check())
      ->capture_default_str()
      ->type_name("P");
  const auto patience = std::make_shared<double>(10);
  app.add_option("--patience", *patience,
                 "For how many seconds a rank may show no sign of life before that is told (it was stopped, is stuck)")
      ->check(CLI::Range(0.1, 1e6))
      ->capture_default_str()
      ->type_name("SECONDS");
  const auto deadline = std::make_shared<int>(0);
  app.add_option("--deadline", *deadline,
                 "Seconds that an operation of a group may take before it fails (default: TESSERA_DEADLINE, 300)")
      ->check(CLI::Range(1, 31'536'000))
      ->type_name("SECONDS");
  app.add_option("PROGRAM", options->command, "Program and its arguments, after --")->required()->type_name("");
  app.positionals_at_end();
  app.footer(
      "Each rank gets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT, TESSERA_STORE,\n"
      "TESSERA_STORE_SECRET and TESSERA_RUN_DIR. What it prints comes out line by line as \"[rank] line\", stdout and\n"
      "stderr apart. INT, TERM, HUP, USR1 and USR2 go to all ranks; a second INT or TERM kills them. Signals that are\n"
      "ignored (nohup) are ignored by the ranks too; output that nobody reads then is dropped, else it ends the run.\n"
      "Exit code: that of the rank that failed first (128 + signal if one killed it), 0 if none did, 1 if the run "
      "could\n"
      "not start.\n"
      "  tessera run -n 4 -- ./train --steps 1000\n"
      "  tessera run -n 2 --restarts 3 --run-dir runs/night -- python3 train.py");
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

const VerbRegistration kRun({"run", "Start a program as the ranks of a world, on this machine", declare});

}  // namespace
}  // namespace tessera::cli
