// `tessera help`: help of commands, shell completion and man pages, all from the options of the commands (command.h);
// and `tessera version`. The main program converts `help COMMAND` to `COMMAND --help` before parsing.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>

#include "tessera/base/error.h"
#include "tessera/base/version.h"
#include "tessera/cli/completion.h"
#include "tessera/cli/man_page.h"
#include "tessera/cli/verb.h"

namespace tessera::cli {
namespace {

struct Options {
  std::vector<std::string> words;
  std::string shell;
  bool is_man = false;
  std::string directory;
};

void write_file(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream file(path);
  file << text;
  file.close();
  TESSERA_CHECK_AS(IoError, file.good(), "help: --install: cannot write ", path.string());
  std::printf("%s\n", path.c_str());
}

void install(const Command& root, const std::filesystem::path& share) {
  write_file(share / "bash-completion/completions/tessera", completion_script(root, "bash"));
  write_file(share / "zsh/site-functions/_tessera", completion_script(root, "zsh"));
  write_file(share / "fish/vendor_completions.d/tessera.fish", completion_script(root, "fish"));
  write_file(share / "man/man1/tessera.1", man_page(root));
  for (const auto& command : root.commands) {
    write_file(share / "man/man1" / (man_page_name(*command) + ".1"), man_page(*command));
  }
}

int help(const Command& root, const Options& options) {
  if (!options.directory.empty()) {
    install(root, options.directory);
  } else if (options.is_man) {
    const Command* page = options.words.empty() ? &root : root.find(options.words.front());
    TESSERA_CHECK(page != nullptr, "help: --man: unknown command '", options.words.front(), "'; see `tessera --help`");
    std::fputs(man_page(*page).c_str(), stdout);
  } else {
    TESSERA_CHECK(!options.shell.empty(), "help: requires a command, --completion, --man or --install");
    std::fputs(completion_script(root, options.shell).c_str(), stdout);
  }
  return kDone;
}

Body declare_help(Command& command) {
  const auto options = std::make_shared<Options>();
  std::vector<std::string> names;
  for (const Verb& verb : verbs()) names.push_back(verb.name);
  command.add("COMMAND", &options->words, "Command to describe (default: tessera itself)", {.examples = names});
  command.add("--completion", &options->shell, "Print the completion script of a shell",
              {.type = "SHELL", .choices = {"bash", "zsh", "fish"}});
  command.add("--man", &options->is_man, "Print the man page of the command in roff", {.excludes = "--completion"});
  command.add("--install", &options->directory,
              "Write the completion scripts and all man pages below this directory, as in ~/.local/share",
              {.type = "DIR", .paths = Paths::kDirectories});
  command.footer =
      "  tessera help memory stat\n"
      "  tessera help --man train | man -l -\n"
      "  tessera help --install ~/.local/share\n"
      "  source <(tessera help --completion bash)";
  return [options, &command]() -> int {
    try {
      return help(*command.parent, *options);
    } catch (const Error& error) {  // concerns an argument or a file: the source location does not matter
      std::fprintf(stderr, "tessera: %s\n", error.message().c_str());
      return error.kind() == ErrorKind::kInvalidArgument ? kUsage : kFailed;
    }
  };
}

Body declare_version(Command& /*command*/) {
  return [] {
    std::printf("tessera %s\n", std::string(version()).c_str());
    return static_cast<int>(kDone);
  };
}

const VerbRegistration kHelp({"help", "Print the help of a command, completion scripts or man pages", declare_help});
const VerbRegistration kVersion({"version", "Print the version", declare_version});

}  // namespace
}  // namespace tessera::cli
