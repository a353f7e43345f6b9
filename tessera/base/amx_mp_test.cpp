// The trial of AMX with planted answers, and the signals and children of a process in which it runs.
#include "tessera/base/amx.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <thread>

#include "tessera/base/fork.h"

namespace tessera {
namespace {

using detail::AmxTrial;
using detail::try_amx;

bool yes() { return true; }
bool no() { return false; }
bool raise_sigill() {
  asm volatile("ud2");
  return true;
}
bool raise_sigsegv() {
  asm volatile("movq %%rax, (%0)" : : "r"(std::uintptr_t{0}) : "memory");
  return true;
}

std::atomic<int> requests{0};
bool count_request() {
  requests.fetch_add(1, std::memory_order_relaxed);
  return true;
}
// Grants the first request, which is the child's.
bool grant_once() { return requests.fetch_add(1, std::memory_order_relaxed) == 0; }

std::atomic<int> handled{0};
void handle(int /*signal*/) { handled.fetch_add(1, std::memory_order_relaxed); }

// Handlers of this process for signals that the trial meets, as long as it lives.
class Handlers {
 public:
  Handlers() {
    handled = 0;
    struct sigaction action = {};
    action.sa_handler = handle;
    ::sigaction(SIGILL, &action, &ill_);
    ::sigaction(SIGCHLD, &action, &child_);
  }
  ~Handlers() {
    ::sigaction(SIGILL, &ill_, nullptr);
    ::sigaction(SIGCHLD, &child_, nullptr);
  }
  [[nodiscard]] static bool are_kept() {
    struct sigaction ill = {};
    struct sigaction child = {};
    ::sigaction(SIGILL, nullptr, &ill);
    ::sigaction(SIGCHLD, nullptr, &child);
    return ill.sa_handler == handle && child.sa_handler == handle;
  }

 private:
  struct sigaction ill_ = {};
  struct sigaction child_ = {};
};

TEST(Amx, GivesTheAnswerOfEachStep) {
  EXPECT_EQ(try_amx({no, yes, yes}), AmxState::kNotAnnounced);
  EXPECT_EQ(try_amx({yes, no, yes}), AmxState::kKernelRefuses);
  EXPECT_EQ(try_amx({yes, yes, no}), AmxState::kInstructionFails);
  EXPECT_EQ(try_amx({yes, yes, yes}), AmxState::kWorks);
}

TEST(Amx, SurvivesInstructionsThatRaiseSignals) {
  EXPECT_EQ(try_amx({yes, yes, raise_sigill}), AmxState::kInstructionFails);
  EXPECT_EQ(try_amx({yes, yes, raise_sigsegv}), AmxState::kInstructionFails);
}

TEST(Amx, TriesNothingThatIsNotAnnounced) {
  requests = 0;
  EXPECT_EQ(try_amx({no, count_request, raise_sigill}), AmxState::kNotAnnounced);
  EXPECT_EQ(requests, 0);
}

TEST(Amx, RequestsTheStateForThisProcessOnlyIfTheTrialSucceeds) {
  requests = 0;
  EXPECT_EQ(try_amx({yes, count_request, raise_sigill}), AmxState::kInstructionFails);
  EXPECT_EQ(requests, 1) << "the child's request alone";
  requests = 0;
  EXPECT_EQ(try_amx({yes, count_request, yes}), AmxState::kWorks);
  EXPECT_EQ(requests, 2);
  requests = 0;
  EXPECT_EQ(try_amx({yes, grant_once, yes}), AmxState::kKernelRefuses);
}

TEST(Amx, LeavesSignalsOfTheProcessAlone) {
  const Handlers handlers;
  sigset_t blocked;
  sigset_t before;
  ::sigemptyset(&blocked);
  ::sigaddset(&blocked, SIGILL);
  ::sigaddset(&blocked, SIGUSR1);
  ::pthread_sigmask(SIG_BLOCK, &blocked, &before);
  errno = ENOTTY;
  EXPECT_EQ(try_amx({yes, yes, raise_sigill}), AmxState::kInstructionFails);
  EXPECT_EQ(errno, ENOTTY);
  EXPECT_TRUE(Handlers::are_kept());
  EXPECT_EQ(handled, 0) << "a handler of this process ran";
  sigset_t after;
  ::pthread_sigmask(SIG_SETMASK, &before, &after);
  EXPECT_EQ(::sigismember(&after, SIGILL), 1);
  EXPECT_EQ(::sigismember(&after, SIGUSR1), 1);
  EXPECT_EQ(::sigismember(&after, SIGUSR2), 0);
}

TEST(Amx, LeavesChildrenOfTheProcessAlone) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t other = ::fork();
  if (other == 0) {
    char byte = 0;
    ::close(ends[1]);
    ::_exit(::read(ends[0], &byte, 1) == 0 ? 7 : 1);  // ends with its parent's end of the pipe
  }
  const std::uint32_t depth = detail::fork_depth;
  EXPECT_EQ(try_amx({yes, yes, raise_sigill}), AmxState::kInstructionFails);
  EXPECT_EQ(detail::fork_depth, depth) << "a fork handler ran";
  int status = 0;
  EXPECT_EQ(::waitpid(-1, &status, WNOHANG | __WALL), 0) << "the trial left a child, or reaped one";
  ::close(ends[1]);
  ::close(ends[0]);
  ASSERT_EQ(::waitpid(-1, &status, 0), other);
  EXPECT_EQ(WEXITSTATUS(status), 7);
  EXPECT_EQ(::waitpid(-1, &status, __WALL), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST(Amx, WorksBesideThreadsThatWaitForChildren) {
  std::atomic<bool> is_over{false};
  std::thread waiting([&] {
    while (!is_over) ::waitpid(-1, nullptr, WNOHANG | __WALL);
  });
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(try_amx({yes, yes, raise_sigill}), AmxState::kInstructionFails);
    EXPECT_EQ(try_amx({yes, yes, yes}), AmxState::kWorks);
  }
  is_over = true;
  waiting.join();
}

// A fork would copy the page tables of this memory.
TEST(Amx, TakesLessThanFiveMillisecondsInALargeProcess) {
  constexpr std::size_t kBytes = std::size_t{1} << 29;
  void* const memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  ::madvise(memory, kBytes, MADV_NOHUGEPAGE);
  for (std::size_t i = 0; i < kBytes; i += 4096) static_cast<volatile char*>(memory)[i] = 1;
  double best = 1e9;
  for (int i = 0; i < 20; ++i) {
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(try_amx({yes, yes, raise_sigill}), AmxState::kInstructionFails);
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count());
  }
  ::munmap(memory, kBytes);
  EXPECT_LT(best, 5.0);
  RecordProperty("milliseconds", std::to_string(best));
}

TEST(Amx, IsNeverReportedToWorkWhereItIsNotAnnounced) {
  const AmxState state = amx_state();
  EXPECT_EQ(amx_state(), state);
  EXPECT_FALSE(to_text(state).empty());
  if (__builtin_cpu_is("amd") != 0) {
    EXPECT_EQ(state, AmxState::kNotAnnounced);
  }
}

}  // namespace
}  // namespace tessera
