#include "tessera/comm/detail/symmetric/offset_plan.h"

#include <iterator>

#include "tessera/base/error.h"

namespace tessera::comm::detail {
namespace {

std::uint64_t whole(std::uint64_t nbytes) {
  return (nbytes + OffsetPlan::kUnit - 1) / OffsetPlan::kUnit * OffsetPlan::kUnit;
}

}  // namespace

std::uint64_t OffsetPlan::allocate(std::uint64_t nbytes) {
  TESSERA_CHECK(nbytes > 0 && nbytes <= kMax, "symmetric memory: nbytes must be in [1, ", kMax, "], got ", nbytes);
  const std::uint64_t length = whole(nbytes);
  for (auto piece = free_.begin(); piece != free_.end(); ++piece) {
    const auto [offset, room] = *piece;
    if (room < length) continue;
    free_.erase(piece);
    if (room > length) free_.emplace(offset + length, room - length);
    return offset;
  }
  const std::uint64_t offset = end_;
  end_ += length;
  return offset;
}

void OffsetPlan::free(std::uint64_t offset, std::uint64_t nbytes) {
  std::uint64_t first = offset;
  std::uint64_t last = offset + whole(nbytes);
  const auto is_cut = [&](std::uint64_t at) { return at == mapped_ || starts_.contains(at); };
  auto next = free_.lower_bound(first);
  if (next != free_.end() && next->first == last && !is_cut(last)) {
    last += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == first && !is_cut(first)) {
      first = before->first;
      free_.erase(before);
    }
  }
  if (last == end_ && first >= mapped_) {
    end_ = first;
  } else {
    free_.emplace(first, last - first);
  }
}

void OffsetPlan::grow(std::uint64_t nbytes) {
  starts_.insert(mapped_);
  const std::uint64_t pieces = end_;
  mapped_ += nbytes;
  end_ = mapped_;
  if (pieces == mapped_) return;
  // The rest is free, merged with a free chunk before it in the same segment.
  free(pieces, mapped_ - pieces);
}

}  // namespace tessera::comm::detail
