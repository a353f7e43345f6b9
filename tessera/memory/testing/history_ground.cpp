#include "tessera/memory/testing/history_ground.h"

#include <algorithm>

#include "tessera/memory/label.h"

namespace tessera::memory::testing {

std::vector<LiveBlock> live_blocks(const Snapshot& snapshot) {
  std::vector<LiveBlock> blocks;
  for (const SegmentView& segment : snapshot.segments) {
    for (const BlockView& block : segment.blocks) {
      if (block.state != BlockState::kLive) continue;
      blocks.emplace_back(block.address, block.nbytes, block.requested_nbytes, block.stream.value(), segment.pool,
                          block.label);
    }
  }
  std::sort(blocks.begin(), blocks.end());
  return blocks;
}

RecordedRank::RecordedRank(std::uint64_t nbytes) : rank_(std::make_shared<RankContext>(RankPlace{})), scope_(rank_) {
  path_ = probe::open_recorder(*rank_, {.nbytes = nbytes}).path();
}

void churn(const Allocator& allocator, std::uint64_t seed, int steps, const Stream& one, const Stream& two,
           std::vector<Buffer>& held) {
  static const char* const kLabels[] = {"weights", "activations", "gradients"};
  RandomNumbers random(seed);
  for (int i = 0; i < steps; ++i) {
    if (held.size() < 40 && !random.one_in(3)) {
      const Label label(kLabels[random.below(3)]);
      held.push_back(allocator.allocate(1 + random.bits() % 50000, random.one_in(2) ? one : two));
      if (random.one_in(64)) held.back().use_on(random.one_in(2) ? one : two);
    } else if (!held.empty()) {
      held.erase(held.begin() + random.below(static_cast<int>(held.size())));
    }
  }
}

}  // namespace tessera::memory::testing
