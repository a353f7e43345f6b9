// What groups promise as tests, written once; each transport instantiates them in a file of its own.
//
//   INSTANTIATE_TEST_SUITE_P(Shm, CommSuite, testing::Values(Implementation{...}), implementation_name);
//
// A case runs a body on every rank, each a thread or a process: it checks there what it has to check, and tells other
// ranks something only through the store. No case sleeps and none asserts on wall-clock time.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
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

/// Everything that must happen has happened by then.
inline constexpr std::chrono::nanoseconds kSoon = 20s;

/// A transport under test.
struct Implementation {
  std::string name;     ///< ends the names of the cases
  std::string backend;  ///< that groups must run on
  bool is_seeded = false;
  std::string device = "host";  ///< whose streams operations go to
  bool has_messages = true;     ///< sends and receives
  /// Runs the body on this many ranks and returns when all have ended. A rank whose body throws Death ends at once, as
  /// if killed; any other error fails the case.
  std::function<void(int ranks, const std::function<void()>& body)> run;
};
inline void PrintTo(const Implementation& implementation, std::ostream* out) { *out << implementation.name; }
/// For INSTANTIATE_TEST_SUITE_P.
inline std::string implementation_name(const testing::TestParamInfo<Implementation>& info) { return info.param.name; }

/// Thrown by a rank that is to die.
struct Death {};

/// Thrown by a rank whose transport declares that it cannot do what the case needs.
struct Lacking {
  std::string what;
};

/// Where a buffer is: in the device's own memory, which peers may reach, or on the heap. On a device whose memory the
/// host does not read both are host memory that the device reads in place.
enum class Where : std::uint8_t { kDevice, kHeap };

/// One rank's side of a case.
class Member {
 public:
  /// Of the world, or of all its ranks on the transport's own kind of device.
  explicit Member(const Implementation& implementation);
  [[nodiscard]] int rank() const { return group.rank(); }
  [[nodiscard]] int size() const { return group.size(); }
  /// Where this rank's buffers are when ranks differ in it.
  [[nodiscard]] Where mixed() const { return rank() % 2 == 0 ? Where::kDevice : Where::kHeap; }
  /// What its transport declares.
  [[nodiscard]] const Capabilities& can() const;
  /// Ends this rank at once.
  [[noreturn]] static void die() { throw Death{}; }
  /// Tells the others something, once.
  static void say(const std::string& what) { store()->set("said " + what, ""); }
  /// Returns once one of them has said it.
  static void hear(const std::string& what) { (void)store()->get("said " + what, kSoon); }

  ProcessGroup group;
  device::Device host;  ///< whose streams operations go to
  device::Stream stream;
};

/// Bytes to give or take. Filled with 0xCD at first.
class Room {
 public:
  Room(const Member& member, Where where, std::size_t nbytes);
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
  Longs(const Member& member, std::initializer_list<std::int64_t> values);
  [[nodiscard]] std::int64_t* data() const { return reinterpret_cast<std::int64_t*>(room_.data()); }

 private:
  Room room_;
};

/// 32-bit integers to give or take: what element i of rank r holds says where it came from.
class Ints {
 public:
  /// `count` of them, all -1.
  Ints(const Member& member, Where where, std::int64_t count);
  /// As rank `rank` gives them.
  Ints& number(int rank);
  static std::int32_t value(int rank, std::int64_t index) {
    return static_cast<std::int32_t>(rank * 100'000'000 + index);
  }
  [[nodiscard]] std::int32_t* data() const { return reinterpret_cast<std::int32_t*>(room_.data()); }
  [[nodiscard]] std::byte* bytes() const { return room_.data(); }
  [[nodiscard]] std::int64_t count() const { return count_; }
  /// Fails unless [first, first + count) are elements [from, ...) of what `rank` gives.
  void expect_from(int rank, std::int64_t from, std::int64_t first, std::int64_t count) const;
  /// Fails unless [first, first + count) were not touched.
  void expect_untouched(std::int64_t first, std::int64_t count) const;

 private:
  Room room_;
  std::int64_t count_;
};

/// Writes what `rank` gives in a reduction: values of all kinds, so that order and rounding show.
void fill_random(DType dtype, int rank, std::int64_t count, std::byte* to);
/// The reduction of what `ranks` ranks give, by its definition.
std::vector<std::byte> folded(DType dtype, const Reduction& reduction, int ranks, std::int64_t count);

/// Runs bodies on ranks.
class CommSuite : public testing::TestWithParam<Implementation> {
 protected:
  /// Runs the body on every rank of a world of `ranks`.
  void on_ranks(int ranks, const std::function<void(Member&)>& body) { on_ranks(ranks, nullptr, body); }
  /// Likewise, where the transport declares that it can do this; else the ranks throw Lacking.
  void on_ranks(int ranks, bool Capabilities::*needs, const std::function<void(Member&)>& body);
  [[nodiscard]] bool is_seeded() const { return GetParam().is_seeded; }
  [[nodiscard]] bool has_messages() const { return GetParam().has_messages; }
};

/// What symmetric memory promises, for transports that have it in memory of the host device.
class SymmetricSuite : public CommSuite {};

/// Demands that the stream has failed with an error of this type whose text holds all of `words`; it can be used again.
template <class E>
void expect_stream_error(const device::Stream& stream, std::initializer_list<std::string_view> words) {
  expect_error<E>([&] { stream.synchronize(); }, words);
  stream.reset_error();
}

}  // namespace tessera::comm::suite
