// The account of a failed request, and its cause.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "tessera/base/bytes.h"
#include "tessera/memory/detail/block_sums.h"
#include "tessera/memory/oom_report.h"

namespace tessera::memory {
namespace {

using Answer = std::optional<OomDiagnosis>;

// Input of every check below.
struct Case {
  explicit Case(const OomFacts& what)
      : facts(what),
        account(account_of(what)),
        growth(what.growth_nbytes != 0 ? what.growth_nbytes : what.rounded_nbytes) {
    const std::uint64_t reserved = account.reserved.reserved_nbytes;
    std::uint64_t under_limit = std::numeric_limits<std::uint64_t>::max();
    if (facts.limit_nbytes != 0) under_limit = facts.limit_nbytes > reserved ? facts.limit_nbytes - reserved : 0;
    headroom = std::min(under_limit, facts.device_free_nbytes);
  }

  // Returns true if the upstream could satisfy the request after these bytes are released.
  [[nodiscard]] bool fits_with(std::uint64_t returned) const {
    return returned != 0 && (returned >= growth || growth - returned <= headroom);
  }

  const OomFacts& facts;
  OomAccount account;
  std::uint64_t growth;    // requested from the upstream
  std::uint64_t headroom;  // that it can still provide
};

Answer larger_than_device(const Case& c) {
  const OomFacts& facts = c.facts;
  if (facts.device_total_nbytes == 0 || facts.rounded_nbytes <= facts.device_total_nbytes) return std::nullopt;
  return OomDiagnosis{OomCause::kLargerThanDevice, fmt::format("the request is larger than the device, which has {}",
                                                               format_bytes(facts.device_total_nbytes))};
}

// Waiting helps if pending blocks would form a long enough range, or could be unmapped and mapped elsewhere.
Answer pending(const Case& c) {
  const Snapshot& snapshot = c.facts.snapshot;
  const auto sums = detail::pending_by_stream(snapshot);
  if (sums.empty()) return std::nullopt;
  std::uint64_t movable = 0;
  for (const SegmentView& segment : snapshot.segments) {
    for (const BlockView& block : segment.blocks) {
      if (segment.is_expandable && block.state == BlockState::kPending) movable += block.nbytes;
    }
  }
  const std::uint64_t wanted = c.facts.rounded_nbytes;
  const bool range_fits = detail::largest_range(snapshot, &c.facts.pool, true).nbytes >= wanted &&
                          detail::largest_range(snapshot, &c.facts.pool, false).nbytes < wanted;
  if (!range_fits && !c.fits_with(movable)) return std::nullopt;
  const detail::PendingSum& most = sums.front();
  std::string sentence =
      fmt::format("waiting for stream{} {} would help: {} are pending there", most.streams.size() > 1 ? "s" : "",
                  detail::stream_names(most.streams), format_bytes(most.nbytes));
  if (c.facts.is_in_capture) sentence += ", and a capture cannot wait";
  return OomDiagnosis{OomCause::kPending, sentence};
}

Answer fragmentation(const Case& c) {
  const std::uint64_t cached = c.facts.snapshot.totals(c.facts.pool).cached_nbytes;
  const std::uint64_t largest = detail::largest_range(c.facts.snapshot, &c.facts.pool, false).nbytes;
  if (cached < c.facts.rounded_nbytes || largest >= c.facts.rounded_nbytes) return std::nullopt;
  return OomDiagnosis{OomCause::kFragmentation, fmt::format("fragmentation: {} are cached but the largest range is {}",
                                                            format_bytes(cached), format_bytes(largest))};
}

Answer private_pool(const Case& c) {
  const PoolView* most = nullptr;
  std::uint64_t cached = 0;
  for (const PoolView& pool : c.facts.snapshot.pools) {
    const auto& lend = c.facts.borrowable_pools;
    const bool lends = std::find(lend.begin(), lend.end(), pool.id) != lend.end();
    if (pool.id == PoolId{} || pool.id == c.facts.pool || lends) continue;
    const std::uint64_t held = c.facts.snapshot.totals(pool.id).cached_nbytes;
    if (held <= cached) continue;
    cached = held;
    most = &pool;
  }
  if (most == nullptr || !c.fits_with(cached)) return std::nullopt;
  return OomDiagnosis{OomCause::kPrivatePool,
                      fmt::format("private {} caches {}; set borrow_on_oom or trim it",
                                  detail::pool_name(c.facts.snapshot, most->id), format_bytes(cached))};
}

Answer limit(const Case& c) {
  const OomFacts& facts = c.facts;
  const std::uint64_t reserved = c.account.reserved.reserved_nbytes;
  if (facts.limit_nbytes == 0 || reserved + c.growth <= facts.limit_nbytes) return std::nullopt;
  if (facts.device_total_nbytes != 0 && facts.device_free_nbytes < c.growth) return std::nullopt;
  return OomDiagnosis{
      OomCause::kLimit,
      fmt::format("the limit is set to {}, and {} of it are reserved; the device has {} free",
                  format_bytes(facts.limit_nbytes), format_bytes(reserved), format_bytes(facts.device_free_nbytes))};
}

// The device has room, but the kernel maps no more for this process. A reservation takes more addresses than the
// request has bytes, so the rest of the limit is not conclusive.
Answer address_limit(const Case& c) {
  const OomFacts& facts = c.facts;
  if (facts.address_limit_nbytes == 0) return std::nullopt;
  if (facts.device_total_nbytes != 0 && facts.device_free_nbytes < c.growth) return std::nullopt;
  return OomDiagnosis{OomCause::kLimit,
                      fmt::format("the address space of the process is limited to {} (ulimit -v), and {} are in "
                                  "use; the device has {} free; raise the limit",
                                  format_bytes(facts.address_limit_nbytes), format_bytes(facts.address_nbytes),
                                  format_bytes(facts.device_free_nbytes))};
}

Answer others(const Case& c) {
  const OomAccount& account = c.account;
  const std::uint64_t used = account.reserved.live_nbytes + account.reserved.rounding_nbytes;
  const std::uint64_t outside = account.own_outside_nbytes + account.unattributed_nbytes;
  const std::uint64_t processes = account.other_processes_nbytes;
  if (processes >= outside && processes > used && c.fits_with(processes)) {
    return OomDiagnosis{OomCause::kOtherProcess,
                        fmt::format("another process holds {} of the device", format_bytes(processes))};
  }
  if (outside <= used || !c.fits_with(outside)) return std::nullopt;
  if (account.unattributed_nbytes > account.own_outside_nbytes) {
    return OomDiagnosis{OomCause::kOutsideAllocator,
                        fmt::format("{} are held outside the allocator, by this process or by others (the driver does "
                                    "not report which)",
                                    format_bytes(outside))};
  }
  return OomDiagnosis{
      OomCause::kOutsideAllocator,
      fmt::format("this process holds {} outside the allocator{}", format_bytes(outside),
                  c.facts.other_allocators_nbytes > 0
                      ? fmt::format(", {} of it in other allocators", format_bytes(c.facts.other_allocators_nbytes))
                      : std::string())};
}

OomDiagnosis label_grew(const Case& c) {
  const auto labels = detail::live_by_label(c.facts.snapshot);
  if (labels.empty()) return {OomCause::kLabelGrew, "the device is full, but this allocator holds no live memory"};
  const detail::NamedSum& most = labels.front();
  const std::uint64_t live = std::max<std::uint64_t>(c.account.reserved.live_nbytes, 1);
  const double percent = 100.0 * static_cast<double>(most.nbytes) / static_cast<double>(live);
  const std::string who =
      most.name.empty() ? std::string("allocations without a label hold") : fmt::format("label '{}' holds", most.name);
  return {OomCause::kLabelGrew, fmt::format("{} {:.0f} % of live memory, {}; only {} more is available", who, percent,
                                            format_bytes(most.nbytes), format_bytes(c.headroom))};
}

}  // namespace

std::string_view to_string(OomCause cause) {
  switch (cause) {
    case OomCause::kLargerThanDevice: return "larger than device";
    case OomCause::kPending: return "pending";
    case OomCause::kFragmentation: return "fragmentation";
    case OomCause::kPrivatePool: return "private pool";
    case OomCause::kLimit: return "limit";
    case OomCause::kOtherProcess: return "other process";
    case OomCause::kOutsideAllocator: return "outside the allocator";
    case OomCause::kLabelGrew: return "label";
  }
  return "unknown";
}

bool OomAccount::closes() const {
  if (!reserved.closes()) return false;
  if (total_nbytes == 0) return true;
  return total_nbytes + excess_nbytes ==
         free_nbytes + other_processes_nbytes + own_outside_nbytes + unattributed_nbytes + reserved.reserved_nbytes;
}

OomAccount account_of(const OomFacts& facts) {
  OomAccount account;
  account.reserved = facts.snapshot.totals();
  account.total_nbytes = facts.device_total_nbytes;
  if (account.total_nbytes == 0) return account;
  account.free_nbytes = facts.device_free_nbytes;
  const std::uint64_t reserved = account.reserved.reserved_nbytes;
  const std::uint64_t known = account.free_nbytes + reserved;
  // The driver values are read in sequence, while others allocate: inconsistent values are reduced to fit.
  if (known > account.total_nbytes) {
    account.excess_nbytes = known - account.total_nbytes;
    return account;
  }
  const std::uint64_t rest = account.total_nbytes - known;
  std::uint64_t outside = facts.other_allocators_nbytes;
  if (facts.process_nbytes) outside = *facts.process_nbytes > reserved ? *facts.process_nbytes - reserved : 0;
  account.own_outside_nbytes = std::min(rest, outside);
  (facts.process_nbytes ? account.other_processes_nbytes : account.unattributed_nbytes) =
      rest - account.own_outside_nbytes;
  return account;
}

OomDiagnosis diagnose(const OomFacts& facts) {
  const Case what(facts);
  for (const auto question :
       {&larger_than_device, &pending, &fragmentation, &private_pool, &limit, &address_limit, &others}) {
    if (Answer answer = question(what)) return *std::move(answer);
  }
  return label_grew(what);
}

}  // namespace tessera::memory
