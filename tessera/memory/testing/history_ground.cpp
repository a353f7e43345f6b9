#include "tessera/memory/testing/history_ground.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "tessera/base/probe/reader.h"
#include "tessera/memory/history.h"
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

std::vector<RecordedBlock> blocks_to_record(const Snapshot& snapshot) {
  std::vector<RecordedBlock> blocks;
  for (const auto& [address, nbytes, requested, stream, pool, label] : live_blocks(snapshot))
    blocks.emplace_back(address, nbytes, requested, stream, label);
  return blocks;
}

std::vector<RecordedBlock> recorded_blocks(const std::string& path) {
  using Blocks = std::map<std::uint64_t, std::optional<RecordedBlock>>;  // by address; nothing: freed
  const probe::RecordFile file = probe::RecordFile::open(path);
  Blocks complete;             // since the start of the last complete keyframe
  std::optional<Blocks> open;  // since the start of a keyframe that has not ended
  std::uint32_t rows = 0;
  const auto set = [&](std::uint64_t address, const std::optional<RecordedBlock>& block) {
    complete[address] = block;
    if (open) (*open)[address] = block;
  };
  const auto block_of = [&](const auto& record) {
    const std::string label = record.label == probe::StringId{} ? "" : file.string(record.label);
    return RecordedBlock(record.address, record.nbytes, record.requested, record.stream, label);
  };
  bool has_keyframe = false;
  for (const probe::RecordRef& ref : file.records()) {
    if (const auto alloc = file.as<AllocRecord>(ref)) {
      set(alloc->address, block_of(*alloc));
    } else if (const auto freed = file.as<FreeRecord>(ref)) {
      set(freed->address, std::nullopt);
    } else if (const auto block = file.as<BlockRecord>(ref)) {
      ++rows;
      if (open) set(block->address, block->is_pending ? std::nullopt : std::optional(block_of(*block)));
    } else if (file.as<RunRecord>(ref)) {
      ++rows;
    } else if (const auto keyframe = file.as<KeyframeRecord>(ref)) {
      if (!keyframe->is_end) {
        open.emplace();
        rows = 0;
      } else if (open && rows == keyframe->rows) {
        complete = *std::exchange(open, std::nullopt);
        has_keyframe = true;
      }
    }
  }
  std::vector<RecordedBlock> blocks;
  for (const auto& [address, block] : complete) {
    if (block && has_keyframe) blocks.push_back(*block);
  }
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
