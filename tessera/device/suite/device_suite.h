// The contract of a device as tests, written once; each implementation instantiates them in a file of its own.
//
//   class MySubject : public Subject { ... };
//   INSTANTIATE_TEST_SUITE_P(Mine, DeviceSuite, testing::Values(Implementation{"plain", [] { ... }}),
//   implementation_name);
//
// No case sleeps and none asserts on wall-clock time: a producer is stopped with a hold, the rest is enqueued, and what
// must not have run is looked for before the hold is let go. Every closure put on a stream touches only what the
// fixture owns, and the fixture lets go of all holds and waits for all streams before it goes, also when a case fails
// half-way.
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

/// Everything that must end has ended by then.
inline constexpr std::chrono::nanoseconds kSoon = 5s;
/// Long enough for work that was wrongly let go to show itself; a correct device uses all of it.
inline constexpr std::chrono::nanoseconds kGlimpse = 2ms;
/// A forgotten hold ends by itself.
inline constexpr std::chrono::nanoseconds kHoldLimit = 60s;

/// What a case must know about an implementation.
struct Traits {
  bool has_real_time = true;      ///< time passes by the clock on the wall, not by a scheduler
  bool captures_pageable = true;  ///< a capture may copy from and to plain host memory
  bool has_host_kernels = true;   ///< kernels are host functions
  bool has_stream_faults = true;  ///< streams can be delayed and stalled
  bool zeroes_memory = true;      ///< new memory holds zeros
  bool skips_after_error = true;  ///< work behind a failure is skipped until the error is reset
  bool has_spin_budget = false;   ///< spinning launches that could not all run at once are refused
};

/// An implementation, opened for one case.
class Subject {
 public:
  virtual ~Subject() = default;
  /// The device under test.
  virtual Device device() = 0;
  /// Another device that can share memory with it; empty: there is none.
  virtual Device peer() { return {}; }
  /// A device of this kind that can create at most `nbytes` of memory; empty: none can be made.
  virtual Device limited_device(std::size_t nbytes) {
    (void)nbytes;
    return {};
  }
  /// A device of this kind that checks what launches touch; empty: none can be made.
  virtual Device checked_device() { return {}; }
  /// The stream that the case uses first; the others are made by create_stream.
  virtual Stream first_stream() { return device().create_stream({.name = "first"}); }
  /// One of the suite's kernels: fill_ints, add_ints, copy_ints, slow_add_ints, mark_grid, spin_until, fail.
  virtual Kernel kernel(const std::string& name) = 0;
  /// Puts work on a stream as a foreign library would, behind the back of the clocks.
  virtual void launch_unseen(void* native_stream, std::function<void()> body) = 0;
  /// A stream and an event that the device did not make. They live as long as this object; a second call gives others.
  virtual void* foreign_stream() = 0;
  virtual void* foreign_event() = 0;
  /// Records an event behind the back of the clocks.
  virtual void record_unseen(void* native_event, void* native_stream) = 0;
  /// Runs the bodies on threads of their own and waits for all.
  virtual void run_together(std::vector<std::function<void()>> bodies);
  /// What it can.
  virtual Traits traits() const { return {}; }
};

/// How an implementation is opened. `open` returns null and says why when this machine has none.
struct Implementation {
  std::string name;                                                ///< ends the names of the cases
  std::function<std::unique_ptr<Subject>(std::string& why)> open;  ///< called once a case
};
inline void PrintTo(const Implementation& implementation, std::ostream* out) { *out << implementation.name; }
/// For INSTANTIATE_TEST_SUITE_P.
inline std::string implementation_name(const testing::TestParamInfo<Implementation>& info) { return info.param.name; }

/// Integers in device memory of the fixture.
struct Ints {
  int* data = nullptr;
  int count = 0;
  [[nodiscard]] std::size_t nbytes() const { return static_cast<std::size_t>(count) * sizeof(int); }
};

/// What a child process said at its end.
struct ChildEnd {
  int exit_code = -1;  ///< -1: a signal ended it
  int signal = 0;      ///< 0: it exited
  std::string output;  ///< stdout and stderr
};

/// A device, a stream, and the means to stop, look and let go.
class DeviceSuite : public testing::TestWithParam<Implementation> {
 protected:
  void SetUp() override;
  void TearDown() override;

  /// What can be done.
  [[nodiscard]] Traits traits() const { return subject_->traits(); }
  [[nodiscard]] Subject& subject() const { return *subject_; }

  /// A stream that is let go, waited for and reset at the end of the case.
  Stream make_stream(const std::string& name = "", StreamOptions options = {});
  /// Stops a stream until release() or the end of the case.
  Hold hold(const Stream& stream);
  /// Waits for all work of the stream; fails when it does not end.
  static void finish(const Stream& stream) { stream.synchronize(kSoon); }
  /// Whether the stream still has work to do after it was given a moment.
  [[nodiscard]] static bool is_stuck(const Stream& stream);
  [[nodiscard]] static bool is_stuck(const Event& event);

  /// Zeroed device memory.
  Ints ints(int count, int value = 0);
  /// Zeroed pinned host memory.
  int* pinned_ints(int count);
  /// A pinned word at 0. `let_go` is written at the end of the case, so that no wait outlives it.
  std::uint64_t* word(std::uint64_t let_go = ~std::uint64_t{0} >> 1);
  static std::uint64_t load(const std::uint64_t* word) {
    return std::atomic_ref(*const_cast<std::uint64_t*>(word)).load();
  }
  static void store(std::uint64_t* word, std::uint64_t value) { std::atomic_ref(*word).store(value); }
  /// The content of device memory, read on a stream of its own.
  std::vector<int> read(const Ints& ints);
  static std::vector<int> all(int count, int value) { return std::vector<int>(static_cast<std::size_t>(count), value); }

  /// Launches.
  void fill(const Stream& stream, const Ints& to, int value, std::string_view label = "fill_ints");
  void add(const Stream& stream, const Ints& to, int value, std::string_view label = "add_ints");
  void copy(const Stream& stream, const Ints& to, const Ints& from, std::string_view label = "copy_ints");
  void slow_add(const Stream& stream, const Ints& to, int value, std::chrono::nanoseconds busy);
  void fail_kernel(const Stream& stream);
  /// A host function that throws DeviceError("on purpose: <text>").
  static void fail_host(const Stream& stream, const std::string& text = "boom");
  /// A host function that adds `text` to the journal.
  void note(const Stream& stream, const std::string& text);
  /// The same, behind the back of the clocks.
  void unseen_note(void* native_stream, const std::string& text);
  [[nodiscard]] std::vector<std::string> journal() const;

  /// Runs this case again in a process of its own, with `fd` open there; is_child() is true in it.
  ChildEnd run_child(int fd = -1);
  [[nodiscard]] static bool is_child();
  [[nodiscard]] static int child_fd();
  /// For a case that may lose the device: true in the parent, where the child's end has been checked.
  bool ran_in_child_if_lossy();

  Device device;
  Stream stream;

 private:
  void let_go() noexcept;

  struct Journal {
    std::mutex mutex;
    std::vector<std::string> lines;
  };
  std::unique_ptr<Subject> subject_;
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

/// Demands that `body` is refused as misuse, in a text that holds all of `words`.
template <class F>
void expect_refused(F&& body, std::initializer_list<std::string_view> words = {}) {
  expect_error<InvalidArgument>(std::forward<F>(body), words);
}

}  // namespace tessera::device::suite
