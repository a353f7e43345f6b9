// Memory of the host device beyond the contract of all devices: the memory file and its holes.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tessera/base/cores.h"
#include "tessera/base/error.h"
#include "tessera/device/host/host_device.h"

namespace tessera::device::host {
namespace {

constexpr std::size_t kUnit = std::size_t{64} << 10;
constexpr std::size_t kLargePage = std::size_t{2} << 20;

bool is_zero(const std::byte* at, std::size_t nbytes) {
  return std::all_of(at, at + nbytes, [](std::byte b) { return b == std::byte{0}; });
}

TEST(HostMemory, ReadsAsZeroAlsoWhenItIsUsedAgain) {
  const Device device = make_host_device({.capacity_nbytes = 4 * kUnit});
  AddressRange range = device.reserve(4 * kUnit);
  for (int round = 0; round < 5; ++round) {
    range.map(0, device.create_memory(4 * kUnit));
    EXPECT_TRUE(is_zero(range.data(), 4 * kUnit));
    std::memset(range.data(), 0xAB, 4 * kUnit);
    range.unmap(0, 4 * kUnit);
  }
}

TEST(HostMemory, FillsHolesFirstAndJoinsThem) {
  const Device device = make_host_device({.capacity_nbytes = 64 * kUnit});
  std::vector<Memory> pieces;
  for (int i = 0; i < 8; ++i) pieces.push_back(device.create_memory(kUnit));
  for (const int gone : {2, 4, 3}) pieces[static_cast<std::size_t>(gone)].reset();
  const Memory large = device.create_memory(3 * kUnit);
  EXPECT_EQ(large.export_handle().offset(), 2 * kUnit);
  const Memory next = device.create_memory(kUnit);
  EXPECT_EQ(next.export_handle().offset(), 8 * kUnit);
}

TEST(HostMemory, ExtentsOfLargePagesStartOnOneAndLeaveTheirGapUsable) {
  const Device device = make_host_device();
  const Memory small = device.create_memory(kUnit);
  const Memory large = device.create_memory(2 * kLargePage);
  const Memory next = device.create_memory(kUnit);
  const Memory last = device.create_memory(kLargePage);
  EXPECT_EQ(large.export_handle().offset(), kLargePage);
  EXPECT_EQ(next.export_handle().offset(), kUnit);
  EXPECT_EQ(last.export_handle().offset(), 3 * kLargePage);
}

// Bytes of the mapping at `address` that the processor addresses by large pages.
std::size_t large_page_nbytes(const std::byte* address) {
  std::ostringstream start;
  start << std::hex << reinterpret_cast<std::uintptr_t>(address) << '-';
  std::ifstream maps("/proc/self/smaps");
  std::string line;
  while (std::getline(maps, line) && !line.starts_with(start.str())) {
  }
  while (std::getline(maps, line)) {
    if (line.starts_with("ShmemPmdMapped:")) return std::stoul(line.substr(line.find_first_of("0123456789"))) * 1024;
  }
  return 0;
}

// Returns true if the kernel turns pages of a memory file into a large page.
bool kernel_has_large_pages() {
  const int fd = memfd_create("large-pages", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, kLargePage) != 0) return false;
  void* space = mmap(nullptr, 2 * kLargePage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  auto* page = reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(space) + kLargePage - 1) / kLargePage *
                                            kLargePage);
  bool is_large = false;
  if (mmap(page, kLargePage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED) {
    *page = std::byte{1};
    constexpr int kCollapse = 25;  // MADV_COLLAPSE
    is_large = madvise(page, kLargePage, kCollapse) == 0;
  }
  munmap(space, 2 * kLargePage);
  close(fd);
  return is_large;
}

TEST(HostMemory, LargePagesBackExtentsOfLargePages) {
  if (!kernel_has_large_pages()) GTEST_SKIP() << "this kernel gives no large pages to memory files";
  if (span_nodes(usable_cores())) GTEST_SKIP() << "the cores of this process span NUMA nodes";
  const Device device = make_host_device();
  const Memory small = device.create_memory(kUnit);
  AddressRange range = device.reserve(2 * kLargePage);
  range.map(0, device.create_memory(2 * kLargePage));
  EXPECT_EQ(large_page_nbytes(range.data()), 2 * kLargePage);
  EXPECT_TRUE(is_zero(range.data(), 2 * kLargePage));
}

TEST(HostMemory, CapacityCountsWhatIsCreatedAndTheErrorSaysSo) {
  const Device device = make_host_device({.capacity_nbytes = 4 * kUnit});
  const Memory first = device.create_memory(3 * kUnit);
  EXPECT_EQ(device.memory_use().free_nbytes, kUnit);
  EXPECT_EQ(device.memory_use().total_nbytes, 4 * kUnit);
  EXPECT_EQ(device.memory_use().process_nbytes, 3 * kUnit);
  try {
    (void)device.create_memory(2 * kUnit);
    FAIL() << "3 + 2 granules fit into 4";
  } catch (const OutOfMemory& error) {
    const std::string text = error.what();
    for (const std::size_t number : {2 * kUnit, 3 * kUnit, 4 * kUnit}) {
      EXPECT_NE(text.find(std::to_string(number)), std::string::npos) << text;
    }
  }
  EXPECT_NO_THROW((void)device.create_memory(kUnit));
}

TEST(HostMemory, MappedTwiceIsOneMemory) {
  const Device device = make_host_device();
  const Memory memory = device.create_memory(kUnit);
  AddressRange range = device.reserve(2 * kUnit);
  range.map(0, memory);
  range.map(kUnit, memory);
  range.data()[5] = std::byte{42};
  EXPECT_EQ(range.data()[kUnit + 5], std::byte{42});
}

TEST(HostMemory, ImportOfTheOwnExportNamesTheSameBytes) {
  const Device device = make_host_device();
  const Memory skipped = device.create_memory(kUnit);
  const Memory memory = device.create_memory(2 * kUnit);
  const Device other = make_host_device({.name = "other"});
  const Memory imported = other.import_memory(memory.export_handle());
  AddressRange here = device.reserve(2 * kUnit);
  AddressRange there = other.reserve(2 * kUnit);
  here.map(0, memory);
  there.map(0, imported);
  here.data()[kUnit] = std::byte{7};
  EXPECT_EQ(there.data()[kUnit], std::byte{7});
}

TEST(HostMemory, ImportPastTheEndOfTheFileIsRefused) {
  const Device device = make_host_device();
  const Memory memory = device.create_memory(kUnit);
  const ExportedMemory good = memory.export_handle();
  EXPECT_THROW((void)device.import_memory(ExportedMemory(dup(good.fd()), 0, 2 * kUnit)), InvalidArgument);
  EXPECT_THROW((void)device.import_memory(ExportedMemory(dup(good.fd()), kUnit, kUnit)), InvalidArgument);
  EXPECT_THROW((void)device.import_memory(ExportedMemory(-1, 0, kUnit)), InvalidArgument);
}

TEST(HostMemory, GivesPagesBackToTheMachine) {
  const Device device = make_host_device();
  const Memory other = device.create_memory(kUnit);
  const ExportedMemory file = other.export_handle();  // to inspect the memory file
  const auto pages = [&] {
    struct stat info {};
    fstat(file.fd(), &info);
    return info.st_blocks;
  };
  AddressRange range = device.reserve(16 * kUnit);
  range.map(0, device.create_memory(16 * kUnit));
  std::memset(range.data(), 1, 16 * kUnit);
  EXPECT_GT(pages(), 0);
  range.unmap(0, 16 * kUnit);
  EXPECT_EQ(pages(), 0);
}

TEST(HostMemory, StaysWhileAnExportOfItIsHeldAndGoesThen) {
  const Device device = make_host_device({.capacity_nbytes = 2 * kUnit});
  AddressRange range = device.reserve(2 * kUnit);
  Memory memory = device.create_memory(2 * kUnit);
  range.map(0, memory);
  range.data()[0] = std::byte{9};
  {
    const Device other = make_host_device({.name = "other"});
    AddressRange there = other.reserve(2 * kUnit);
    there.map(0, other.import_memory(memory.export_handle()));
    range.unmap(0, 2 * kUnit);
    memory.reset();
    EXPECT_THROW((void)device.create_memory(kUnit), OutOfMemory);
    EXPECT_EQ(there.data()[0], std::byte{9});
  }
  EXPECT_EQ(device.memory_use().free_nbytes, 2 * kUnit);
  range.map(0, device.create_memory(2 * kUnit));
  EXPECT_TRUE(is_zero(range.data(), 2 * kUnit));
}

TEST(HostMemory, SharedRightsAreTheStrongest) {
  const Device device = make_host_device();
  const Device peer = make_host_device({.name = "peer"});
  ASSERT_TRUE(device.can_share_with(peer));
  AddressRange range = device.reserve(kUnit);
  range.map(0, device.create_memory(kUnit));
  range.share_with(peer, 0, kUnit, Protection::kReadWrite);
  range.protect(0, kUnit, Protection::kNone);
  range.data()[0] = std::byte{1};  // the peer's rights apply to the process
  range.share_with(peer, 0, kUnit, Protection::kRead);
  EXPECT_EQ(range.data()[0], std::byte{1});
}

TEST(HostMemory, ReservesAtTheAlignmentAskedFor) {
  const Device device = make_host_device();
  const AddressRange range = device.reserve(kUnit, std::size_t{1} << 24);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(range.data()) % (std::size_t{1} << 24), 0u);
}

TEST(HostMemoryDeathTest, UntouchableWhereNothingIsMappedOrProtected) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // by exec: a forked child has none of the memory
  const Device device = make_host_device();
  AddressRange range = device.reserve(2 * kUnit);
  auto touch = [](std::byte* at) { *static_cast<volatile std::byte*>(at) = std::byte{1}; };
  EXPECT_DEATH(touch(range.data()), "");
  range.map(0, device.create_memory(kUnit));
  touch(range.data());
  range.protect(0, kUnit, Protection::kRead);
  EXPECT_DEATH(touch(range.data()), "");
  range.unmap(0, kUnit);
  EXPECT_DEATH(touch(range.data()), "");
}

TEST(HostKernel, GetsItsArgumentsAlignedAndCopied) {
  struct alignas(32) Wide {
    double values[4];
  };
  const Device device = make_host_device();
  const Kernel kernel = device.host_kernel("sum", [](const LaunchConfig& config, void* const* args) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(args[1]) % alignof(Wide), 0u);
    const auto tag = *static_cast<char*>(args[0]);
    const auto& wide = *static_cast<const Wide*>(args[1]);
    **static_cast<double**>(args[2]) = tag + wide.values[3] + config.grid[0];
  });
  double result = 0;
  const Hold hold = device.default_stream().hold(std::chrono::hours(1));
  {
    char tag = 1;
    Wide wide{{0, 0, 0, 10}};
    double* target = &result;
    device.default_stream().launch(kernel, {.grid = {100, 1, 1}}, KernelArgs(tag, wide, target));
    tag = 50;
    wide.values[3] = 0;
  }
  hold.release();
  device.default_stream().synchronize();
  EXPECT_EQ(result, 111);
}

TEST(HostKernel, ImagesAreRefusedWithAWordOnWhatToDo) {
  const Device device = make_host_device();
  const std::byte image[4] = {};
  try {
    (void)device.load_module(image);
    FAIL();
  } catch (const NotSupported& error) {
    EXPECT_NE(std::string(error.what()).find("host_kernel"), std::string::npos);
  }
}

TEST(MemoryFileView, FindsWhatIsMappedInARow) {
  const Device device = make_host_device();
  const MemoryFileView file(device);
  const Memory skipped = device.create_memory(kUnit);
  const Memory first = device.create_memory(kUnit);
  const Memory second = device.create_memory(2 * kUnit);
  AddressRange range = device.reserve(8 * kUnit);
  range.map(0, first);
  range.map(kUnit, second);
  range.map(3 * kUnit, skipped);
  range.map(5 * kUnit, device.create_memory(kUnit));
  EXPECT_EQ(file.find(range.data(), kUnit), kUnit);
  EXPECT_EQ(file.find(range.data() + 100, 3 * kUnit - 100), kUnit + 100) << "over two mappings";
  EXPECT_EQ(file.find(range.data() + 2 * kUnit, kUnit), 3 * kUnit);
  EXPECT_EQ(file.find(range.data() + 3 * kUnit, kUnit), 0U);
  EXPECT_EQ(file.find(range.data(), 3 * kUnit + 1), std::nullopt) << "what follows is elsewhere in the file";
  EXPECT_EQ(file.find(range.data() + 3 * kUnit, kUnit + 1), std::nullopt) << "nothing is mapped after it";
  EXPECT_EQ(file.find(range.data() + 4 * kUnit, 1), std::nullopt);
  EXPECT_EQ(file.find(range.data() + 5 * kUnit, kUnit + 1), std::nullopt) << "the last mapping ends";
  EXPECT_EQ(file.find(range.data() - 1, 1), std::nullopt);
  EXPECT_EQ(file.find(range.data(), 0), std::nullopt);
  range.unmap(0, kUnit);
  EXPECT_EQ(file.find(range.data(), kUnit), std::nullopt);
}

TEST(MemoryFileView, KnowsItsOwnMemoryAlone) {
  const Device device = make_host_device();
  const Device other = make_host_device({.name = "other"});
  const Memory memory = other.create_memory(kUnit);
  AddressRange there = other.reserve(kUnit);
  there.map(0, memory);
  AddressRange here = device.reserve(kUnit);
  here.map(0, device.import_memory(memory.export_handle()));
  EXPECT_EQ(MemoryFileView(other).find(there.data(), kUnit), 0U);
  EXPECT_EQ(MemoryFileView(device).find(there.data(), kUnit), std::nullopt);
  EXPECT_EQ(MemoryFileView(device).find(here.data(), kUnit), std::nullopt) << "imported";
  const int local = 0;
  EXPECT_EQ(MemoryFileView(device).find(&local, sizeof local), std::nullopt);
}

TEST(MemoryFileView, EpochMovesWithEveryMapAndUnmap) {
  const Device device = make_host_device();
  const MemoryFileView file(device);
  AddressRange range = device.reserve(kUnit);
  const std::uint64_t start = file.epoch();
  range.map(0, device.create_memory(kUnit));
  const std::uint64_t mapped = file.epoch();
  EXPECT_NE(mapped, start);
  EXPECT_EQ(file.epoch(), mapped);
  range.unmap(0, kUnit);
  EXPECT_NE(file.epoch(), mapped);
}

TEST(MemoryFileView, DescriptorShowsTheSameBytes) {
  const Device device = make_host_device();
  const MemoryFileView file(device);
  AddressRange range = device.reserve(kUnit);
  range.map(0, device.create_memory(kUnit));
  range.data()[9] = std::byte{77};
  std::byte seen{};
  ASSERT_EQ(::pread(file.descriptor(), &seen, 1, static_cast<off_t>(*file.find(range.data() + 9, 1))), 1);
  EXPECT_EQ(seen, std::byte{77});
}

}  // namespace
}  // namespace tessera::device::host
