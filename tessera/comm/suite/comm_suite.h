// The contract of groups as tests. Each backend instantiates them in a separate file.
//
//   INSTANTIATE_TEST_SUITE_P(Shm, CommSuite, testing::Values(Implementation{...}), implementation_name);
//
// A case runs a body on every rank, which is a thread or a process. The body contains the checks, and communicates with
// other ranks only through the store. No case sleeps or asserts on wall-clock time.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/communicator.h"
#include "tessera/comm/process_group.h"
#include "tessera/comm/store/store.h"
#include "tessera/comm/world.h"
#include "tessera/device/device.h"
#include "tessera/memory/buffer.h"

namespace tessera::comm::suite {

using namespace std::chrono_literals;

/// Time limit for events that must happen.
inline constexpr std::chrono::nanoseconds kSoon = 20s;

/// A backend under test.
struct CommImplementation {
  std::string name;     ///< suffix of the names of the cases
  std::string backend;  ///< backend of the groups
  bool is_seeded = false;
  std::string device = "host";  ///< device of the streams
  bool has_messages = true;     ///< supports send and recv
  /// Runs the body on this many ranks and returns when all have ended. A rank whose body throws Death ends immediately,
  /// as if killed; any other error fails the case.
  std::function<void(int ranks, const std::function<void()>& body)> run;
};
inline void PrintTo(const CommImplementation& implementation, std::ostream* out) { *out << implementation.name; }
/// Name generator for INSTANTIATE_TEST_SUITE_P.
inline std::string implementation_name(const testing::TestParamInfo<CommImplementation>& info) {
  return info.param.name;
}

/// Thrown by a rank to die.
struct Death {};

/// Thrown by a rank if its backend lacks a feature that the case needs.
struct Lacking {
  std::string what;
};

/// Location of a buffer: memory of the device, which peers may access, or the heap. On a device whose memory the host
/// cannot read, both are host memory that the device can access.
enum class Where : std::uint8_t { kDevice, kHeap };

/// One rank of a case.
class CaseRank {
 public:
  /// Joins the world, or a group of all its ranks if the implementation uses another kind of device.
  explicit CaseRank(const CommImplementation& implementation);
  [[nodiscard]] int rank() const { return group.rank(); }
  [[nodiscard]] int size() const { return group.size(); }
  /// Returns a location that differs between ranks.
  [[nodiscard]] Where mixed() const { return rank() % 2 == 0 ? Where::kDevice : Where::kHeap; }
  /// Returns the features of the backend.
  [[nodiscard]] const Capabilities& can() const;
  /// Ends this rank immediately.
  [[noreturn]] static void die() { throw Death{}; }
  /// Sets a flag for the other ranks, once.
  static void say(const std::string& what) { store()->set("said " + what, ""); }
  /// Waits until a rank has set the flag.
  static void hear(const std::string& what) { (void)store()->get("said " + what, kSoon); }

  ProcessGroup group;
  device::Device host;  ///< device of the streams
  device::Stream stream;
};

/// Bytes to send or receive, initially 0xCD.
class Room {
 public:
  Room(const CaseRank& member, Where where, std::size_t nbytes);
  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t nbytes() const { return nbytes_; }
  [[nodiscard]] std::vector<std::byte> bytes() const { return {data_, data_ + nbytes_}; }

 private:
  memory::Buffer buffer_;
  std::unique_ptr<std::byte[]> heap_;
  std::byte* data_ = nullptr;
  std::size_t nbytes_ = 0;
};

/// 64-bit integers that the device reads.
class Longs {
 public:
  Longs(const CaseRank& member, std::initializer_list<std::int64_t> values);
  [[nodiscard]] std::int64_t* data() const { return reinterpret_cast<std::int64_t*>(room_.data()); }

 private:
  Room room_;
};

/// 32-bit integers to send or receive. The value of element i of rank r identifies its origin.
class Ints {
 public:
  /// Creates `count` elements, all -1.
  Ints(const CaseRank& member, Where where, std::int64_t count);
  /// Fills them with the values that rank `rank` sends.
  Ints& number(int rank);
  static std::int32_t value(int rank, std::int64_t index) {
    return static_cast<std::int32_t>(rank * 100'000'000 + index);
  }
  [[nodiscard]] std::int32_t* data() const { return reinterpret_cast<std::int32_t*>(room_.data()); }
  [[nodiscard]] std::byte* bytes() const { return room_.data(); }
  [[nodiscard]] std::int64_t count() const { return count_; }
  /// Fails unless [first, first + count) contains elements [from, ...) of rank `rank`.
  void expect_from(int rank, std::int64_t from, std::int64_t first, std::int64_t count) const;
  /// Fails unless [first, first + count) is unchanged.
  void expect_untouched(std::int64_t first, std::int64_t count) const;

 private:
  Room room_;
  std::int64_t count_;
};

/// Groups created while this object lives are checked (TESSERA_COMM_CHECK).
class Checked {
 public:
  Checked() { ::setenv("TESSERA_COMM_CHECK", "1", 1); }
  ~Checked() {
    if (before_.empty()) {
      ::unsetenv("TESSERA_COMM_CHECK");
    } else {
      ::setenv("TESSERA_COMM_CHECK", before_.c_str(), 1);
    }
  }
  Checked(const Checked&) = delete;
  Checked& operator=(const Checked&) = delete;

 private:
  static std::string value() {
    const char* set = std::getenv("TESSERA_COMM_CHECK");
    return set == nullptr ? "" : set;
  }
  std::string before_ = value();
};

/// Writes the input of `rank` for a reduction: varied values that expose order and rounding.
void fill_random(DType dtype, int rank, std::int64_t count, std::byte* to);
/// Returns the reference result of the reduction over `ranks` ranks.
std::vector<std::byte> folded(DType dtype, const ReduceOp& reduction, int ranks, std::int64_t count);

/// Runs bodies on ranks.
class CommSuite : public testing::TestWithParam<CommImplementation> {
 protected:
  /// Runs the body on every rank of a world of `ranks`.
  void on_ranks(int ranks, const std::function<void(CaseRank&)>& body) { on_ranks(ranks, nullptr, body); }
  /// Same, if the backend has the feature `needs`; otherwise the ranks throw Lacking.
  void on_ranks(int ranks, bool Capabilities::*needs, const std::function<void(CaseRank&)>& body);
  [[nodiscard]] bool is_seeded() const { return GetParam().is_seeded; }
  [[nodiscard]] bool has_messages() const { return GetParam().has_messages; }
};

/// The contract of symmetric memory, for backends that support it in memory of the host device.
class SymmetricSuite : public CommSuite {};

/// Expects the stream to have failed with an error of this type whose message contains all of `words`, and resets the
/// stream.
template <class E>
void expect_stream_error(const device::Stream& stream, std::initializer_list<std::string_view> words) {
  expect_error<E>([&] { stream.synchronize(); }, words);
  stream.reset_error();
}

}  // namespace tessera::comm::suite
