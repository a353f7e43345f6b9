// The contract of a device as tests. Each implementation instantiates them in a separate file.
//
//   class MySubject : public Subject { ... };
//   INSTANTIATE_TEST_SUITE_P(Mine, DeviceSuite, testing::Values(Implementation{"plain", [] { ... }}),
//                            implementation_name);
//
// No case sleeps or asserts on wall-clock time. A case stops a producer with a hold, enqueues the other work, and
// checks that nothing ran too early before it releases the hold. Closures on streams access only data that the fixture
// owns. The fixture releases all holds and waits for all streams before it is destroyed, even if a case fails.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/testing/expect_error.h"
#include "tessera/device/device.h"

namespace tessera::device::suite {

using namespace std::chrono_literals;

/// Time limit for work that must end.
inline constexpr std::chrono::nanoseconds kSoon = 5s;
/// Time in which work that was released wrongly becomes visible. A correct device uses all of it.
inline constexpr std::chrono::nanoseconds kGlimpse = 2ms;
/// Limit after which a forgotten hold ends.
inline constexpr std::chrono::nanoseconds kHoldLimit = 60s;

/// Properties of an implementation that the cases depend on.
struct Traits {
  bool has_real_time = true;      ///< time is wall-clock time, not the virtual time of a scheduler
  bool captures_pageable = true;  ///< a capture may copy from and to pageable host memory
  bool has_host_kernels = true;   ///< kernels are host functions
  bool has_stream_faults = true;  ///< streams can be delayed and stalled
  bool zeroes_memory = true;      ///< new memory is zeroed
  bool skips_after_error = true;  ///< work after a failure is skipped until the error is reset
  bool has_spin_budget = false;   ///< spinning launches that could not all run at once are rejected
};

/// An implementation, opened for one case.
class DeviceSubject {
 public:
  virtual ~DeviceSubject() = default;
  /// The device under test.
  virtual Device device() = 0;
  /// Returns another device that can share memory with it, or an empty handle.
  virtual Device peer() { return {}; }
  /// Returns a device of this kind that can create at most `nbytes` of memory, or an empty handle.
  virtual Device limited_device(std::size_t nbytes) {
    (void)nbytes;
    return {};
  }
  /// Returns a checked device of this kind, or an empty handle.
  virtual Device checked_device() { return {}; }
  /// Returns the first stream of the case; create_stream creates the others.
  virtual Stream first_stream() { return device().create_stream({.name = "first"}); }
  /// Returns one of the suite's kernels: fill_ints, add_ints, copy_ints, slow_add_ints, mark_grid, spin_until, fail.
  virtual Kernel kernel(const std::string& name) = 0;
  /// Enqueues work on a stream as a foreign library would, without updating the clocks.
  virtual void launch_unseen(void* native_stream, std::function<void()> body) = 0;
  /// Returns a stream or an event that the device did not create. They live as long as this object; each call returns a
  /// new one.
  virtual void* foreign_stream() = 0;
  virtual void* foreign_event() = 0;
  /// Records an event without updating the clocks.
  virtual void record_unseen(void* native_event, void* native_stream) = 0;
  /// Runs the bodies on separate threads and waits for all.
  virtual void run_together(std::vector<std::function<void()>> bodies);
  /// Returns the properties of the implementation.
  virtual Traits traits() const { return {}; }
};

/// Opens an implementation. `open` returns null and sets `why` if this machine does not support it.
struct DeviceImplementation {
  std::string name;                                                      ///< suffix of the names of the cases
  std::function<std::unique_ptr<DeviceSubject>(std::string& why)> open;  ///< called once per case
};
inline void PrintTo(const DeviceImplementation& implementation, std::ostream* out) { *out << implementation.name; }
/// Name generator for INSTANTIATE_TEST_SUITE_P.
inline std::string implementation_name(const testing::TestParamInfo<DeviceImplementation>& info) {
  return info.param.name;
}

/// Integers in device memory of the fixture.
struct DeviceInts {
  int* data = nullptr;
  int count = 0;
  [[nodiscard]] std::size_t nbytes() const { return static_cast<std::size_t>(count) * sizeof(int); }
};

/// The result of a child process.
struct ChildEnd {
  int exit_code = -1;  ///< -1 if a signal ended it
  int signal = 0;      ///< 0 if it exited
  std::string output;  ///< stdout and stderr
};

/// A fixture with a device, a stream, and means to stop streams and inspect their effects.
class DeviceSuite : public testing::TestWithParam<DeviceImplementation> {
 protected:
  void SetUp() override;
  void TearDown() override;

  [[nodiscard]] Traits traits() const { return subject_->traits(); }
  [[nodiscard]] DeviceSubject& subject() const { return *subject_; }

  /// Creates a stream that the fixture releases, waits for and resets at the end of the case.
  Stream make_stream(const std::string& name = "", StreamOptions options = {});
  /// Stops a stream until release() or the end of the case.
  Hold hold(const Stream& stream);
  /// Waits for all work of the stream. Fails if it does not end.
  static void finish(const Stream& stream) { stream.synchronize(kSoon); }
  /// Returns true if the stream or event has pending work after kGlimpse.
  [[nodiscard]] static bool is_stuck(const Stream& stream);
  [[nodiscard]] static bool is_stuck(const Event& event);

  /// Returns device memory filled with `value`.
  DeviceInts ints(int count, int value = 0);
  /// Returns zeroed pinned host memory.
  int* pinned_ints(int count);
  /// Returns a pinned word with value 0. The fixture writes `let_go` to it at the end of the case, so that no wait
  /// outlives it.
  std::uint64_t* word(std::uint64_t let_go = ~std::uint64_t{0} >> 1);
  static std::uint64_t load(const std::uint64_t* word) {
    return std::atomic_ref(*const_cast<std::uint64_t*>(word)).load();
  }
  static void store(std::uint64_t* word, std::uint64_t value) { std::atomic_ref(*word).store(value); }
  /// Returns the content of device memory, read on a separate stream.
  std::vector<int> read(const DeviceInts& ints);
  static std::vector<int> all(int count, int value) { return std::vector<int>(static_cast<std::size_t>(count), value); }

  /// Launches of the suite's kernels.
  void fill(const Stream& stream, const DeviceInts& to, int value, std::string_view label = "fill_ints");
  void add(const Stream& stream, const DeviceInts& to, int value, std::string_view label = "add_ints");
  void copy(const Stream& stream, const DeviceInts& to, const DeviceInts& from, std::string_view label = "copy_ints");
  void slow_add(const Stream& stream, const DeviceInts& to, int value, std::chrono::nanoseconds busy);
  void fail_kernel(const Stream& stream);
  /// Enqueues a host function that throws DeviceError("on purpose: <text>").
  static void fail_host(const Stream& stream, const std::string& text = "boom");
  /// Enqueues a host function that appends `text` to the journal.
  void note(const Stream& stream, const std::string& text);
  /// Same as note(), without updating the clocks.
  void unseen_note(void* native_stream, const std::string& text);
  [[nodiscard]] std::vector<std::string> journal() const;

  /// Runs this case again in a child process that inherits `fd`; is_child() is true there.
  ChildEnd run_child(int fd = -1);
  [[nodiscard]] static bool is_child();
  [[nodiscard]] static int child_fd();
  /// For a case that may lose the device: returns true in the parent, after checking the result of the child.
  bool ran_in_child_if_lossy();

  Device device;
  Stream stream;

 private:
  void let_go() noexcept;

  struct Journal {
    std::mutex mutex;
    std::vector<std::string> lines;
  };
  std::unique_ptr<DeviceSubject> subject_;
  std::shared_ptr<Journal> journal_ = std::make_shared<Journal>();
  AddressRange range_;
  PinnedMemory pinned_;
  std::size_t range_used_ = 0;
  std::size_t pinned_used_ = 0;
  Stream reader_;
  std::vector<Stream> streams_;
  std::vector<Hold> holds_;
  std::vector<std::pair<std::uint64_t*, std::uint64_t>> words_;
};

/// Expects `body` to throw InvalidArgument with a message that contains all of `words`.
template <class F>
void expect_refused(F&& body, std::initializer_list<std::string_view> words = {}) {
  expect_error<InvalidArgument>(std::forward<F>(body), words);
}

}  // namespace tessera::device::suite
