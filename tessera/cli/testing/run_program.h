// Runs the command and captures its output.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace tessera::cli::testing {

/// Exit code and output of a run.
struct Outcome {
  int code = -1;
  std::string out;
  std::string err;
};

/// Returns the content of a file.
inline std::string content(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

/// Runs `tessera` with these arguments, parsed by a shell.
inline Outcome tessera(const std::string& arguments, const std::string& environment = "") {
  char directory[] = "/tmp/tessera_cli_XXXXXX";
  EXPECT_NE(::mkdtemp(directory), nullptr);
  const std::string base(directory);
  const std::string command =
      environment + " '" TESSERA_PROGRAM "' " + arguments + " >" + base + "/out 2>" + base + "/err";
  const int status = std::system(command.c_str());
  Outcome outcome{WIFEXITED(status) ? WEXITSTATUS(status) : -1, content(base + "/out"), content(base + "/err")};
  std::filesystem::remove_all(base);
  return outcome;
}

/// Returns true if `text` contains `part`.
inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace tessera::cli::testing
