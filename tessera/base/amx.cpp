#include "tessera/base/amx.h"

#include <cpuid.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

namespace tessera {
namespace detail {
namespace {

// The child shares the memory of the process, but not the thread for which a sanitizer keeps its records.
#define TESSERA_IN_CHILD __attribute__((no_sanitize("address", "thread", "undefined"), noinline))

// Without errno, which belongs to the waiting thread.
TESSERA_IN_CHILD long system_call(long number, long a, long b = 0, long c = 0, long d = 0) {
  long result = number;
  register long fourth asm("r10") = d;
  asm volatile("syscall" : "+a"(result) : "D"(a), "S"(b), "d"(c), "r"(fourth) : "rcx", "r11", "memory");
  return result;
}

bool is_announced() {
  constexpr unsigned kBf16 = 1U << 22U;
  constexpr unsigned kTile = 1U << 24U;
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & kBf16) != 0 && (d & kTile) != 0;
}

TESSERA_IN_CHILD bool request() {
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
  return system_call(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

// The operand of LDTILECFG.
struct alignas(64) TileConfig {
  std::uint8_t palette;
  std::uint8_t start_row;
  std::uint8_t reserved[14];
  std::uint16_t row_nbytes[16];
  std::uint8_t rows[16];
};

// Ones times ones: tiles of 16 rows of 64 bytes, 32 products per sum.
TESSERA_IN_CHILD bool multiply() {
  constexpr std::uint16_t kOne = 0x3f80;
  static TileConfig config;
  static std::uint16_t ones[16 * 32];
  static float sums[16 * 16];
  config.palette = 1;
  for (int i = 0; i < 3; ++i) {
    config.row_nbytes[i] = 64;
    config.rows[i] = 16;
  }
  for (std::uint16_t& each : ones) each = kOne;
  const std::int64_t stride = 64;
  asm volatile(
      "ldtilecfg (%0)\n\t"
      "tilezero %%tmm0\n\t"
      "tileloadd (%1,%3,1), %%tmm1\n\t"
      "tileloadd (%1,%3,1), %%tmm2\n\t"
      "tdpbf16ps %%tmm2, %%tmm1, %%tmm0\n\t"
      "tilestored %%tmm0, (%2,%3,1)\n\t"
      "tilerelease"
      :
      : "r"(&config), "r"(ones), "r"(sums), "r"(stride)
      : "memory");
  for (const float each : sums) {
    if (each != 32.0F) return false;
  }
  return true;
}

struct Shared {
  const AmxTrial* trial;
  volatile AmxState state;
};

[[noreturn]] TESSERA_IN_CHILD void leave() {
  for (;;) system_call(SYS_exit_group, 0);
}
TESSERA_IN_CHILD void leave_on_signal(int /*signal*/) { leave(); }

// The kernel's form of sigaction: that of the C library may be wrapped by a sanitizer, which would record the handler
// for the parent.
struct KernelAction {
  void (*handler)(int);
  unsigned long flags;
  void (*restorer)();
  std::uint64_t mask;
};

// Ends the child when an instruction fails. A default action would dump core, and kernels before 5.16 then kill all
// processes that share the memory. A blocked signal would take its default action.
TESSERA_IN_CHILD void leave_on_failures() {
  constexpr unsigned long kHasRestorer = 0x04000000;  // SA_RESTORER, without which no handler runs
  const KernelAction action{leave_on_signal, kHasRestorer, leave, 0};
  std::uint64_t unblocked = 0;
  for (const int signal : {SIGILL, SIGSEGV, SIGBUS, SIGFPE, SIGTRAP, SIGSYS}) {
    system_call(SYS_rt_sigaction, signal, reinterpret_cast<long>(&action), 0, sizeof(unblocked));
    unblocked |= std::uint64_t{1} << static_cast<unsigned>(signal - 1);
  }
  system_call(SYS_rt_sigprocmask, SIG_UNBLOCK, reinterpret_cast<long>(&unblocked), 0, sizeof(unblocked));
}

TESSERA_IN_CHILD int child(void* argument) {
  auto* const shared = static_cast<Shared*>(argument);
  leave_on_failures();
  if (!shared->trial->request()) {
    shared->state = AmxState::kKernelRefuses;
  } else if (shared->trial->multiply()) {
    shared->state = AmxState::kWorks;
  }
  leave();
}

// Runs the child on a stack of its own. Without memory or processes, AMX is not used.
AmxState try_in_child(const AmxTrial& trial) {
  constexpr std::size_t kStack = std::size_t{256} * 1024;
  void* const stack = ::mmap(nullptr, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (stack == MAP_FAILED) return AmxState::kInstructionFails;
  Shared shared{&trial, AmxState::kInstructionFails};
  // Signals from outside would run handlers of this process in the child.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, &before);
  const int child_id = ::clone(child, static_cast<std::byte*>(stack) + kStack, CLONE_VM | CLONE_VFORK, &shared);
  if (child_id > 0) {
    // A child without an exit signal. Another thread that waits for all kinds of children may have reaped it.
    while (::waitpid(child_id, nullptr, __WCLONE) < 0 && errno == EINTR) {
    }
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ::munmap(stack, kStack);
  return shared.state;
}

#undef TESSERA_IN_CHILD

}  // namespace

AmxState try_amx(const AmxTrial& trial) {
  if (!trial.is_announced()) return AmxState::kNotAnnounced;
  const int errno_before = errno;
  AmxState state = try_in_child(trial);
  if (state == AmxState::kWorks && !trial.request()) state = AmxState::kKernelRefuses;
  errno = errno_before;
  return state;
}

}  // namespace detail

AmxState amx_state() {
  static const AmxState kState = detail::try_amx({detail::is_announced, detail::request, detail::multiply});
  return kState;
}

std::string_view to_text(AmxState state) {
  switch (state) {
    case AmxState::kNotAnnounced: return "not supported by the processor";
    case AmxState::kKernelRefuses: return "supported by the processor, but denied by the kernel";
    case AmxState::kInstructionFails: return "supported by the processor, but its instructions fail";
    case AmxState::kWorks: return "works";
  }
  return "";
}

}  // namespace tessera
