// Man pages, written from the options of all commands (command.h): tessera(1), and a page such as tessera-train(1) for
// each command. The page of a command with nested commands describes those too.
//
//   std::fputs(man_page(*root.find("train")).c_str(), stdout);
#pragma once

#include <string>

#include "tessera/cli/command.h"

namespace tessera::cli {

/// Returns the page of the program or of one of its commands in roff. Throws InvalidArgument for a nested command.
std::string man_page(const Command& command);

/// Returns the name of the page: "tessera" or "tessera-train".
std::string man_page_name(const Command& command);

}  // namespace tessera::cli
