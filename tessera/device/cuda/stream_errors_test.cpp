#include "tessera/device/cuda/stream_errors.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"

namespace tessera::device::cuda {
namespace {

std::exception_ptr boom(const char* text = "boom") { return std::make_exception_ptr(std::runtime_error(text)); }

std::string text_of(const std::exception_ptr& error) {
  if (error == nullptr) return "";
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& thrown) {
    return thrown.what();
  }
}

TEST(StreamErrors, AreCleanUntilSomethingCanFailAndAfterItDidNot) {
  StreamErrors errors;
  EXPECT_TRUE(errors.is_clean());
  const auto place = errors.expect();
  EXPECT_FALSE(errors.is_clean());
  errors.finish(place, nullptr);
  EXPECT_TRUE(errors.is_clean());
  EXPECT_EQ(errors.current(), nullptr);
}

TEST(StreamErrors, TheFirstInTheStreamCountsWhicheverEndedFirst) {
  StreamErrors errors;
  const auto first = errors.expect();
  const auto second = errors.expect();
  errors.finish(second, boom("second"));
  errors.finish(first, boom("first"));
  EXPECT_EQ(text_of(errors.current()), "first");
  EXPECT_EQ(text_of(errors.current()), "first");
  errors.reset();
  EXPECT_EQ(errors.current(), nullptr);
  EXPECT_TRUE(errors.is_clean());
}

TEST(StreamErrors, AnEventFailsForWhatIsBeforeItOnly) {
  StreamErrors errors;
  const auto before = errors.mark();
  const auto place = errors.expect();
  const auto behind = errors.mark();
  errors.finish(place, boom());
  EXPECT_EQ(errors.before(before), nullptr);
  EXPECT_EQ(text_of(errors.before(behind)), "boom");
}

TEST(StreamErrors, WaitingInheritsAlsoWhatFailsLaterAndThroughOthers) {
  const auto a = std::make_shared<StreamErrors>(), b = std::make_shared<StreamErrors>(),
             c = std::make_shared<StreamErrors>();
  const auto place = a->expect();
  b->inherit(a, a->mark());
  c->inherit(b, b->mark());
  EXPECT_EQ(c->current(), nullptr);
  a->finish(place, boom());
  EXPECT_EQ(text_of(c->current()), "boom");
  EXPECT_EQ(text_of(b->current()), "boom");
}

TEST(StreamErrors, WhatIsInheritedSurvivesTheResetOfItsOrigin) {
  const auto a = std::make_shared<StreamErrors>(), b = std::make_shared<StreamErrors>();
  const auto place = a->expect();
  b->inherit(a, a->mark());
  a->finish(place, boom());
  a->reset();
  EXPECT_EQ(text_of(b->current()), "boom");
  const auto late = std::make_shared<StreamErrors>();
  late->inherit(a, a->mark());  // a point after the reset has no failure
  EXPECT_EQ(late->current(), nullptr);
}

TEST(StreamErrors, AResetOfTheHeirDoesNotBringItBack) {
  const auto a = std::make_shared<StreamErrors>(), b = std::make_shared<StreamErrors>();
  const auto place = a->expect();
  b->inherit(a, a->mark());
  a->finish(place, boom());
  b->reset();
  EXPECT_EQ(b->current(), nullptr);
  EXPECT_EQ(text_of(a->current()), "boom");
}

TEST(StreamErrors, AResetKeepsWhatHasYetToFail) {
  const auto a = std::make_shared<StreamErrors>(), b = std::make_shared<StreamErrors>();
  const auto place = a->expect();
  b->inherit(a, a->mark());
  a->reset();
  b->reset();
  a->finish(place, boom());
  EXPECT_EQ(text_of(a->current()), "boom");
  EXPECT_EQ(text_of(b->current()), "boom");
}

TEST(StreamErrors, StreamsThatWaitForEachOtherInheritBothWays) {
  const auto a = std::make_shared<StreamErrors>(), b = std::make_shared<StreamErrors>();
  const auto place = a->expect();
  b->inherit(a, a->mark());
  a->inherit(b, b->mark());
  const auto later = b->expect();
  a->inherit(b, b->mark());
  b->finish(later, boom("from b"));
  EXPECT_EQ(text_of(a->current()), "from b");
  EXPECT_EQ(text_of(b->current()), "from b");
  a->finish(place, nullptr);
  EXPECT_EQ(text_of(a->current()), "from b");
}

TEST(StreamErrors, SourcesThatCanNoLongerFailAreLetGo) {
  const auto a = std::make_shared<StreamErrors>(), b = std::make_shared<StreamErrors>();
  const auto place = a->expect();
  b->inherit(a, a->mark());
  EXPECT_FALSE(b->is_clean());
  a->finish(place, nullptr);
  EXPECT_EQ(b->current(), nullptr);
  EXPECT_TRUE(b->is_clean());
}

}  // namespace
}  // namespace tessera::device::cuda
