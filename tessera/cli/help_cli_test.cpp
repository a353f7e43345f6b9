// Tests `tessera help`: completion scripts in the shells that are installed, and man pages.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tessera/cli/testing/run_program.h"

namespace {

using tessera::cli::testing::contains;
using tessera::cli::testing::content;
using tessera::cli::testing::Outcome;
using tessera::cli::testing::tessera;

class Help : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/tessera_help_XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    directory = name;
  }
  void TearDown() override { std::filesystem::remove_all(directory); }

  // Runs a script in a shell, in a directory with the folder `logs` and the file `notes`. Returns the lines of its
  // stdout.
  [[nodiscard]] std::set<std::string> lines_of(const std::string& shell, const std::string& script) const {
    std::filesystem::create_directories(directory + "/logs");
    std::ofstream(directory + "/notes") << "text";
    std::ofstream(directory + "/script") << script;
    const std::string command = "cd " + directory + " && " + shell + " script >out 2>err";
    EXPECT_EQ(std::system(command.c_str()), 0) << content(directory + "/err");
    EXPECT_EQ(content(directory + "/err"), "");
    std::set<std::string> lines;
    std::istringstream text(content(directory + "/out"));
    for (std::string line; std::getline(text, line);) lines.insert(line);
    return lines;
  }

  // Returns the completions of the last of these words in bash, which splits words at '=' too.
  [[nodiscard]] std::set<std::string> in_bash(const std::string& words) const {
    return lines_of("bash", "source <('" TESSERA_PROGRAM "' help --completion bash)\nCOMP_WORDS=(" + words +
                                ")\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_tessera\n"
                                "((${#COMPREPLY[@]} == 0)) || printf '%s\\n' \"${COMPREPLY[@]}\"\n");
  }

  // Returns the completions of a command line in fish.
  [[nodiscard]] std::set<std::string> in_fish(const std::string& line) const {
    std::set<std::string> names;
    for (const std::string& each : lines_of(
             "fish --no-config", "'" TESSERA_PROGRAM "' help --completion fish | source\ncomplete -C '" + line + "'\n"))
      names.insert(each.substr(0, each.find('\t')));
    return names;
  }

  std::string directory;
};

using Names = std::set<std::string>;

bool has_program(const std::string& name) {
  return std::system(("command -v " + name + " >/dev/null 2>&1").c_str()) == 0;
}

TEST_F(Help, BashCompletesCommandsOptionsValuesAndPaths) {
  EXPECT_EQ(in_bash("tessera tr"), Names({"train"}));
  EXPECT_EQ(in_bash("tessera memory ''"), Names({"dump", "replay", "stat", "top"}));
  EXPECT_EQ(in_bash("tessera memory stat --"), Names({"--help", "--json"}));
  EXPECT_EQ(in_bash("tessera train --on-failure ''"), Names({"kill", "shrink"}));
  EXPECT_EQ(in_bash("tessera train --on-failure = k"), Names({"kill"}));
  EXPECT_EQ(in_bash("tessera train --train.on_spike ="), Names({"skip", "stop"}));
  EXPECT_EQ(in_bash("tessera train --model.tied t"), Names({"true"}));
  EXPECT_EQ(in_bash("tessera train --model.width ''"), Names());
  EXPECT_EQ(in_bash("tessera train --run.directory ''"), Names({"logs"}));
  EXPECT_EQ(in_bash("tessera memory stat n"), Names({"notes"}));
  EXPECT_EQ(in_bash("tessera explain ''"), Names({"logs"}));
  EXPECT_EQ(in_bash("tessera run -n 2 --restarts 3 -- n"), Names({"notes"}));
  EXPECT_EQ(in_bash("tessera help exp"), Names({"explain", "export"}));
}

TEST_F(Help, FishCompletesCommandsOptionsValuesAndPaths) {
  if (!has_program("fish")) GTEST_SKIP() << "fish is not installed";
  EXPECT_EQ(in_fish("tessera tr"), Names({"train"}));
  EXPECT_EQ(in_fish("tessera memory "), Names({"dump", "replay", "stat", "top"}));
  EXPECT_EQ(in_fish("tessera memory stat --"), Names({"--help", "--json"}));
  EXPECT_EQ(in_fish("tessera train --on-failure "), Names({"kill", "shrink"}));
  EXPECT_EQ(in_fish("tessera train --on-failure=k"), Names({"--on-failure=kill"}));
  EXPECT_EQ(in_fish("tessera train --run.directory "), Names({"logs/"}));
  EXPECT_EQ(in_fish("tessera memory stat n"), Names({"notes"}));
}

TEST_F(Help, ZshLoadsItsScript) {
  if (!has_program("zsh")) GTEST_SKIP() << "zsh is not installed";
  EXPECT_EQ(tessera("help --install " + directory).code, 0);
  const Names functions = lines_of("zsh -f",
                                   "fpath=($PWD/zsh/site-functions $fpath)\nautoload -Uz compinit\ncompinit -D -u\n"
                                   "print -l $_comps[tessera]\nsource zsh/site-functions/_tessera\n"
                                   "print -l ${(k)functions[(I)_tessera*]}\n");
  for (const char* name : {"_tessera", "_tessera_train", "_tessera_memory", "_tessera_memory_stat"})
    EXPECT_TRUE(functions.contains(name)) << name;
}

// Returns the long options in the help of a command.
Names options_in(const std::string& help) {
  Names names;
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t at = line.find("--");
    if (!line.starts_with("  ") || at > 6 || line.find("tessera ") != std::string::npos) continue;
    names.insert(line.substr(at, line.find_first_of(" =", at) - at));
  }
  return names;
}

TEST_F(Help, ScriptsAndManPagesNameEveryOption) {
  const std::string bash = tessera("help --completion bash").out;
  const std::string zsh = tessera("help --completion zsh").out;
  const std::string fish = tessera("help --completion fish").out;
  for (const char* verb : {"train", "run", "explain", "tokenize"}) {
    std::string page = tessera(std::string("help --man ") + verb).out;
    page.erase(std::remove(page.begin(), page.end(), '\\'), page.end());
    const Names options = options_in(tessera(std::string(verb) + " --help").out);
    EXPECT_GE(options.size(), 6U) << verb;
    for (const std::string& option : options) {
      EXPECT_TRUE(contains(page, "fB" + option + "fR")) << verb << " " << option;
      EXPECT_TRUE(contains(bash, option)) << option;
      EXPECT_TRUE(contains(zsh, option)) << option;
      EXPECT_TRUE(contains(fish, " -l " + option.substr(2) + " ")) << option;
    }
  }
  for (const std::string* script : {&bash, &zsh, &fish}) EXPECT_FALSE(contains(*script, "started")) << *script;
}

TEST_F(Help, ManPagesAreValid) {
  const Outcome outcome = tessera("help --install " + directory);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  for (const char* page : {"tessera.1", "tessera-train.1", "tessera-memory.1", "tessera-help.1"})
    EXPECT_TRUE(contains(outcome.out, directory + "/man/man1/" + page + "\n")) << page;
  EXPECT_EQ(tessera("help --man memory").out, content(directory + "/man/man1/tessera-memory.1"));
  EXPECT_TRUE(contains(tessera("help --man memory").out, "\\fBtessera memory stat\\fR"));
  if (!has_program("groff")) GTEST_SKIP() << "groff is not installed";
  for (const auto& page : std::filesystem::directory_iterator(directory + "/man/man1")) {
    EXPECT_EQ(lines_of("groff -man -Tutf8 -ww -rCHECKSTYLE=3 -z " + page.path().string(), ""), Names());
  }
}

TEST_F(Help, InvalidUsesFail) {
  EXPECT_EQ(tessera("help --completion csh").code, 2);
  EXPECT_EQ(tessera("help --man nosuch").err, "tessera: help: --man: unknown command 'nosuch'; see `tessera --help`\n");
  EXPECT_EQ(tessera("help --man nosuch").code, 2);
  EXPECT_EQ(tessera("help --man --completion bash").code, 2);
  EXPECT_EQ(tessera("help --install /dev/null").code, 1);
}

}  // namespace
