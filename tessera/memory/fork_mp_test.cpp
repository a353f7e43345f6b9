// A forked child and the memory of its parent: neither sees the writes of the other, and inherited handles throw.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <functional>

#include "tessera/base/error.h"
#include "tessera/memory/allocator.h"

namespace tessera::memory {
namespace {

using device::Device;
using device::Stream;

constexpr std::size_t kBytes = std::size_t{1} << 20;

struct Parent {
  Device device = Device::get("host");
  Stream stream = device.default_stream();
  Allocator allocator = Allocator::of(device);
};

// Runs `body` in a child without exit handlers; it exits with 0 if `body` returned true.
pid_t fork_child(const std::function<bool()>& body) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  bool is_right = false;
  try {
    is_right = body();
  } catch (...) {
    is_right = false;
  }
  ::_exit(is_right ? 0 : 1);
}

int status_of(pid_t child) {
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

// Returns true if `use` throws an error that names the fork and the object.
bool is_rejected(const std::function<void()>& use, const char* what) {
  try {
    use();
  } catch (const NotSupported& error) {
    return error.message().find("forked child") != std::string::npos && error.message().find(what) == 0;
  }
  return false;
}

TEST(ForkedChild, DoesNotWriteTheMemoryOfItsParent) {
  Parent parent;
  { const Buffer cached = parent.allocator.allocate(kBytes, parent.stream); }
  int ends[2] = {};
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = fork_child([&] {
    char word = 0;
    if (::read(ends[0], &word, 1) != 1) return false;
    // The block that the parent has taken meanwhile is free in the allocator copy of the child.
    return is_rejected(
        [&] {
          const Buffer same = parent.allocator.allocate(kBytes, parent.stream);
          std::memset(same.data(), 0x77, kBytes);
        },
        "allocator");
  });
  const Buffer block = parent.allocator.allocate(kBytes, parent.stream);
  std::memset(block.data(), 0x11, kBytes);
  ASSERT_EQ(::write(ends[1], "x", 1), 1);
  EXPECT_EQ(status_of(child), 0);
  EXPECT_TRUE(std::all_of(block.data(), block.data() + kBytes, [](std::byte b) { return b == std::byte{0x11}; }));
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(ForkedChild, DoesNotReadTheMemoryOfItsParent) {
  Parent parent;
  const Buffer block = parent.allocator.allocate(kBytes, parent.stream);
  std::memset(block.data(), 0x11, kBytes);
  const pid_t child = fork_child([&] {
    std::signal(SIGSEGV, SIG_DFL);
    return *const_cast<volatile std::byte*>(block.data()) != std::byte{0x11};
  });
  const int status = status_of(child);
  // A child usually faults. A sanitizer maps memory in the child, sometimes at this address; that is zero.
  EXPECT_TRUE(status == 0 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV)) << status;
}

TEST(ForkedChild, InheritedHandlesThrow) {
  Parent parent;
  const Buffer block = parent.allocator.allocate(kBytes, parent.stream);
  const device::Event event = parent.device.create_event();
  const Pool pool = parent.allocator.create_pool();
  const pid_t child = fork_child([&] {
    return is_rejected([&] { (void)parent.device.create_stream(); }, "device") &&
           is_rejected([&] { (void)parent.device.create_memory(kBytes); }, "device") &&
           is_rejected([&] { parent.stream.synchronize(); }, "stream") &&
           is_rejected([&] { parent.stream.run([] {}); }, "stream") &&
           is_rejected([&] { (void)event.query(); }, "event") &&
           is_rejected([&] { (void)parent.allocator.statistics(); }, "allocator") &&
           is_rejected([&] { (void)pool.snapshot(); }, "pool") && is_rejected([&] { block.use_on(parent.stream); }, "");
  });
  EXPECT_EQ(status_of(child), 0);
}

TEST(ForkedChild, MakesADeviceOfItsOwnAndLeavesItsParentsAlone) {
  Parent parent;
  Buffer block = parent.allocator.allocate(kBytes, parent.stream);
  std::memset(block.data(), 0x11, kBytes);
  const std::size_t used = parent.device.memory_use().own_nbytes;
  const pid_t child = fork_child([&] {
    block.reset();  // a block that a child frees stays with the parent
    const Parent own;
    const Buffer mine = own.allocator.allocate(kBytes, own.stream);
    own.stream.fill(mine.data(), 0x55, 1, kBytes);
    own.stream.synchronize();
    return own.device.state() != parent.device.state() && mine.data()[kBytes - 1] == std::byte{0x55};
  });
  EXPECT_EQ(status_of(child), 0);
  EXPECT_EQ(parent.device.memory_use().own_nbytes, used);
  EXPECT_TRUE(std::all_of(block.data(), block.data() + kBytes, [](std::byte b) { return b == std::byte{0x11}; }));
}

}  // namespace
}  // namespace tessera::memory
