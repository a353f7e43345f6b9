// A subcommand of `tessera`, such as `tessera info`. Each is one file that ends with its registration,
//
//   const VerbRegistration kInfo({"info", "Show the version, the build, ...", declare});
//
// so that a new subcommand is only a new file.
#pragma once

#include <CLI/CLI.hpp>

#include <functional>
#include <string>
#include <vector>

namespace tessera::cli {

/// Exit codes of the command.
enum ExitCode : int {
  kDone = 0,    ///< success
  kFailed = 1,  ///< the subcommand failed; stderr states the reason
  kUsage = 2,   ///< the command line is invalid; nothing was done
};

/// One subcommand.
struct Verb {
  std::string name;
  std::string summary;  ///< one line for --help
  /// Adds the options of the subcommand to its parser and returns the function to run after they are parsed. This
  /// function returns an ExitCode; an exception means kFailed.
  std::function<std::function<int()>(CLI::App& options)> declare;
};

/// Returns all subcommands, sorted by name.
std::vector<Verb> verbs();

/// Registers a subcommand. A duplicate name ends the program immediately.
struct VerbRegistration {
  /// Registers `verb`.
  explicit VerbRegistration(Verb verb);
};

}  // namespace tessera::cli
