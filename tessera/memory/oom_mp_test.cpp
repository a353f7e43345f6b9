// A process with limited address space: the error of a real allocation names the limit.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "tessera/base/error.h"
#include "tessera/base/version.h"
#include "tessera/memory/allocator.h"

namespace tessera::memory {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

std::size_t mapped_nbytes() {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

// In the child: the first allocation reserves addresses for later ones. Returns true if the error names the limit.
bool is_limit_named() {
  const device::Device device = device::Device::get("host");
  const device::Stream stream = device.default_stream();
  const rlimit limit = {.rlim_cur = mapped_nbytes() + 512 * kMiB, .rlim_max = RLIM_INFINITY};
  if (::setrlimit(RLIMIT_AS, &limit) != 0) return false;
  try {
    (void)Allocator::of(device).allocate(1024 * kMiB, stream);
  } catch (const Error& error) {
    if (error.message().find("(ulimit -v)") != std::string::npos) return true;
    std::fprintf(stderr, "%s\n", error.what());
  }
  return false;
}

TEST(AddressLimit, IsNamedByTheErrorOfAnAllocation) {
  if (!build_info().sanitizers.empty()) GTEST_SKIP() << "sanitizers map more than any limit";
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv("TESSERA_RECORD", "off", 1);  // a process that ends by _exit() leaves its record
    ::_exit(is_limit_named() ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace tessera::memory
