// `tessera help COMMAND` and `tessera version`: aliases of `tessera COMMAND --help` and `tessera --version`. The main
// program converts `help` to that option before parsing.
#include <cstdio>
#include <memory>

#include "tessera/base/version.h"
#include "tessera/cli/verb.h"

namespace tessera::cli {
namespace {

Body declare_help(Command& command) {
  const auto words = std::make_shared<std::vector<std::string>>();
  command.add("COMMAND", words.get(), "Command to describe (default: tessera itself)");
  return [words] { return static_cast<int>(kDone); };
}
Body declare_version(Command& /*command*/) {
  return [] {
    std::printf("tessera %s\n", std::string(version()).c_str());
    return static_cast<int>(kDone);
  };
}

const VerbRegistration kHelp({"help", "Print the help of a command", declare_help});
const VerbRegistration kVersion({"version", "Print the version", declare_version});

}  // namespace
}  // namespace tessera::cli
