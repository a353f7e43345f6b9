// Checked mode: races are found from the clocks, whether or not they happened.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "tessera/base/error.h"
#include "tessera/device/host/host_device.h"

namespace tessera::device::host {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class CheckedHost : public ::testing::Test {
 protected:
  CheckedHost() {
    range_.map(0, device_.create_memory(granule_));
    other_range_.map(0, device_.create_memory(granule_));
  }
  ~CheckedHost() override { device_.synchronize(); }  // the ranges are destroyed next

  template <class Call>
  static std::string refusal(Call&& call) {
    try {
      call();
    } catch (const InvalidArgument& error) {
      return error.message();
    }
    return "(no error)";
  }
  void touch(const Stream& stream, const char* label, const Access& access) const {
    const std::array accesses{access};
    stream.run([] {}, {.label = label, .accesses = accesses});
  }

  Device device_ = make_host_device({.checked = true});
  std::size_t granule_ = device_.properties().granularity;
  AddressRange range_ = device_.reserve(4 * granule_);
  AddressRange other_range_ = device_.reserve(granule_);
  std::byte* data_ = range_.data();
  Stream one_ = device_.create_stream({.name = "one"});
  Stream two_ = device_.create_stream({.name = "two"});
  Event event_ = device_.create_event();
};

TEST_F(CheckedHost, NamesBothLaunchesAndTheMissingEdge) {
  touch(one_, "producer", writes(data_, 64));
  const std::string text = refusal([&] { touch(two_, "consumer", reads(data_ + 32, 64)); });
  EXPECT_THAT(text, AllOf(HasSubstr("'consumer' on two"), HasSubstr("'producer' on one"), HasSubstr("record an event"),
                          HasSubstr("wait on it")));
}

TEST_F(CheckedHost, AcceptsWhatAnEventOrders) {
  touch(one_, "producer", writes(data_, 64));
  one_.record(event_);
  two_.wait(event_);
  touch(two_, "consumer", reads(data_, 64));
}

TEST_F(CheckedHost, AnEventRecordedBeforeTheLaunchIsNoEdge) {
  one_.record(event_);
  touch(one_, "producer", writes(data_, 64));
  two_.wait(event_);
  EXPECT_NE(refusal([&] { touch(two_, "consumer", reads(data_, 64)); }), "(no error)");
}

TEST_F(CheckedHost, AWriteMustComeAfterEveryReader) {
  touch(one_, "reader one", reads(data_, 64));
  touch(two_, "reader two", reads(data_, 64));
  EXPECT_THAT(refusal([&] { touch(one_, "writer", writes(data_, 1)); }), HasSubstr("reader two"));
}

TEST_F(CheckedHost, ReadersDoNotDisturbEachOther) {
  touch(one_, "reader one", reads(data_, 64));
  touch(two_, "reader two", reads(data_, 64));
}

TEST_F(CheckedHost, NeighboursDoNotConflict) {
  touch(one_, "left", writes(data_, 64));
  touch(two_, "right", writes(data_ + 64, 64));
}

TEST_F(CheckedHost, OrderReachesThroughAThirdStream) {
  const Stream three = device_.create_stream();
  touch(one_, "producer", writes(data_, 64));
  one_.record(event_);
  two_.wait(event_);
  const Event second = device_.create_event();
  two_.record(second);
  three.wait(second);
  touch(three, "consumer", reads(data_, 64));
}

TEST_F(CheckedHost, WhatTheHostWaitedForIsOver) {
  touch(one_, "producer", writes(data_, 64));
  one_.synchronize();
  touch(two_, "consumer", reads(data_, 64));
}

TEST_F(CheckedHost, ARefusedLaunchChangesNothing) {
  touch(one_, "producer", writes(data_, 64));
  const std::array accesses{writes(data_ + 512, 8), reads(data_, 64)};
  EXPECT_THROW(two_.run([] {}, {.label = "refused", .accesses = accesses}), InvalidArgument);
  touch(one_, "same place", writes(data_ + 512, 8));  // the rejected launch is not stored as a writer
}

TEST_F(CheckedHost, ALaunchMustDeclareWhatItTouches) {
  EXPECT_THAT(refusal([&] { one_.run([] {}, {.label = "shy"}); }), HasSubstr("'shy'"));
  one_.run([] {}, {.label = "frank", .accesses = std::span<const Access>{}});
}

TEST_F(CheckedHost, UnmappedMemoryMayNotBeTouched) {
  EXPECT_THAT(refusal([&] { touch(one_, "far", writes(data_ + granule_, 8)); }), HasSubstr("not mapped"));
  range_.map(granule_, device_.create_memory(granule_));
  touch(one_, "far", writes(data_ + granule_, 8));
  one_.synchronize();
  range_.unmap(granule_, granule_);
  EXPECT_THAT(refusal([&] { touch(one_, "far", writes(data_ + granule_, 8)); }), HasSubstr("unmapped"));
}

TEST_F(CheckedHost, FreedMemoryMayNotBeTouchedAndNamesWhoFreedIt) {
  device_.note_freed(data_ + 64, 64, "freed by 'optimizer'");
  touch(one_, "before", writes(data_, 64));
  EXPECT_THAT(refusal([&] { touch(one_, "inside", reads(data_ + 100, 1)); }), HasSubstr("freed by 'optimizer'"));
  device_.note_allocated(data_ + 64, 64);
  touch(one_, "inside", reads(data_ + 100, 1));
}

TEST_F(CheckedHost, MemoryGivenOutAgainRemembersItsLastUse) {
  touch(one_, "old owner", writes(data_, 64));
  device_.note_freed(data_, 64, "freed");
  device_.note_allocated(data_, 64);
  EXPECT_THAT(refusal([&] { touch(two_, "new owner", writes(data_, 64)); }), HasSubstr("old owner"));
}

TEST_F(CheckedHost, CopiesAndFillsAreDeclaredForYou) {
  one_.fill(data_, 1, 1, 64);
  EXPECT_THAT(refusal([&] { two_.copy(other_range_.data(), data_, 64); }), HasSubstr("'fill' on one"));
}

TEST_F(CheckedHost, OverlappingLaunchesAreNotOrderedOnTheirOwnStream) {
  touch(one_, "first", writes(data_, 64));
  {
    const Stream::OverlapScope scope(one_);
    EXPECT_NE(refusal([&] { touch(one_, "second", reads(data_, 64)); }), "(no error)");
  }
  touch(one_, "third", reads(data_, 64));
}

TEST_F(CheckedHost, AGraphWithARaceIsRefused) {
  one_.begin_capture();
  one_.record(event_);
  two_.wait(event_);
  touch(one_, "left", writes(data_, 64));
  touch(two_, "right", reads(data_, 64));
  two_.record(event_);
  one_.wait(event_);
  EXPECT_THAT(refusal([&] { static_cast<void>(one_.end_capture()); }),
              AllOf(HasSubstr("'left'"), HasSubstr("'right'")));
  EXPECT_FALSE(one_.is_capturing());
}

TEST_F(CheckedHost, AReplayCountsAsALaunchOfAllItsNodes) {
  one_.begin_capture();
  touch(one_, "node", writes(data_, 64));
  const GraphExec exec = one_.end_capture().instantiate();
  exec.launch(one_);
  EXPECT_THAT(refusal([&] { touch(two_, "outside", reads(data_, 64)); }), HasSubstr("'graph' on one"));
  EXPECT_THAT(refusal([&] { exec.launch(two_); }), HasSubstr("'graph' on one"));
}

}  // namespace
}  // namespace tessera::device::host
