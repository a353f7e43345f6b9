// `tessera help COMMAND` and `tessera version`: aliases of `tessera COMMAND --help` and `tessera --version`. The main
// program converts `help` to that option before parsing.
#include <cstdio>

#include "tessera/base/version.h"
#include "tessera/cli/verb.h"

namespace tessera::cli {
namespace {

std::function<int()> declare_help(CLI::App& app) {
  app.add_option("COMMAND", "Command to describe (default: tessera itself)")->expected(0, -1);
  return [] { return static_cast<int>(kDone); };
}
std::function<int()> declare_version(CLI::App& /*app*/) {
  return [] {
    std::printf("tessera %s\n", std::string(version()).c_str());
    return static_cast<int>(kDone);
  };
}

const VerbRegistration kHelp({"help", "Print the help of a command", declare_help});
const VerbRegistration kVersion({"version", "Print the version", declare_version});

}  // namespace
}  // namespace tessera::cli
