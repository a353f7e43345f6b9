#include "tessera/memory/label_use.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>
#include <unordered_map>

namespace tessera::memory {
namespace {

class Replay {
 public:
  explicit Replay(const Snapshot& snapshot) : snapshot_(snapshot) {
    for (const SegmentView& segment : snapshot.segments) {
      for (const BlockView& block : segment.blocks) {
        if (block.state != BlockState::kLive) continue;
        LabelUse& use = use_of(block.label);
        use.live_nbytes += block.requested_nbytes;
        ++use.live_blocks;
        appear(block.address, block.label, block.requested_nbytes);
      }
    }
  }

  std::vector<LabelUse> run() {
    const std::vector<std::string_view> labels = labels_of_frees();
    for (std::size_t i = snapshot_.trace.size(); i-- > 0;) {
      const TraceEntry& entry = snapshot_.trace[i];
      if (entry.action == Action::kAlloc) {
        ++use_of(entry.label).allocations;
        vanish(entry.address);
      } else if (entry.action == Action::kFreeRequested) {
        vanish(entry.address);  // its next allocation is not in the trace
        appear(entry.address, labels[i], entry.nbytes);
      }
    }
    std::vector<LabelUse> result;
    result.reserve(uses_.size());
    for (auto& [label, use] : uses_) result.push_back(std::move(use));
    std::sort(result.begin(), result.end(), [](const LabelUse& a, const LabelUse& b) {
      return std::tie(b.live_nbytes, b.peak_nbytes, a.label) < std::tie(a.live_nbytes, a.peak_nbytes, b.label);
    });
    return result;
  }

 private:
  struct Live {
    std::string_view label;
    std::uint64_t nbytes;
  };

  LabelUse& use_of(std::string_view label) {
    LabelUse& use = uses_[label];
    if (use.label.empty()) use.label = label;
    return use;
  }

  // Returns the label of each freed block: that of its allocation, if the trace contains it.
  std::vector<std::string_view> labels_of_frees() const {
    std::vector<std::string_view> labels(snapshot_.trace.size());
    std::unordered_map<std::uint64_t, std::string_view> open;
    for (std::size_t i = 0; i < snapshot_.trace.size(); ++i) {
      const TraceEntry& entry = snapshot_.trace[i];
      if (entry.action == Action::kAlloc) open[entry.address] = entry.label;
      if (entry.action != Action::kFreeRequested) continue;
      const auto found = open.find(entry.address);
      labels[i] = found != open.end() ? found->second : entry.label;
      if (found != open.end()) open.erase(found);
    }
    return labels;
  }

  void appear(std::uint64_t address, std::string_view label, std::uint64_t nbytes) {
    live_[address] = {label, nbytes};
    std::uint64_t& now = now_[label];
    now += nbytes;
    LabelUse& use = use_of(label);
    use.peak_nbytes = std::max(use.peak_nbytes, now);
  }

  void vanish(std::uint64_t address) {
    const auto found = live_.find(address);
    if (found == live_.end()) return;
    now_[found->second.label] -= found->second.nbytes;
    live_.erase(found);
  }

  const Snapshot& snapshot_;
  std::map<std::string_view, LabelUse> uses_;
  std::unordered_map<std::string_view, std::uint64_t> now_;
  std::unordered_map<std::uint64_t, Live> live_;
};

}  // namespace

std::vector<LabelUse> label_uses(const Snapshot& snapshot) { return Replay(snapshot).run(); }

}  // namespace tessera::memory
