#include "tessera/comm/testing/mpirun.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <sstream>

#include "tessera/base/error.h"

namespace tessera::comm {

std::string find_mpirun() {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::string candidate = folder + "/mpirun";
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return "";
}

std::vector<std::string> mpirun_command(int ranks, int seconds) {
  return {find_mpirun(),
          "--allow-run-as-root",
          "--oversubscribe",
          "--bind-to",
          "none",
          "--timeout",
          std::to_string(seconds),
          "-n",
          std::to_string(ranks)};
}

CommandEnd run_command(const std::vector<std::string>& command, const std::vector<std::string>& environment) {
  int pipe[2];
  TESSERA_CHECK_AS(IoError, ::pipe(pipe) == 0, "no pipe");
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  const pid_t process = ::fork();
  if (process == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // it ends with the process that started it
    ::dup2(pipe[1], STDOUT_FILENO);
    ::dup2(pipe[1], STDERR_FILENO);
    ::close(pipe[0]);
    ::close(pipe[1]);
    for (const std::string& setting : environment) {
      const std::size_t equals = setting.find('=');
      ::setenv(setting.substr(0, equals).c_str(), setting.substr(equals + 1).c_str(), 1);
    }
    ::execv(words[0], words.data());
    ::_exit(127);
  }
  ::close(pipe[1]);
  CommandEnd end;
  char part[4096];
  for (ssize_t got = 0; (got = ::read(pipe[0], part, sizeof part)) > 0;) {
    end.output.append(part, static_cast<std::size_t>(got));
  }
  ::close(pipe[0]);
  int status = 0;
  ::waitpid(process, &status, 0);
  if (WIFEXITED(status)) end.exit_code = WEXITSTATUS(status);
  return end;
}

}  // namespace tessera::comm
