#include "tessera/comm/symmetric.h"

#include <algorithm>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/comm/detail/backend_hint.h"
#include "tessera/comm/detail/group_state.h"
#include "tessera/comm/detail/peer_memory/failures.h"
#include "tessera/comm/detail/symmetric/registry.h"
#include "tessera/comm/detail/symmetric/rendezvous.h"
#include "tessera/comm/detail/symmetric/symmetric_state.h"
#include "tessera/device/device.h"

namespace tessera::comm {
namespace {

using detail::RankContribution;
using detail::SymmetricRequest;

constexpr int kMaxChannels = 1024;

SymmetricBackend* backend_of(const ProcessGroup& group, const device::Stream& stream) {
  TESSERA_CHECK(group, "symmetric memory: group handle must not be empty; this rank is not a member");
  TESSERA_CHECK(stream, "symmetric memory of group ", group.name(), ": stream must not be empty");
  Communicator& communicator = *group.state()->communicator;
  TESSERA_CHECK_AS(NotSupported, communicator.symmetric() != nullptr, "group ", group.name(), ": backend ",
                   group.backend(), " does not support symmetric memory; ",
                   detail::backend_hint(&Capabilities::has_symmetric));
  const device::Device device = stream.device();
  const auto can = [&](const Capabilities& other) { return other.has_symmetric && other.supports(device); };
  TESSERA_CHECK_AS(NotSupported, communicator.capabilities().supports(device), "group ", group.name(), ": backend ",
                   group.backend(), " does not support memory of ", device.name(), "; ", detail::backend_hint(can));
  return communicator.symmetric();
}

// Returns true if a failed stream has no more work to run.
bool has_ended(const device::Stream& stream) {
  try {
    return stream.query();
  } catch (const std::exception&) {
    return true;
  }
}

SymmetricState& state_of(const std::shared_ptr<SymmetricState>& state) {
  TESSERA_CHECK(state != nullptr, "symmetric pool handle must not be empty");
  state->group.state()->owner.check("symmetric memory");
  return *state;
}

}  // namespace

SymmetricState::SymmetricState(const ProcessGroup& its_group, const device::Stream& its_stream)
    : group(its_group), stream(its_stream), backend(backend_of(its_group, its_stream)) {}

SymmetricState::~SymmetricState() {
  if (!group.state()->owner.is_this()) return;
  constexpr std::chrono::seconds kBound(2);
  const device::Device device = stream.device();
  streams.insert(stream.id());
  bool is_idle = true;
  for (const StreamId id : streams) {
    const device::Stream used = device.stream(id);
    if (!used) continue;
    try {
      used.synchronize(kBound);
    } catch (const std::exception&) {
      is_idle &= has_ended(used);
    }
  }
  // A hanging operation may still access it, so it is kept as long as the ranks of the group.
  if (!is_idle) group.state()->symmetric->keep(std::move(segments));
}

void SymmetricState::check_usable() const {
  TESSERA_CHECK_AS(MismatchError, !is_broken.load(std::memory_order_acquire), "group ", group.name(), ": ", name, ": ",
                   broken);
}

void SymmetricState::create(std::size_t nbytes) {
  const std::lock_guard lock(mutex);
  note({.kind = SymmetricRequest::Kind::kPool, .nbytes = nbytes, .number = static_cast<std::uint64_t>(channels)});
  const std::size_t lines = static_cast<std::size_t>(channels) * static_cast<std::size_t>(group.size());
  const std::vector<RankContribution> records = meet_and_map(nbytes, lines);
  SignalPads pads{.group = std::shared_ptr<const std::string>(group.state(), &group.name()),
                  .pool = name,
                  .channels = channels,
                  .pads = {},
                  .memory = pad.second,
                  .record = std::shared_ptr<detail::GroupRecord>(group.state(), &group.state()->record)};
  for (int peer = 0; peer < group.size(); ++peer) {
    std::byte* at =
        peer == group.rank() ? pad.first : backend->reach(peer, records[static_cast<std::size_t>(peer)].pad);
    pads.pads.push_back(reinterpret_cast<SignalLine*>(at));
  }
  signals = backend->connect_signals(std::move(pads));
}

void SymmetricState::take_pad(std::size_t lines) {
  const std::size_t nbytes = lines * sizeof(SignalLine);
  pad = group.state()->symmetric->pad(stream.device(), nbytes);
  // Before the rendezvous, in stream order: no rank puts before all values are zero.
  stream.fill(pad.first, 0, 4, nbytes / 4, "signal pad");
}

// Maps a pad of `pad_lines` lines and a segment of `nbytes`; skips each if it is 0. Succeeds on all ranks, or on none
// without changing the pool.
std::vector<RankContribution> SymmetricState::meet_and_map(std::uint64_t nbytes, std::size_t pad_lines) {
  Segment segment{.offset = plan.mapped(), .memory = nullptr, .peers = {}};
  RankContribution mine{.pool = number, .log = log};
  const auto place = [&](const void* address, std::size_t length) {
    const std::optional<PeerPlace> found = backend->place_of(address, length);
    if (!found) mine.problem = RankContribution::Problem::kUnreachable;
    return found.value_or(PeerPlace{});
  };
  std::exception_ptr error;
  try {
    if (pad_lines > 0) take_pad(pad_lines);
    if (nbytes > 0) segment.memory = std::make_unique<detail::DeviceBytes>(stream.device(), nbytes);
  } catch (const std::exception&) {
    error = std::current_exception();
    mine.problem = RankContribution::Problem::kNoMemory;
  }
  if (segment.memory != nullptr) mine.memory = place(segment.memory->data(), segment.memory->nbytes());
  if (pad_lines > 0 && error == nullptr) mine.pad = place(pad.first, pad_lines * sizeof(SignalLine));
  std::vector<RankContribution> records = detail::meet(group, stream, mine, 0);
  if (std::string differs = detail::difference(records); !differs.empty()) {
    broken = std::move(differs);
    is_broken.store(true, std::memory_order_release);
  }
  check_usable();
  if (error) std::rethrow_exception(error);
  const std::vector<int> failed = detail::ranks_with(records, RankContribution::Problem::kNoMemory);
  TESSERA_CHECK_AS(AbortedError, failed.empty(), "group ", group.name(), ": ", name, ": ",
                   detail::text_of_ranks(failed), " could not map its memory (", nbytes,
                   " bytes); nothing has changed");
  const std::vector<int> unreachable = detail::ranks_with(records, RankContribution::Problem::kUnreachable);
  TESSERA_CHECK_AS(NotSupported, unreachable.empty(), "group ", group.name(), ": ", name,
                   ": peers cannot access the memory of ", detail::text_of_ranks(unreachable),
                   "; use a stream of the host device of that rank");
  if (nbytes == 0) return records;
  for (int peer = 0; peer < group.size(); ++peer) {
    const PeerPlace& at = records[static_cast<std::size_t>(peer)].memory;
    segment.peers.push_back(peer == group.rank() ? segment.memory->data() : backend->reach(peer, at));
  }
  plan.grow(segment.memory->nbytes());
  const std::lock_guard lock(lookup_mutex);
  segments.push_back(std::move(segment));
  return records;
}

void SymmetricState::rendezvous() {
  TESSERA_CHECK(!stream.is_capturing(), "group ", group.name(), ": ", name,
                ": rendezvous must not run in a capture, because it maps memory; call it before the capture");
  const std::lock_guard lock(mutex);
  check_usable();
  (void)meet_and_map(plan.to_come(), 0);
}

std::byte* SymmetricState::find(std::uint64_t offset, int peer) {
  const std::lock_guard lock(lookup_mutex);
  const auto after = std::ranges::upper_bound(segments, offset, {}, &Segment::offset);
  if (after == segments.begin()) return nullptr;
  const Segment& segment = *std::prev(after);
  const std::uint64_t inside = offset - segment.offset;
  if (inside >= segment.memory->nbytes()) return nullptr;
  return segment.peers[static_cast<std::size_t>(peer)] + inside;
}

void SymmetricState::note(const SymmetricRequest& request) {
  log.add(request);
  digest.store(log.digest, std::memory_order_release);
}

std::uint64_t SymmetricState::allocate(std::size_t nbytes) {
  const std::lock_guard lock(mutex);
  check_usable();
  const std::uint64_t offset = plan.allocate(nbytes);
  note({.kind = SymmetricRequest::Kind::kAllocate, .nbytes = nbytes});
  return offset;
}

void SymmetricState::free(std::uint64_t offset, std::size_t nbytes) noexcept {
  const std::lock_guard lock(mutex);
  plan.free(offset, nbytes);
  note({.kind = SymmetricRequest::Kind::kFree, .nbytes = nbytes, .number = offset});
}

void SymmetricState::signal(Signal signal, const device::Stream& on) {
  const int size = group.size();
  TESSERA_CHECK(signal.channel >= 0 && signal.channel < channels, "group ", group.name(), ": ", name,
                ": channel must be in [0, ", channels - 1, "], got ", signal.channel);
  TESSERA_CHECK(signal.peer >= 0 && signal.peer < size, "group ", group.name(), ": ", name, ": rank must be in [0, ",
                size - 1, "], got ", signal.peer);
  TESSERA_CHECK(on && on.device() == stream.device(), "group ", group.name(), ": ", name,
                ": signals must use a stream of ", stream.device().name(), ", got ",
                on ? on.device().name() : "an empty stream");
  check_usable();
  signal.deadline = group.deadline();
  if (signal.kind == Signal::Kind::kBarrier && !on.is_capturing()) {
    constexpr std::uint64_t kMask = (std::uint64_t{1} << kLogBits) - 1;
    signal.log = std::max<std::uint64_t>(digest.load(std::memory_order_acquire) & kMask, 1);
  }
  {
    const std::lock_guard lock(lookup_mutex);
    streams.insert(on.id());
  }
  signals->enqueue(signal, on);
}

SymmetricBuffer::SymmetricBuffer(std::shared_ptr<SymmetricState> pool, std::uint64_t offset, std::size_t nbytes)
    : pool_(std::move(pool)), offset_(offset), nbytes_(nbytes) {}
SymmetricBuffer::SymmetricBuffer(std::shared_ptr<const RegisteredRange> range)
    : range_(std::move(range)), nbytes_(range_->nbytes) {}
SymmetricBuffer::SymmetricBuffer(SymmetricBuffer&& other) noexcept
    : pool_(std::move(other.pool_)), range_(std::move(other.range_)), offset_(other.offset_), nbytes_(other.nbytes_) {}
SymmetricBuffer& SymmetricBuffer::operator=(SymmetricBuffer&& other) noexcept {
  if (this == &other) return *this;
  reset();
  pool_ = std::move(other.pool_);
  range_ = std::move(other.range_);
  offset_ = other.offset_;
  nbytes_ = other.nbytes_;
  return *this;
}

bool SymmetricBuffer::is_mapped() const {
  return range_ != nullptr || (pool_ != nullptr && pool_->find(offset_, pool_->group.rank()) != nullptr);
}

std::byte* SymmetricBuffer::data() const {
  if (range_ != nullptr) return range_->data;
  return peer(state_of(pool_).group.rank());
}

std::byte* SymmetricBuffer::peer(int rank) const {
  const int size = range_ != nullptr ? static_cast<int>(range_->peers.size()) : state_of(pool_).group.size();
  TESSERA_CHECK(rank >= 0 && rank < size, "symmetric memory: rank must be in [0, ", size - 1, "], got ", rank);
  if (range_ != nullptr) return range_->peers[static_cast<std::size_t>(rank)];
  std::byte* at = pool_->find(offset_, rank);
  TESSERA_CHECK(at != nullptr, "group ", pool_->group.name(), ": ", pool_->name, ": the buffer of ", nbytes_,
                " bytes at offset ", offset_, " is not mapped yet; call rendezvous() on all ranks first");
  return at;
}

std::size_t SymmetricBuffer::nbytes() const { return *this ? nbytes_ : 0; }

void SymmetricBuffer::reset() noexcept {
  if (pool_ != nullptr && pool_->group.state()->owner.is_this()) pool_->free(offset_, nbytes_);
  pool_.reset();
  range_.reset();
}

SymmetricPool::SymmetricPool(const ProcessGroup& group, const device::Stream& stream, const SymmetricOptions& options)
    : state_(std::make_shared<SymmetricState>(group, stream)) {
  TESSERA_CHECK(options.channels >= 1 && options.channels <= kMaxChannels, "group ", group.name(),
                ": channels must be in [1, ", kMaxChannels, "], got ", options.channels);
  TESSERA_CHECK(options.nbytes <= detail::OffsetPlan::kMax, "group ", group.name(), ": a pool must have at most ",
                detail::OffsetPlan::kMax, " bytes, got ", options.nbytes);
  TESSERA_CHECK(!stream.is_capturing(), "group ", group.name(),
                ": a pool must not be created in a capture; create it before the capture");
  state_->number = group.state()->symmetric->next_pool();
  state_->name = options.name.empty() ? "pool " + std::to_string(state_->number) : options.name;
  state_->channels = options.channels;
  state_->create(options.nbytes);
}

SymmetricBuffer SymmetricPool::allocate(std::size_t nbytes) const {
  return SymmetricBuffer(state_, state_of(state_).allocate(nbytes), nbytes);
}
void SymmetricPool::rendezvous() const { state_of(state_).rendezvous(); }

void SymmetricPool::put_signal(int peer, int channel, const device::Stream& stream) const {
  state_of(state_).signal({.kind = Signal::Kind::kPut, .peer = peer, .channel = channel}, stream);
}
void SymmetricPool::wait_signal(int peer, int channel, const device::Stream& stream) const {
  state_of(state_).signal({.kind = Signal::Kind::kWait, .peer = peer, .channel = channel}, stream);
}
void SymmetricPool::barrier(int channel, const device::Stream& stream) const {
  state_of(state_).signal({.kind = Signal::Kind::kBarrier, .channel = channel}, stream);
}

const std::string& SymmetricPool::name() const { return state_of(state_).name; }
const ProcessGroup& SymmetricPool::group() const { return state_of(state_).group; }
int SymmetricPool::channels() const { return state_of(state_).channels; }
std::size_t SymmetricPool::mapped_nbytes() const {
  SymmetricState& state = state_of(state_);
  const std::lock_guard lock(state.mutex);
  return state.plan.mapped();
}

}  // namespace tessera::comm
