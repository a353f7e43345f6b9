// Warnings of the first use of a variable. Each test runs in a new process, because a process warns once.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <string>

#include "tessera/base/env.h"
#include "tessera/base/log.h"

namespace tessera {
namespace {

// Returns the stderr of `body`, run in a new process.
std::string stderr_of(const std::function<void()>& body) {
  int pipe_ends[2];
  EXPECT_EQ(::pipe(pipe_ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(pipe_ends[1], STDERR_FILENO);
    ::close(pipe_ends[0]);
    body();
    ::_exit(0);
  }
  ::close(pipe_ends[1]);
  std::string text;
  char piece[512];
  for (ssize_t got = 0; (got = ::read(pipe_ends[0], piece, sizeof piece)) > 0;)
    text.append(piece, static_cast<std::size_t>(got));
  ::close(pipe_ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  return text;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t times = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++times;
  return times;
}

TEST(EnvWarning, NamesTheNearestOnce) {
  const std::string text = stderr_of([] {
    ::setenv("TESSERA_RECROD_BYTES", "1MiB", 1);
    ::setenv("TESSERA_QQQQQQQQQQ", "1", 1);
    ::setenv("TESSERA_MUTANT", "x", 1);
    (void)env::run_dir();
    (void)env::host_seed();
    log::info("hello");
  });
  EXPECT_EQ(count(text, "warn unknown environment variable TESSERA_RECROD_BYTES; did you mean TESSERA_RECORD_BYTES?\n"),
            1u)
      << text;
  EXPECT_EQ(count(text, "TESSERA_QQQQQQQQQQ; `tessera info --env` lists all variables\n"), 1u) << text;
  EXPECT_EQ(count(text, "TESSERA_MUTANT"), 0u) << text;
  EXPECT_EQ(count(text, "hello\n"), 1u) << text;
}

TEST(EnvWarning, ComesFromTheFirstLogLineToo) {
  const std::string text = stderr_of([] {
    ::setenv("TESSERA_LGO", "debug", 1);
    log::info("hello");
  });
  EXPECT_EQ(count(text, "did you mean TESSERA_LOG?"), 1u) << text;
  EXPECT_EQ(count(text, "hello"), 1u) << text;
}

TEST(EnvWarning, LogLevelIsObeyedFromTheFirstLine) {
  const std::string text = stderr_of([] {
    ::setenv("TESSERA_LOG", "error", 1);
    log::warn("not shown");
    log::error("shown");
  });
  EXPECT_EQ(count(text, "not shown"), 0u) << text;
  EXPECT_EQ(count(text, " error shown\n"), 1u) << text;
}

TEST(EnvWarning, ABadLogLevelIsAWarningAndLoggingGoesOn) {
  const std::string text = stderr_of([] {
    ::setenv("TESSERA_LOG", "wran", 1);
    ::setenv("TESSERA_LOG_COLOR", "pink", 1);
    log::debug("not shown");
    log::info("shown");
  });
  EXPECT_EQ(count(text, "TESSERA_LOG: must be one of debug|info|warn|error|off, got 'wran' (did you mean 'warn'?)"), 1u)
      << text;
  EXPECT_EQ(count(text, "TESSERA_LOG_COLOR: must be one of auto|always|never, got 'pink'"), 1u) << text;
  EXPECT_EQ(count(text, "not shown"), 0u) << text;
  EXPECT_EQ(count(text, " info shown\n"), 1u) << text;
}

TEST(EnvWarning, ColourOnlyWhereAsked) {
  const auto warn = [] { log::warn("careful"); };
  EXPECT_EQ(count(stderr_of(warn), "\033["), 0u);  // a pipe is not a terminal
  const std::string coloured = stderr_of([&] {
    ::setenv("TESSERA_LOG_COLOR", "always", 1);
    warn();
  });
  EXPECT_EQ(count(coloured, "\033[33mwarn careful\033[0m\n"), 1u) << coloured;
}

}  // namespace
}  // namespace tessera
