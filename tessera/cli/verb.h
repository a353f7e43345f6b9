// A verb of the command: `tessera info`. Each is one file that ends with its registration,
//
//   const VerbRegistration kInfo({"info", "Show the version, the build, ...", declare});
//
// so that a new verb is a new file and nothing else.
#pragma once

#include <CLI/CLI.hpp>

#include <functional>
#include <string>
#include <vector>

namespace tessera::cli {

/// What the command exits with.
enum ExitCode : int {
  kDone = 0,    ///< the verb did what it was asked
  kFailed = 1,  ///< the verb could not do it; stderr says why
  kUsage = 2,   ///< the command line makes no sense; nothing was done
};

/// One verb.
struct Verb {
  std::string name;     ///< as typed
  std::string summary;  ///< one line for --help
  /// Adds the verb's options to its own parser and returns what to run once they are read. It returns an ExitCode; an
  /// exception is kFailed.
  std::function<std::function<int()>(CLI::App& options)> declare;
};

/// All verbs, by name.
std::vector<Verb> verbs();

/// Adds a verb; a second one of the same name ends the program at once.
struct VerbRegistration {
  /// Adds it.
  explicit VerbRegistration(Verb verb);
};

}  // namespace tessera::cli
