// The command `tessera`: parses the command line, runs the subcommand, and converts exceptions to one line on stderr
// and an exit code.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "tessera/base/env.h"
#include "tessera/base/error.h"
#include "tessera/base/version.h"
#include "tessera/cli/verb.h"

namespace tessera::cli {
namespace {

constexpr const char* kFooter =
    "Exit codes: 0 success, 1 the command failed (stderr states the reason), 2 invalid command line.\n"
    "`tessera COMMAND --help` describes a command; `tessera info --env` lists the environment variables.";

// Converts "help memory stat" to "memory stat --help". Other uses of `help` have options.
std::vector<std::string> read_words(int count, char** words) {
  std::vector<std::string> typed(words + 1, words + count);
  const auto is_option = [](const std::string& word) { return word.starts_with('-'); };
  if (typed.empty() || typed.front() != "help" || std::ranges::any_of(typed, is_option)) return typed;
  typed.erase(typed.begin());
  typed.emplace_back("--help");
  return typed;
}

int run(int count, char** words) {
  Command tessera("tessera", "Tessera: a runtime for distributed tensors.");
  tessera.version = "tessera " + std::string(version());
  tessera.footer = kFooter;
  tessera.body = tessera.add_commands(verbs());
  if (const std::optional<int> ended = parse(tessera, read_words(count, words))) return *ended;
  (void)env::run_dir();  // the first use of a variable warns about misspelled names, for all subcommands
  return tessera.body();
}

}  // namespace
}  // namespace tessera::cli

int main(int count, char** words) {
  int code = tessera::cli::kFailed;
  try {
    code = tessera::cli::run(count, words);
  } catch (const tessera::Error& error) {
    std::fprintf(stderr, "tessera: %s\n", error.what());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tessera: %s\n", error.what());
  }
  // The output may have hit a full disk.
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    std::fprintf(stderr, "tessera: writing to stdout failed\n");
    return tessera::cli::kFailed;
  }
  return code;
}
