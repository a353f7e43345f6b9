#include "tessera/comm/detail/symmetric/registry.h"

#include <algorithm>
#include <iterator>

#include "tessera/base/error.h"
#include "tessera/comm/detail/backend_hint.h"
#include "tessera/comm/detail/group_state.h"
#include "tessera/comm/detail/peer_memory/failures.h"
#include "tessera/comm/detail/symmetric/rendezvous.h"
#include "tessera/comm/symmetric.h"

namespace tessera::comm {
namespace detail {

std::uint64_t SymmetricRegistry::next_pool() {
  const std::lock_guard lock(mutex);
  return ++pools;
}

std::pair<std::byte*, std::shared_ptr<const void>> SymmetricRegistry::pad(const device::Device& device,
                                                                          std::size_t nbytes) {
  const std::lock_guard lock(mutex);
  if (pads == nullptr || !(pad_device == device) || pads->nbytes() - pads_taken < nbytes) {
    pads = std::make_shared<DeviceBytes>(device, nbytes);
    pad_device = device;
    pads_taken = 0;
  }
  std::byte* at = pads->data() + pads_taken;
  pads_taken += nbytes;
  return {at, pads};
}

void SymmetricRegistry::keep(std::vector<SymmetricSegment> segments) {
  const std::lock_guard lock(mutex);
  std::ranges::move(segments, std::back_inserter(kept));
}

void SymmetricRegistry::note(const SymmetricRequest& request) {
  log.add(request);
  digest.store(log.digest, std::memory_order_release);
}

namespace {

// Starts again after ranks differed: all of them got the error at this point, and have no registrations.
void forget(SymmetricRegistry& registry, std::span<const RankContribution> records) {
  std::uint64_t most = 0;
  for (const RankContribution& record : records) most = std::max(most, record.log.count);
  registry.entries.clear();
  registry.log = RequestLog();
  registry.log.count = most;
  registry.digest.store(0, std::memory_order_release);
}

std::shared_ptr<const RegisteredRange> reach_all(const ProcessGroup& group, std::byte* data, std::size_t nbytes,
                                                 std::span<const RankContribution> records) {
  auto range = std::make_shared<RegisteredRange>();
  range->data = data;
  range->nbytes = nbytes;
  range->communicator = group.state()->communicator;
  for (int peer = 0; peer < group.size(); ++peer) {
    const PeerPlace& place = records[static_cast<std::size_t>(peer)].memory;
    range->peers.push_back(peer == group.rank() ? data : range->communicator->symmetric()->reach(peer, place));
  }
  return range;
}

}  // namespace
}  // namespace detail

SymmetricBuffer register_memory(const ProcessGroup& group, void* data, std::size_t nbytes,
                                const device::Stream& stream) {
  using detail::RankContribution;
  using detail::SymmetricRequest;
  TESSERA_CHECK(group, "register_memory: group handle must not be empty; this rank is not a member");
  group.state()->owner.check("process group");
  SymmetricBackend* backend = group.state()->communicator->symmetric();
  TESSERA_CHECK_AS(NotSupported, backend != nullptr, "group ", group.name(), ": backend ", group.backend(),
                   " does not support symmetric memory; ", detail::backend_hint(&Capabilities::has_symmetric));
  TESSERA_CHECK(data != nullptr && nbytes > 0, "group ", group.name(),
                ": register_memory needs data and nbytes > 0, got ", nbytes, " bytes at ", data);
  detail::SymmetricRegistry& registry = *group.state()->symmetric;
  const std::lock_guard lock(registry.mutex);
  const std::optional<PeerPlace> place = backend->place_of(data, nbytes);
  const auto key = std::pair<const void*, std::size_t>(data, nbytes);
  const auto found = registry.entries.find(key);
  const bool is_known = found != registry.entries.end() && place == found->second.place;
  if (is_known) {
    registry.note({.kind = SymmetricRequest::Kind::kFind, .nbytes = nbytes, .number = found->second.number});
    backend->note_passed(registry.log.count);
    return SymmetricBuffer(found->second.range);
  }
  TESSERA_CHECK(!stream.is_capturing(), "group ", group.name(), ": the first register_memory of ", nbytes,
                " bytes must not run in a capture, because all ranks take part; call it before the capture");
  registry.note({.kind = SymmetricRequest::Kind::kRegister, .nbytes = nbytes});
  const RankContribution mine{
      .problem = place ? RankContribution::Problem::kNone : RankContribution::Problem::kUnreachable,
      .memory = place.value_or(PeerPlace{}),
      .log = registry.log};
  const std::vector<RankContribution> records = detail::meet(group, stream, mine, registry.log.count);
  const std::string differs = detail::difference(records);
  if (!differs.empty()) {
    detail::forget(registry, records);
    TESSERA_THROW(MismatchError, "group ", group.name(), ": registrations: ", differs);
  }
  const std::vector<int> unreachable = detail::ranks_with(records, RankContribution::Problem::kUnreachable);
  TESSERA_CHECK(unreachable.empty(), "group ", group.name(), ": register_memory of ", nbytes,
                " bytes: peers cannot access the memory of ", detail::text_of_ranks(unreachable),
                "; it must be one allocation of the device; allocate it from a SymmetricPool");
  const auto range = detail::reach_all(group, static_cast<std::byte*>(data), nbytes, records);
  registry.entries[key] = {.number = registry.log.count, .place = *place, .range = range};
  return SymmetricBuffer(range);
}

void deregister_memory(const ProcessGroup& group, const void* data, std::size_t nbytes) {
  TESSERA_CHECK(group, "deregister_memory: group handle must not be empty; this rank is not a member");
  group.state()->owner.check("process group");
  detail::SymmetricRegistry& registry = *group.state()->symmetric;
  const std::lock_guard lock(registry.mutex);
  const auto found = registry.entries.find({data, nbytes});
  TESSERA_CHECK(found != registry.entries.end(), "group ", group.name(), ": deregister_memory: ", nbytes, " bytes at ",
                data, " are not registered; pass a registered range");
  registry.note({.kind = detail::SymmetricRequest::Kind::kForget, .nbytes = nbytes, .number = found->second.number});
  group.state()->communicator->symmetric()->note_passed(registry.log.count);
  registry.entries.erase(found);
}

}  // namespace tessera::comm
