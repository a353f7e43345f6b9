// A fixed program that goes through all an allocator does with a driver: growth, moves, reuse behind waits, pools,
// captures, replays, estimates, layouts, pinned memory, trims. Run with one call made to fail, each in turn, it must
// end well or with a tessera::Error, and leave an allocator that is whole.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "tessera/device/device.h"
#include "tessera/memory/allocator.h"

namespace tessera::memory::testing {

/// Where the program runs.
struct FaultGround {
  device::Device device;
  Allocator memory;
  Allocator pinned;
};

/// The program. Everything it makes is gone when it returns or throws.
void run_fault_program(const FaultGround& ground);

/// Makes new ground on a seeded host device, where the same calls come in the same order each time, calls `arm`, runs
/// the program, calls `disarm` and looks at what is left. `wrap` may put something around the upstream. Returns what
/// is wrong; empty: nothing.
std::string check_fault(const Policy& policy, const std::function<void(const FaultGround&)>& arm,
                        const std::function<void(const FaultGround&)>& disarm,
                        const std::function<std::shared_ptr<Upstream>(std::shared_ptr<Upstream>)>& wrap = {});

/// Fails every call of every kind in turn, by both kinds of error, or every n-th of those. Returns what is wrong, and
/// adds the number of faults to `count`.
std::string sweep_driver_faults(const Policy& policy, std::uint64_t every, std::uint64_t& count);
/// The same for the calls of the upstream.
std::string sweep_upstream_faults(const Policy& policy, std::uint64_t every, std::uint64_t& count);

}  // namespace tessera::memory::testing
