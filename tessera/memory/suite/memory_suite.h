// Conformance tests of the allocator for every device: the host in its modes, and CUDA. A test case requests streams
// and an allocator and never sleeps. It holds a stream if work must not have run yet.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/device/device.h"
#include "tessera/memory/allocator.h"

namespace tessera::memory::suite {

inline constexpr std::size_t kKiB = 1024;
inline constexpr std::size_t kMiB = 1024 * kKiB;

/// Device for one test case.
class MemorySubject {
 public:
  virtual ~MemorySubject() = default;
  /// Returns the device under test.
  virtual Device device() = 0;
  /// Returns a device with `nbytes` of memory, or an empty one if the device cannot be limited.
  virtual Device limited(std::size_t nbytes) = 0;
  /// Returns a checked device, or an empty one if none exists.
  virtual Device checked() = 0;
  /// Runs the bodies on separate threads and waits for all.
  virtual void run_together(std::vector<std::function<void()>> bodies);
};

/// Opens a device. `open` returns null and sets `why` if this machine has none.
struct MemoryImplementation {
  std::string name;
  std::function<std::unique_ptr<MemorySubject>(std::string& why)> open;
};
inline void PrintTo(const MemoryImplementation& implementation, std::ostream* out) { *out << implementation.name; }
/// Names the instances for INSTANTIATE_TEST_SUITE_P.
inline std::string implementation_name(const testing::TestParamInfo<MemoryImplementation>& info) {
  return info.param.name;
}

/// Fixture with a device, a separate allocator and two streams.
class MemorySuite : public testing::TestWithParam<MemoryImplementation> {
 protected:
  void SetUp() override;
  void TearDown() override;

  /// Replaces the allocator by one with this policy, on `on` or by default on the device of the case.
  void use_policy(const Policy& policy, const Device& on = {});
  /// Replaces the device by one of `nbytes`, or skips the case and returns false.
  bool use_limited(std::size_t nbytes, const Policy& policy = {});

  /// Stops a stream until the end of the case, or until the hold is released.
  device::Hold hold(const Stream& stream);
  /// Makes `waiter` wait for all work enqueued on `stream` so far.
  void join(const Stream& waiter, const Stream& stream) const;
  /// Fills a buffer with a byte, on a stream.
  static void fill(const Stream& stream, const Buffer& buffer, std::uint8_t value);
  /// Returns the bytes of a buffer after all streams are done.
  [[nodiscard]] std::vector<std::uint8_t> read(const Buffer& buffer) const;
  /// Succeeds if all bytes of a buffer are `value` after all streams are done.
  [[nodiscard]] testing::AssertionResult holds(const Buffer& buffer, std::uint8_t value) const;
  /// Succeeds if the identity of snapshot.h holds over all blocks and agrees with the counters.
  [[nodiscard]] testing::AssertionResult closes() const;
  /// Returns the bytes reserved now.
  [[nodiscard]] std::size_t reserved() const { return allocator.statistics().now.reserved_nbytes; }

  std::unique_ptr<MemorySubject> subject;
  Device device;
  Allocator allocator;
  Stream stream;
  Stream other;

 private:
  std::vector<device::Hold> holds_;
};

}  // namespace tessera::memory::suite
