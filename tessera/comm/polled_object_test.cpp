// Watched objects are polled until nothing more is expected, by a thread that keeps nothing alive.
#include "tessera/comm/polled_object.h"

#include <gtest/gtest.h>

#include <atomic>
#include <semaphore>

namespace tessera::comm::detail {
namespace {

// Expects more for a given number of polls.
class Counted : public PolledObject {
 public:
  explicit Counted(int looks) : looks_(looks) {}
  ~Counted() override {
    if (gone_ != nullptr) gone_->release();
  }
  bool look() override {
    const bool has_more = ++seen_ < looks_;
    if (seen_ == looks_) done_.release();
    return has_more;
  }
  void wait() { done_.acquire(); }
  [[nodiscard]] int seen() const { return seen_; }
  void tell_end(std::binary_semaphore& gone) { gone_ = &gone; }

 private:
  const int looks_;
  std::atomic<int> seen_{0};
  std::binary_semaphore done_{0};
  std::binary_semaphore* gone_ = nullptr;
};

TEST(Watch, LooksUntilNothingIsToCome) {
  const auto few = std::make_shared<Counted>(1);
  const auto many = std::make_shared<Counted>(3);
  watch(few);
  watch(many);
  few->wait();
  many->wait();
  EXPECT_EQ(few->seen(), 1);
  EXPECT_EQ(many->seen(), 3);
}

TEST(Watch, LooksAgainWhenAskedAgain) {
  for (int round = 0; round < 3; ++round) {
    const auto watched = std::make_shared<Counted>(2);
    watch(watched);
    watched->wait();
  }
}

TEST(Watch, KeepsNothing) {
  std::binary_semaphore gone{0};
  auto watched = std::make_shared<Counted>(1'000'000'000);
  watched->tell_end(gone);
  watch(watched);
  watched.reset();
  gone.acquire();
}

}  // namespace
}  // namespace tessera::comm::detail
