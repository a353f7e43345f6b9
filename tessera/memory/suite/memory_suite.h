// What an allocator promises, as tests that every device runs: the host in its modes, and CUDA. A case asks for streams
// and an allocator and never sleeps; where work must not have run yet a stream is held.
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

/// A device opened for one case.
class Subject {
 public:
  virtual ~Subject() = default;
  /// The device under test.
  virtual Device device() = 0;
  /// A device with this much memory; an empty one where the device cannot be limited.
  virtual Device limited(std::size_t nbytes) = 0;
  /// A device that checks launches; an empty one where there is none.
  virtual Device checked() = 0;
  /// Runs the bodies on threads of their own and waits for all.
  virtual void run_together(std::vector<std::function<void()>> bodies);
};

/// How a device is opened; null: this machine has none, and `why`.
struct Implementation {
  std::string name;
  std::function<std::unique_ptr<Subject>(std::string& why)> open;
};
inline void PrintTo(const Implementation& implementation, std::ostream* out) { *out << implementation.name; }
/// For INSTANTIATE_TEST_SUITE_P.
inline std::string implementation_name(const testing::TestParamInfo<Implementation>& info) { return info.param.name; }

/// A device, an allocator of its own, and two streams.
class MemorySuite : public testing::TestWithParam<Implementation> {
 protected:
  void SetUp() override;
  void TearDown() override;

  /// A new allocator with this policy in place of the one before; `on` empty: the case's device.
  void use_policy(const Policy& policy, const Device& on = {});
  /// A case for limited devices: makes the device one of `nbytes`, or skips.
  bool use_limited(std::size_t nbytes, const Policy& policy = {});

  /// Stops a stream until the end of the case, or until the hold is released.
  device::Hold hold(const Stream& stream);
  /// Makes `waiter` wait for all that `stream` has done so far.
  void join(const Stream& waiter, const Stream& stream) const;
  /// Fills a buffer with a byte, on a stream.
  static void fill(const Stream& stream, const Buffer& buffer, std::uint8_t value);
  /// The bytes of a buffer, read after all streams are done.
  [[nodiscard]] std::vector<std::uint8_t> read(const Buffer& buffer) const;
  /// Whether all bytes of a buffer are `value`, after all streams are done.
  [[nodiscard]] testing::AssertionResult holds(const Buffer& buffer, std::uint8_t value) const;
  /// Whether the identity closes, by walking blocks, and agrees with the counters.
  [[nodiscard]] testing::AssertionResult closes() const;
  /// Bytes reserved now.
  [[nodiscard]] std::size_t reserved() const { return allocator.statistics().now.reserved_nbytes; }

  std::unique_ptr<Subject> subject;
  Device device;
  Allocator allocator;
  Stream stream;
  Stream other;

 private:
  std::vector<device::Hold> holds_;
};

}  // namespace tessera::memory::suite
