// A rank with a small record file, and its live blocks from two sources: the allocator and the file.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "tessera/base/probe/recorder.h"
#include "tessera/base/rank.h"
#include "tessera/memory/allocator.h"
#include "tessera/memory/testing/random_numbers.h"

namespace tessera::memory::testing {

/// Address, size, requested bytes, stream, pool, label.
using LiveBlock = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, std::uint32_t, PoolId, std::string>;

/// Returns the live blocks of a snapshot, by address.
std::vector<LiveBlock> live_blocks(const Snapshot& snapshot);

/// Address, size, requested bytes, stream, label.
using RecordedBlock = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, std::uint32_t, std::string>;

/// Returns the live blocks of the snapshot without their pools, by address.
std::vector<RecordedBlock> blocks_to_record(const Snapshot& snapshot);

/// Returns the live blocks by the rule of history.h: the last record of each address since the start of the last
/// complete keyframe. The file must belong to one allocator and one writing thread. Empty if no keyframe is complete.
std::vector<RecordedBlock> recorded_blocks(const std::string& path);

/// Makes the enclosing scope work for a rank with a record file of this size.
class RecordedRank {
 public:
  explicit RecordedRank(std::uint64_t nbytes = probe::RecordOptions::kMinBytes);
  /// Returns the path of the record file.
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::shared_ptr<RankContext> rank_;
  RankScope scope_;
  std::string path_;
};

/// Allocates and frees on two streams by a seed, with labels; `held` receives the rest.
void churn(const Allocator& allocator, std::uint64_t seed, int steps, const Stream& one, const Stream& two,
           std::vector<Buffer>& held);

}  // namespace tessera::memory::testing
