#include "tessera/comm/detail/symmetric/rendezvous.h"

#include <algorithm>
#include <map>
#include <type_traits>

#include "tessera/comm/detail/peer_memory/failures.h"
#include "tessera/device/device.h"
#include "tessera/memory/allocator.h"

namespace tessera::comm::detail {

std::vector<RankContribution> meet(const ProcessGroup& group, const device::Stream& stream,
                                   const RankContribution& mine, std::uint64_t registration) {
  static_assert(std::is_trivially_copyable_v<RankContribution>);
  std::vector<RankContribution> all(static_cast<std::size_t>(group.size()));
  const std::size_t nbytes = all.size() * sizeof(RankContribution);
  const memory::Allocator allocator = memory::Allocator::of(stream.device());
  const memory::Buffer in = allocator.allocate(sizeof(RankContribution), stream);
  const memory::Buffer out = allocator.allocate(nbytes, stream);
  stream.copy(in.data(), &mine, sizeof(RankContribution), "rendezvous");
  group
      .launch({.kind = OpKind::kRendezvous,
               .dtype = DType::kU8,
               .in = in.data(),
               .out = out.data(),
               .count = sizeof(RankContribution),
               .registration = registration},
              stream)
      .wait();
  stream.copy(all.data(), out.data(), nbytes, "rendezvous");
  stream.synchronize();
  return all;
}

std::string difference(std::span<const RankContribution> records) {
  std::map<std::uint64_t, std::vector<int>> at;
  for (std::size_t rank = 0; rank < records.size(); ++rank) at[records[rank].pool].push_back(static_cast<int>(rank));
  if (at.size() > 1) {
    std::string text;
    for (const auto& [pool, ranks] : at) {
      text += (text.empty() ? "" : ", ") + text_of_ranks(ranks) + " for " +
              (pool == 0 ? "a registration" : "pool " + std::to_string(pool));
    }
    return "ranks call rendezvous for different objects: " + text;
  }
  std::vector<RequestLog> logs;
  for (const RankContribution& record : records) logs.push_back(record.log);
  return difference(logs);
}

std::vector<int> ranks_with(std::span<const RankContribution> records, RankContribution::Problem problem) {
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < records.size(); ++rank) {
    if (records[rank].problem == problem) ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

}  // namespace tessera::comm::detail
