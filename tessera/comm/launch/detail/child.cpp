#include "tessera/comm/launch/detail/child.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>

#include "tessera/base/error.h"

namespace tessera::comm::detail {
namespace {

struct Pipe {
  Descriptor from;
  Descriptor to;
};

Pipe make_pipe() {
  int ends[2];
  TESSERA_CHECK_AS(IoError, ::pipe2(ends, O_CLOEXEC) == 0, "cannot start a rank: pipe: ", std::strerror(errno));
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

std::vector<std::string> merged_environment(const std::vector<std::pair<std::string, std::string>>& over) {
  std::map<std::string, std::string> all;
  for (char** at = environ; at != nullptr && *at != nullptr; ++at) {
    const std::string setting(*at);
    all[setting.substr(0, setting.find('='))] = setting;
  }
  for (const auto& [name, value] : over) all[name] = name + "=" + value;
  std::vector<std::string> settings;
  settings.reserve(all.size());
  for (auto& [name, setting] : all) settings.push_back(std::move(setting));
  return settings;
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> all;
  all.reserve(texts.size() + 1);
  for (const std::string& text : texts) all.push_back(const_cast<char*>(text.c_str()));
  all.push_back(nullptr);
  return all;
}

struct ChildSide {
  char* const* arguments;
  char* const* environment;
  const sigset_t* signal_mask;
  const cpu_set_t* cores;
  pid_t launcher;
  int input, output, errors, problem;
};

// Runs between fork and exec, in a copy of a process with other threads: makes only system calls.
[[noreturn]] void become(const ChildSide& side) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != side.launcher) ::_exit(127);  // the launcher died before PDEATHSIG was set
  int error = 0;
  if (::dup2(side.input, 0) < 0 || ::dup2(side.output, 1) < 0 || ::dup2(side.errors, 2) < 0) error = errno;
  if (side.cores != nullptr && ::sched_setaffinity(0, sizeof *side.cores, side.cores) != 0) error = errno;
  if (error == 0) {
    struct sigaction standard = {};
    standard.sa_handler = SIG_DFL;
    ::sigaction(SIGPIPE, &standard, nullptr);
    ::pthread_sigmask(SIG_SETMASK, side.signal_mask, nullptr);
    ::execvpe(side.arguments[0], side.arguments, side.environment);
    error = errno;
  }
  [[maybe_unused]] const ssize_t put = ::write(side.problem, &error, sizeof error);
  ::_exit(127);
}

}  // namespace

Child::Child(const ChildRequest& request) {
  Pipe output = make_pipe();
  Pipe errors = make_pipe();
  Pipe problem = make_pipe();
  const Descriptor input(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  TESSERA_CHECK_AS(IoError, input, "cannot start a rank: /dev/null: ", std::strerror(errno));
  const std::vector<std::string> environment = merged_environment(request.environment);
  const std::vector<char*> argument_pointers = pointers(request.command);
  const std::vector<char*> environment_pointers = pointers(environment);
  const ChildSide side{argument_pointers.data(),
                       environment_pointers.data(),
                       &request.signal_mask,
                       request.cores,
                       ::getpid(),
                       input.get(),
                       output.to.get(),
                       errors.to.get(),
                       problem.to.get()};
  const pid_t pid = ::fork();
  if (pid == 0) become(side);
  TESSERA_CHECK_AS(IoError, pid > 0, "cannot start a rank: fork: ", std::strerror(errno));
  pid_ = pid;
  ::setpgid(pid, pid);  // both sides do this, so that a signal to the group always finds it
  problem.to.reset();
  int error = 0;
  ssize_t got = 0;
  do {
    got = ::read(problem.from.get(), &error, sizeof error);
  } while (got < 0 && errno == EINTR);
  if (got == sizeof error) {
    ::waitpid(pid, nullptr, 0);
    pid_ = 0;
    TESSERA_THROW(IoError, "cannot start '", request.command.front(), "': ", std::strerror(error),
                  error == ENOENT ? "; use a path such as ./program, or a program on PATH" : "");
  }
  out = std::move(output.from);
  err = std::move(errors.from);
  ::fcntl(out.get(), F_SETFL, O_NONBLOCK);
  ::fcntl(err.get(), F_SETFL, O_NONBLOCK);
}

Child::Child(Child&& other) noexcept
    : out(std::move(other.out)), err(std::move(other.err)), pid_(std::exchange(other.pid_, 0)) {}

Child& Child::operator=(Child&& other) noexcept {
  std::swap(out, other.out);
  std::swap(err, other.err);
  std::swap(pid_, other.pid_);
  return *this;
}

Child::~Child() {
  if (pid_ == 0) return;
  signal(SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void Child::signal(int number) const {
  if (pid_ == 0) return;
  ::kill(-pid_, number);
  // A stopped process would not act on the signal.
  if (number == SIGTERM) ::kill(-pid_, SIGCONT);
}

std::optional<RankEnd> Child::reap() {
  if (pid_ == 0) return std::nullopt;
  // Not reaped until its group is killed: after that the process id may be reused.
  siginfo_t info = {};
  if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0)
    return std::nullopt;
  ::kill(-pid_, SIGKILL);
  int status = 0;
  ::waitpid(pid_, &status, 0);
  RankEnd end;
  end.pid = std::exchange(pid_, 0);
  if (WIFSIGNALED(status)) {
    end.signal = WTERMSIG(status);
  } else {
    end.exit_code = WEXITSTATUS(status);
  }
  return end;
}

}  // namespace tessera::comm::detail
