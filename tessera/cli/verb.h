// A subcommand of `tessera`, such as `tessera info`. Each is one file that ends with its registration,
//
//   const VerbRegistration kInfo({"info", "Show the version, the build, ...", declare});
//
// so that a new subcommand is only a new file.
#pragma once

#include <vector>

#include "tessera/cli/command.h"

namespace tessera::cli {

/// Returns all subcommands, sorted by name.
std::vector<Verb> verbs();

/// Registers a subcommand. A duplicate name ends the program immediately.
struct VerbRegistration {
  /// Registers `verb`.
  explicit VerbRegistration(Verb verb);
};

}  // namespace tessera::cli
