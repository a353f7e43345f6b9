// Stacks by frame pointer: callers in order, no read outside the stack, and texts with modules and addresses that tools
// can read later.
#include "tessera/memory/detail/stack_walk.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <thread>
#include <vector>

#include "tessera/base/probe/reader.h"
#include "tessera/base/testing/bench.h"

namespace tessera::memory::detail {
namespace {

struct Walk {
  std::uintptr_t frames[64] = {};
  std::size_t count = 0;
};

// Each continues after its call, so that no call becomes a jump.
[[gnu::noinline]] std::size_t inner_function(Walk& walk, std::size_t most, std::size_t skip) {
  walk.count = walk_stack(walk.frames, most, skip);
  bench::do_not_optimize(walk);
  return walk.count;
}
[[gnu::noinline]] std::size_t middle_function(Walk& walk, std::size_t most, std::size_t skip) {
  const std::size_t count = inner_function(walk, most, skip);
  bench::do_not_optimize(walk);
  return count;
}
[[gnu::noinline]] std::size_t outer_function(Walk& walk, std::size_t most, std::size_t skip) {
  const std::size_t count = middle_function(walk, most, skip);
  bench::do_not_optimize(walk);
  return count;
}

bool is_in(std::uintptr_t frame, std::size_t (*function)(Walk&, std::size_t, std::size_t)) {
  const auto begin = reinterpret_cast<std::uintptr_t>(function);
  return frame > begin && frame < begin + 1024;
}

TEST(WalkStack, CallersComeInOrder) {
  Walk walk;
  ASSERT_GE(outer_function(walk, 64, 0), 4u);
  EXPECT_TRUE(is_in(walk.frames[0], inner_function));
  EXPECT_TRUE(is_in(walk.frames[1], middle_function));
  EXPECT_TRUE(is_in(walk.frames[2], outer_function));
}

TEST(WalkStack, LeavesOutAndStopsAsAsked) {
  Walk walk;
  EXPECT_EQ(outer_function(walk, 2, 1), 2u);
  EXPECT_TRUE(is_in(walk.frames[0], middle_function));
  EXPECT_TRUE(is_in(walk.frames[1], outer_function));
  EXPECT_EQ(walk.frames[2], 0u);
  EXPECT_EQ(outer_function(walk, 0, 0), 0u);
  EXPECT_EQ(outer_function(walk, 64, 10'000), 0u);
}

TEST(WalkStack, WorksOnEveryThread) {
  for (int i = 0; i < 3; ++i) {
    std::thread([] {
      Walk walk;
      ASSERT_GE(outer_function(walk, 64, 0), 3u);
      EXPECT_TRUE(is_in(walk.frames[2], outer_function));
    }).join();
  }
}

Walk signal_walk;
void on_signal(int /*number*/) { inner_function(signal_walk, 64, 0); }

// The handler runs on memory that is not the stack of the thread; memory beyond it must not be read.
TEST(WalkStack, StaysOnASignalStack) {
  Walk first;
  inner_function(first, 64, 0);  // the bounds of this thread are known from here on
  const std::size_t page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t nbytes = 64 * page;
  void* const memory = ::mmap(nullptr, nbytes + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  ASSERT_EQ(::mprotect(static_cast<std::byte*>(memory) + nbytes, page, PROT_NONE), 0);
  const stack_t stack{.ss_sp = memory, .ss_flags = 0, .ss_size = nbytes};
  stack_t before{};
  ASSERT_EQ(::sigaltstack(&stack, &before), 0);
  struct sigaction action {};
  struct sigaction old {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_ONSTACK;
  ASSERT_EQ(::sigaction(SIGUSR1, &action, &old), 0);
  ::raise(SIGUSR1);
  ::sigaction(SIGUSR1, &old, nullptr);
  ::sigaltstack(&before, nullptr);
  ::munmap(memory, nbytes + page);
  EXPECT_EQ(signal_walk.count, 1u);
  EXPECT_TRUE(is_in(signal_walk.frames[0], inner_function));
}

// An artificial stack followed by an unreadable page.
class Chain : public ::testing::Test {
 protected:
  Chain() {
    page_ = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    void* const memory = ::mmap(nullptr, 2 * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    base_ = static_cast<std::uintptr_t*>(memory);
    ::mprotect(static_cast<std::byte*>(memory) + page_, page_, PROT_NONE);
  }
  ~Chain() override { ::munmap(base_, 2 * page_); }
  std::uintptr_t at(std::size_t word) { return reinterpret_cast<std::uintptr_t>(base_ + word); }
  std::uintptr_t end() { return at(page_ / sizeof(std::uintptr_t)); }
  void link(std::size_t word, std::uintptr_t next, std::uintptr_t caller) {
    base_[word] = next;
    base_[word + 1] = caller;
  }
  std::vector<std::uintptr_t> walk(std::uintptr_t from) {
    std::vector<std::uintptr_t> frames(8);
    frames.resize(walk_chain(from, end(), frames.data(), frames.size(), 0));
    return frames;
  }
  std::uintptr_t* base_;
  std::size_t page_;
};
using Frames = std::vector<std::uintptr_t>;

TEST_F(Chain, EndsAtItsTop) {
  link(0, at(8), 0x401000);
  link(8, 0, 0x402000);
  EXPECT_EQ(walk(at(0)), (Frames{0x401000, 0x402000}));
  link(8, end() - 16, 0x402000);
  link(page_ / 8 - 2, end(), 0x403000);  // the last two words
  EXPECT_EQ(walk(at(0)), (Frames{0x401000, 0x402000, 0x403000}));
}

TEST_F(Chain, NeedsRoomForAWholeRecord) {
  link(0, at(8), 0x401000);
  link(8, 0, 0x402000);
  std::uintptr_t frames[8];
  EXPECT_EQ(walk_chain(at(0), at(9), frames, 8, 0), 1u);
  EXPECT_EQ(walk_chain(at(0), at(10), frames, 8, 0), 2u);
}

TEST_F(Chain, NeverFollowsALinkThatCannotBeAFrame) {
  const std::uintptr_t bad[] = {
      0,
      8,
      at(0),
      at(1),
      at(0) - 16,  // nowhere, itself, not aligned, downwards
      at(4) + 4,
      end(),
      end() - 8,
      end() + 16,
      end() + 4096,
      ~std::uintptr_t{0},
      ~std::uintptr_t{15},
      0x7fffffffffffffff,
      0x8000000000000000,
  };
  for (const std::uintptr_t next : bad) {
    link(0, next, 0x401000);
    EXPECT_EQ(walk(at(0)), Frames{0x401000}) << std::hex << next;
  }
}

TEST_F(Chain, EndsAtWhatIsNoCode) {
  link(0, at(8), 0x401000);
  link(8, at(16), 17);
  EXPECT_EQ(walk(at(0)), Frames{0x401000});
}

TEST_F(Chain, ALoopEnds) {
  link(0, at(8), 0x401000);
  link(8, at(0), 0x402000);
  EXPECT_EQ(walk(at(0)), (Frames{0x401000, 0x402000}));
}

probe::RecordOptions small_options() { return {.nbytes = probe::RecordOptions::kMinBytes}; }

[[gnu::noinline]] probe::StringId take_stack(StackTable& table) {
  const probe::StringId id = table.here(0);
  bench::do_not_optimize(id);
  return id;
}

// Returns the address in `text` of the innermost frame, and its module.
std::pair<std::string, std::string> first_frame(const std::string& text) {
  const std::string frame = text.substr(0, text.find(' '));
  const std::size_t plus = frame.rfind('+');
  return {frame.substr(0, plus), frame.substr(plus + 1)};
}

TEST(StackTable, OneStackIsOneString) {
  probe::Recorder recorder({}, small_options());
  StackTable table(recorder);
  std::vector<probe::StringId> ids;
  for (int i = 0; i < 3; ++i) ids.push_back(take_stack(table));
  EXPECT_NE(ids[0], probe::StringId{});
  EXPECT_EQ(ids[0], ids[1]);
  EXPECT_EQ(ids[1], ids[2]);
  const probe::StringId other = take_stack(table);  // from another line
  EXPECT_NE(other, ids[0]);
  EXPECT_EQ(table.size(), 2u);
  EXPECT_EQ(table.dropped(), 0u);
  EXPECT_EQ(table.intern({}), probe::StringId{});
}

TEST(StackTable, TextsNameModulesAndAddresses) {
  probe::Recorder recorder({}, small_options());
  StackTable table(recorder);
  const probe::StringId id = take_stack(table);
  const auto file = probe::RecordFile::open(recorder.path());
  const auto [module, address] = first_frame(file.string(id));
  EXPECT_EQ(table.text_of(id), file.string(id));
  EXPECT_EQ(module, std::filesystem::read_symlink("/proc/self/exe").filename());
  EXPECT_EQ(address.substr(0, 2), "0x");
  const probe::TableInfo* modules = file.find_table("memory_module");
  ASSERT_NE(modules, nullptr);
  bool is_there = false;
  for (const probe::RowInfo& row : modules->claimed) {
    if (std::get<std::string>(row.find("name")->value) != module) continue;
    is_there = true;
    const std::string path = std::get<std::string>(row.find("path")->value);
    EXPECT_EQ(path.substr(path.rfind('/') + 1), module);
    EXPECT_EQ(::access(path.c_str(), R_OK), 0) << path;
  }
  EXPECT_TRUE(is_there);
}

TEST(StackTable, Addr2lineReadsItsAddresses) {
  if (std::system("addr2line --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "there is no addr2line";
  probe::Recorder recorder({}, small_options());
  StackTable table(recorder);
  const probe::StringId id = take_stack(table);
  const auto [module, address] = first_frame(probe::RecordFile::open(recorder.path()).string(id));
  FILE* const pipe =
      ::popen(("addr2line -f -C -e /proc/" + std::to_string(::getpid()) + "/exe " + address).c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  char line[512] = {};
  EXPECT_NE(std::fgets(line, sizeof line, pipe), nullptr);
  ::pclose(pipe);
  EXPECT_NE(std::string(line).find("take_stack"), std::string::npos) << line;
}

TEST(StackTable, AddressesOfNoModuleAreShownAsTheyAre) {
  probe::Recorder recorder({}, small_options());
  StackTable table(recorder);
  const std::uintptr_t frames[] = {0x1235};
  const probe::StringId id = table.intern(frames);
  EXPECT_EQ(probe::RecordFile::open(recorder.path()).string(id), "?+0x1234");
}

TEST(StackTable, IsBoundedAndCountsTheRest) {
  probe::Recorder recorder({}, small_options());
  StackTable table(recorder, 10);
  std::vector<probe::StringId> ids;
  for (std::uintptr_t i = 0; i < 30; ++i) {
    const std::uintptr_t frames[] = {0x5000 + i, 0x6000};
    ids.push_back(table.intern(frames));
  }
  EXPECT_EQ(table.size(), 10u);
  EXPECT_EQ(table.dropped(), 20u);
  for (std::uintptr_t i = 0; i < 30; ++i) {
    const std::uintptr_t frames[] = {0x5000 + i, 0x6000};
    EXPECT_EQ(table.intern(frames), ids[i]);
    EXPECT_EQ(ids[i] == probe::StringId{}, i >= 10);
  }
}

TEST(StackTable, AFileWithoutRoomGivesNone) {
  probe::Recorder recorder({}, small_options());
  StackTable table(recorder, 100'000);
  for (std::uintptr_t i = 0; i < 20'000; ++i) {
    const std::uintptr_t frames[] = {0x5000 + i, 0x6000, 0x7000, 0x8000};
    table.intern(frames);
  }
  EXPECT_GT(table.dropped(), 0u);
  const std::uintptr_t last[] = {0x5000 + 19'999, 0x6000, 0x7000, 0x8000};
  EXPECT_EQ(table.intern(last), probe::StringId{});
  EXPECT_EQ(table.text_of({}), "");
}

TEST(StackTable, ARecorderThatIsOffGivesNone) {
  probe::Recorder recorder({}, {.is_on = false});
  StackTable table(recorder);
  EXPECT_EQ(take_stack(table), probe::StringId{});
}

TEST(StackTable, ThreadsAgree) {
  probe::Recorder recorder({}, small_options());
  StackTable table(recorder);
  std::vector<std::vector<probe::StringId>> ids(4);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < ids.size(); ++t) {
    threads.emplace_back([&, t] {
      for (std::uintptr_t i = 0; i < 200; ++i) {
        const std::uintptr_t frames[] = {0x5000 + (i * 7 + t) % 200, 0x6000};
        table.intern(frames);
      }
      for (std::uintptr_t i = 0; i < 200; ++i) {
        const std::uintptr_t frames[] = {0x5000 + i, 0x6000};
        ids[t].push_back(table.intern(frames));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& of_thread : ids) EXPECT_EQ(of_thread, ids[0]);
  EXPECT_EQ(table.size(), 200u);
}

}  // namespace
}  // namespace tessera::memory::detail
