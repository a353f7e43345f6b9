// Arguments of host kernels: in place or in a separate block, they arrive unchanged from the launch.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <utility>

#include "tessera/device/host/detail/work.h"
#include "tessera/device/host_function.h"

namespace tessera::device::host::detail {
namespace {

template <class T>
T argument(void* const* args, int index) {
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(args[index]) % alignof(T), 0U);
  return *static_cast<T*>(args[index]);
}

std::uint64_t sum;

// Calls it after it was moved into a function and out of it, twice.
void call_moved(HostKernelCall call) {
  HostFunction first(std::move(call));
  HostFunction second(std::move(first));
  second();
  second();
}

TEST(HostKernelCall, NoArgumentsAreNoArguments) {
  sum = 0;
  call_moved(
      {[](const LaunchConfig& config, void* const*) { sum += config.grid[0]; }, {.grid = {3, 1, 1}}, KernelArgs()});
  EXPECT_EQ(sum, 6U);
}

TEST(HostKernelCall, FewSmallArgumentsKeepTheirPlaces) {
  sum = 0;
  int target = 5;
  {
    int* pointer = &target;
    std::uint8_t byte = 200;
    double scale = 2;
    call_moved({[](const LaunchConfig&, void* const* args) {
                  *argument<int*>(args, 0) += 1;
                  sum += argument<std::uint8_t>(args, 1) * static_cast<std::uint64_t>(argument<double>(args, 2));
                },
                {},
                KernelArgs(pointer, byte, scale)});
  }
  EXPECT_EQ(target, 7);
  EXPECT_EQ(sum, 800U);
}

TEST(HostKernelCall, ManyArgumentsAreCopiedToo) {
  sum = 0;
  const std::uint8_t a[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  call_moved({[](const LaunchConfig&, void* const* args) {
                for (int i = 0; i < 9; ++i) sum += argument<std::uint8_t>(args, i);
              },
              {},
              KernelArgs(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8])});
  EXPECT_EQ(sum, 90U);
}

TEST(HostKernelCall, LargeAndAlignedArgumentsAreCopiedToo) {
  struct alignas(64) Aligned {
    std::uint64_t values[8];
  };
  struct Pair {
    std::uint64_t one, two;
  };
  sum = 0;
  const Aligned aligned{{1, 2, 3, 4, 5, 6, 7, 8}};
  const Pair pair{10, 20};
  const std::array<std::uint8_t, 31> odd{7};
  call_moved({[](const LaunchConfig&, void* const* args) {
                sum += argument<Aligned>(args, 2).values[7] + argument<Pair>(args, 0).two +
                       argument<std::array<std::uint8_t, 31>>(args, 1)[0];
              },
              {},
              KernelArgs(pair, odd, aligned)});
  EXPECT_EQ(sum, 70U);
}

TEST(HostKernelCall, SixteenByteArgumentsLieAtTheirAlignment) {
  struct alignas(16) Wide {
    std::uint64_t low, high;
  };
  sum = 0;
  const std::uint8_t first = 1;
  const Wide wide{2, 3};
  call_moved({[](const LaunchConfig&, void* const* args) {
                sum += argument<std::uint8_t>(args, 0) + argument<Wide>(args, 1).low + argument<Wide>(args, 1).high;
              },
              {},
              KernelArgs(first, wide)});
  EXPECT_EQ(sum, 12U);
}

}  // namespace
}  // namespace tessera::device::host::detail
