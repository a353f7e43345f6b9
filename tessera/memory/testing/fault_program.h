// A fixed program that covers all driver interactions of an allocator: growth, moves, reuse after waits, pools,
// captures, replays, estimates, layouts, pinned memory, trims. With each call made to fail in turn, it must succeed or
// throw a tessera::Error, and leave a consistent allocator.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "tessera/device/device.h"
#include "tessera/memory/allocator.h"

namespace tessera::memory::testing {

/// Environment of the program.
struct FaultGround {
  device::Device device;
  Allocator memory;
  Allocator pinned;
};

/// Runs the program. All its objects are destroyed when it returns or throws.
void run_fault_program(const FaultGround& ground);

/// Creates a new environment on a seeded host device, where the same calls come in the same order each time, calls
/// `arm`, runs the program, calls `disarm` and checks the final state. `wrap` may decorate the upstream. Returns the
/// failure; empty if none.
std::string check_fault(const Policy& policy, const std::function<void(const FaultGround&)>& arm,
                        const std::function<void(const FaultGround&)>& disarm,
                        const std::function<std::shared_ptr<Upstream>(std::shared_ptr<Upstream>)>& wrap = {});

/// Fails every call of every kind in turn, with both kinds of error, or every n-th of those. Returns the failure, and
/// adds the number of faults to `count`.
std::string sweep_driver_faults(const Policy& policy, std::uint64_t every, std::uint64_t& count);
/// Fails the calls of the upstream in the same way.
std::string sweep_upstream_faults(const Policy& policy, std::uint64_t every, std::uint64_t& count);

}  // namespace tessera::memory::testing
