#include "tessera/comm/backends/cuda/plan.h"

#include <algorithm>

#include "tessera/base/error.h"
#include "tessera/comm/collectives/collective.h"
#include "tessera/comm/detail/peer_memory/failures.h"

namespace tessera::comm::cuda {
namespace {

// A row that continues the previous one is merged with it.
void add_row(CudaLaunch& launch, const TransferRow& row) {
  if (launch.row_total > 0) {
    TransferRow& last = launch.rows[launch.row_total - 1];
    if (last.from == row.from && last.to == row.to && last.from_offset >= 0 && row.from_offset >= 0 &&
        last.from_offset + last.count == row.from_offset && last.to_offset + last.count == row.to_offset) {
      last.count += row.count;
      return;
    }
  }
  TESSERA_CHECK(launch.row_total < kMaxRanks, "an operation must have at most ", kMaxRanks, " transfers per rank");
  launch.rows[launch.row_total++] = row;
}

void plan_rows(const Operation& operation, int rank, int size, CudaLaunch& launch) {
  // With stages, a rank makes all transfers to itself; otherwise it makes its own transfers, whatever their target.
  for (int maker = 0; maker < size; ++maker) {
    if (!launch.is_staged && maker != rank) continue;
    for (const Transfer& transfer : definition(operation.kind).transfers(operation, maker, size)) {
      if (launch.is_staged && transfer.to != rank && transfer.to != kEveryone) continue;
      add_row(launch, {.from_offset = transfer.from_offset,
                       .to_offset = transfer.to_offset,
                       .count = transfer.count,
                       .from = transfer.from,
                       .to = launch.is_staged ? rank : transfer.to});
    }
  }
}

void plan_offers(const Operation& operation, int rank, int size, CudaLaunch& launch) {
  const CollectiveDef& def = definition(operation.kind);
  launch.has_offers = def.offer != nullptr;
  if (!launch.has_offers) return;
  if (operation.kind == OpKind::kRaggedAllToAll) {
    launch.row_offsets = operation.rows.in_offsets;
    launch.row_sizes = operation.rows.in_sizes;
    launch.row_out_offsets = operation.rows.out_offsets;
    launch.row_out_sizes = operation.rows.out_sizes;
    launch.row_count = operation.count;
    launch.in_rows = operation.in_rows;
    return;
  }
  for (int peer = 0; peer < size; ++peer) {
    const Offer offer = def.offer(operation, rank, peer);
    launch.offers[peer] = {offer.from_offset, offer.to_offset, offer.count};
  }
}

}  // namespace

CudaLaunch plan(const Operation& operation, std::uint64_t group, int rank, int size) {
  const Extents extents = definition(operation.kind).extents(operation, rank, size);
  const auto item = static_cast<std::int64_t>(itemsize(operation.dtype));
  const detail::Notice notice = detail::notice_of(operation, 0, group);
  CudaLaunch launch{};
  launch.notice = {.fingerprint_low = notice.fingerprint.low,
                   .fingerprint_high = notice.fingerprint.high,
                   .task = 0,
                   .registrations = 0,
                   .group = notice.group,
                   .in = extents.in > 0 ? operation.in : nullptr,
                   .out = extents.out > 0 ? operation.out : nullptr,
                   .count = operation.count,
                   .counts_digest = notice.counts_digest,
                   .factor = notice.factor,
                   .parts = {},
                   .sizes = {},
                   .layouts = notice.layouts,
                   .part_total = notice.parts,
                   .root = operation.root,
                   .dims = notice.dims,
                   .split = notice.split,
                   .concat = notice.concat,
                   .kind = static_cast<std::uint8_t>(operation.kind),
                   .dtype = static_cast<std::uint8_t>(operation.dtype),
                   .reduction = static_cast<std::uint8_t>(operation.reduction.kind)};
  std::copy_n(notice.first_parts, std::min<std::size_t>(notice.parts, kMaxRanks), launch.notice.parts);
  if (notice.dims > 0) {
    std::copy_n(notice.first_sizes, std::min<std::size_t>(static_cast<std::size_t>(notice.dims), 8),
                launch.notice.sizes);
  }
  launch.rank = rank;
  launch.size = size;
  const bool is_barrier = operation.kind == OpKind::kBarrier;
  const std::int64_t most = max_input_of(operation, size) * item;
  launch.is_staged = !is_barrier && most >= 0 && most <= static_cast<std::int64_t>(kStageBytes);
  launch.parts = !is_barrier && !launch.is_staged;
  launch.item_nbytes = static_cast<std::uint32_t>(item);
  launch.factor = operation.reduction.factor;
  launch.in_nbytes = extents.in * item;
  launch.room = extents.out;
  plan_rows(operation, rank, size, launch);
  plan_offers(operation, rank, size, launch);
  return launch;
}

std::uint32_t blocks_for(const Operation& operation, const CudaLaunch& launch) {
  if (operation.kind == OpKind::kBarrier || launch.is_staged) return 1;
  std::int64_t elements = operation.kind == OpKind::kRaggedAllToAll ? launch.room : 0;
  for (int i = 0; i < launch.row_total; ++i) {
    const TransferRow& row = launch.rows[i];
    if (row.count > 0) elements += row.count * (row.from == kEveryone ? launch.size : 1);
  }
  // Two vectors per thread justify a block.
  constexpr std::int64_t kWorth = std::int64_t{kThreads} * 16 * 2;
  const std::int64_t blocks = (elements * launch.item_nbytes + kWorth - 1) / kWorth;
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(blocks, 1, 1 << 16));
}

}  // namespace tessera::comm::cuda
