// What a program that is made up knows of the order of its own work: vector clocks over lanes (streams, or streams in a
// capture), kept apart from the clocks of the device so that each can be held against the other.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace tessera::memory::testing {

/// The n-th thing a lane did; lane -1: nothing.
struct Moment {
  int lane = -1;
  int at = 0;
};

/// Who knows of what. Not thread-safe.
class LaneClocks {
 public:
  using Clock = std::vector<int>;

  /// A new lane, which knows of nothing.
  int add() {
    done_.push_back(0);
    completed_.push_back(0);
    known_.emplace_back();
    for (Clock& clock : known_) clock.resize(done_.size());
    return static_cast<int>(done_.size()) - 1;
  }
  /// The lane does something.
  Moment step(int lane) {
    const int at = ++done_[index(lane)];
    known_[index(lane)][index(lane)] = at;
    return {lane, at};
  }
  /// Whether what `lane` does next comes after `moment`.
  [[nodiscard]] bool covers(int lane, Moment moment) const {
    if (moment.lane < 0 || completed_[index(moment.lane)] >= moment.at) return true;
    return known_[index(lane)][index(moment.lane)] >= moment.at;
  }
  /// What `lane` does next comes after all that `other` has done.
  void join(int lane, int other) { merge(lane, known_[index(other)]); }
  /// The same for a clock that was kept.
  void merge(int lane, const Clock& clock) {
    for (std::size_t i = 0; i < clock.size(); ++i) known_[index(lane)][i] = std::max(known_[index(lane)][i], clock[i]);
  }
  /// A copy of what a lane knows.
  [[nodiscard]] Clock clock(int lane) const { return known_[index(lane)]; }
  /// All is over.
  void complete() { completed_ = done_; }

 private:
  static std::size_t index(int lane) { return static_cast<std::size_t>(lane); }
  Clock done_;
  Clock completed_;
  std::vector<Clock> known_;
};

}  // namespace tessera::memory::testing
