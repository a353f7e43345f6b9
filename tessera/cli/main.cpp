// The command `tessera`: parses the command line, runs the subcommand, and converts exceptions to one line on stderr
// and an exit code.
#include <cstdio>
#include <exception>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/env.h"
#include "tessera/base/error.h"
#include "tessera/base/nearest.h"
#include "tessera/base/version.h"
#include "tessera/cli/verb.h"

namespace tessera::cli {
namespace {

constexpr const char* kFooter =
    "Exit codes: 0 success, 1 the command failed (stderr states the reason), 2 invalid command line.\n"
    "`tessera COMMAND --help` describes a command; `tessera info --env` lists the environment variables.";

int refuse(const std::string& message) {
  std::fprintf(stderr, "tessera: %s\n", message.c_str());
  return kUsage;
}

// Finds an unknown subcommand before the parser runs, which would only report that one is required.
const char* first_word(int count, char** words) {
  for (int i = 1; i < count; ++i) {
    if (words[i][0] != '-') return words[i];
  }
  return nullptr;
}

std::string unknown_verb(const std::string& word) {
  std::vector<std::string> names;
  std::string list;
  for (const Verb& verb : verbs()) {
    names.push_back(verb.name);
    list += (list.empty() ? "" : ", ") + verb.name;
  }
  return "unknown command '" + word + "'" + did_you_mean(word, names) + "; commands: " + list;
}

// Returns the innermost parser and the words that led to it: "memory stat ".
std::pair<const CLI::App*, std::string> reached(const CLI::App& app) {
  const CLI::App* parser = &app;
  std::string words;
  while (!parser->get_subcommands().empty()) {
    parser = parser->get_subcommands().front();
    words += parser->get_name() + " ";
  }
  return {parser, words};
}

// Returns the prefix of an error message: "memory stat: " for the words "memory stat ".
std::string prefix_of(const std::string& words) {
  return words.empty() ? "" : words.substr(0, words.size() - 1) + ": ";
}

// Returns the message for an unknown argument, with the option that was probably meant.
std::string unknown_argument(const CLI::App& app) {
  const auto [parser, verb] = reached(app);
  std::vector<std::string> names;
  for (const CLI::Option* option : parser->get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  const auto left = app.remaining(true);
  const std::string word = left.empty() ? "" : left.front();
  return prefix_of(verb) + "unknown argument '" + word + "'" + did_you_mean(word, names) + "; see `tessera " + verb +
         "--help`";
}

// Returns the message for a missing or unknown nested subcommand; "" if the error is another one.
std::string missing_verb(const CLI::App& app) {
  const auto [parser, verb] = reached(app);
  std::vector<std::string> names;
  std::string list;
  for (const CLI::App* each : parser->get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(each->get_name());
    list += (list.empty() ? "" : ", ") + each->get_name();
  }
  if (parser == &app || names.empty()) return {};
  const auto left = app.remaining(true);
  if (left.empty()) return prefix_of(verb) + "command required; commands: " + list;
  if (left.front().starts_with('-')) return unknown_argument(app);
  return prefix_of(verb) + "unknown command '" + left.front() + "'" + did_you_mean(left.front(), names) +
         "; commands: " + list;
}

// Converts "help memory stat" to "memory stat --help".
std::vector<std::string> help_words(int count, char** words) {
  std::vector<std::string> asked(words + 1, words + count);
  if (asked.empty() || asked.front() != "help") return asked;
  asked.erase(asked.begin());
  asked.emplace_back("--help");
  return asked;
}

int run(int count, char** given) {
  const std::vector<std::string> typed = help_words(count, given);
  std::vector<char*> pointers = {given[0]};
  for (const std::string& each : typed) pointers.push_back(const_cast<char*>(each.c_str()));
  char** words = pointers.data();
  count = static_cast<int>(pointers.size());
  CLI::App app("Tessera: a runtime for distributed tensors.", "tessera");
  app.set_version_flag("--version", std::string("tessera ") + std::string(version()), "Print the version and exit");
  app.set_help_flag("-h,--help", "Print this help and exit");
  app.require_subcommand(1);
  app.footer(kFooter);
  app.get_formatter()->label("SUBCOMMAND", "COMMAND");
  std::map<std::string, std::function<int()>> bodies;
  for (const Verb& verb : verbs()) {
    CLI::App* options = app.add_subcommand(verb.name, verb.summary)->group("Commands");
    bodies[verb.name] = verb.declare(*options);
  }

  const char* word = first_word(count, words);
  if (word != nullptr && !bodies.contains(word)) return refuse(unknown_verb(word));
  if (count == 1) {
    std::fputs(app.help().c_str(), stderr);
    return kUsage;
  }
  try {
    app.parse(count, words);
  } catch (const CLI::Success& asked) {  // --help and --version
    return app.exit(asked);
  } catch (const CLI::ExtrasError&) {
    return refuse(unknown_argument(app));
  } catch (const CLI::RequiredError& error) {
    const std::string missing = missing_verb(app);
    if (!missing.empty()) return refuse(missing);
    return refuse(word == nullptr && !app.remaining(true).empty() ? unknown_argument(app) : error.what());
  } catch (const CLI::ParseError& error) {
    return refuse(word == nullptr && !app.remaining(true).empty() ? unknown_argument(app) : error.what());
  }
  (void)env::run_dir();  // the first use of a variable warns about misspelled names, for all subcommands
  return bodies.at(app.get_subcommands().front()->get_name())();
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
