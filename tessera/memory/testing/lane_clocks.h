// The order of the work of a generated program: vector clocks over lanes (streams, or streams in a capture), separate
// from the clocks of the device so that both can be compared.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace tessera::memory::testing {

/// The n-th action of a lane; lane -1: none.
struct Moment {
  int lane = -1;
  int at = 0;
};

/// Vector clocks of all lanes. Not thread-safe.
class LaneClocks {
 public:
  using Clock = std::vector<int>;

  /// Adds a lane with an empty clock.
  int add() {
    done_.push_back(0);
    completed_.push_back(0);
    known_.emplace_back();
    for (Clock& clock : known_) clock.resize(done_.size());
    return static_cast<int>(done_.size()) - 1;
  }
  /// Records an action of the lane.
  Moment step(int lane) {
    const int at = ++done_[index(lane)];
    known_[index(lane)][index(lane)] = at;
    return {lane, at};
  }
  /// Returns true if the next action of `lane` comes after `moment`.
  [[nodiscard]] bool covers(int lane, Moment moment) const {
    if (moment.lane < 0 || completed_[index(moment.lane)] >= moment.at) return true;
    return known_[index(lane)][index(moment.lane)] >= moment.at;
  }
  /// Orders the next action of `lane` after all actions of `other`.
  void join(int lane, int other) { merge(lane, known_[index(other)]); }
  /// Orders the next action of `lane` after a saved clock.
  void merge(int lane, const Clock& clock) {
    for (std::size_t i = 0; i < clock.size(); ++i) known_[index(lane)][i] = std::max(known_[index(lane)][i], clock[i]);
  }
  /// Returns a copy of the clock of a lane.
  [[nodiscard]] Clock clock(int lane) const { return known_[index(lane)]; }
  /// Marks all actions as complete.
  void complete() { completed_ = done_; }

 private:
  static std::size_t index(int lane) { return static_cast<std::size_t>(lane); }
  Clock done_;
  Clock completed_;
  std::vector<Clock> known_;
};

}  // namespace tessera::memory::testing
