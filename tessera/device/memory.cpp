#include "tessera/device/memory.h"

#include <unistd.h>

#include <bit>
#include <cstdio>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/device/detail/state.h"
#include "tessera/device/device.h"

namespace tessera::device {
namespace {

void check_granular(const DeviceState& device, const char* what, std::size_t value) {
  TESSERA_CHECK(value % device.properties.granularity == 0, what, " ", value,
                " must be a multiple of the granularity of device ", device.name, ", ", device.properties.granularity);
}

RangeState& state_of(const std::unique_ptr<RangeState>& state) {
  TESSERA_CHECK(state != nullptr, "AddressRange must not be empty; create one with Device::reserve");
  state->device->owner.check("address range");
  return *state;
}

void check_inside(const RangeState& range, std::size_t offset, std::size_t nbytes) {
  check_granular(*range.device, "offset", offset);
  check_granular(*range.device, "size", nbytes);
  TESSERA_CHECK(nbytes > 0, "size must be positive, got 0");
  TESSERA_CHECK(nbytes <= range.nbytes && offset <= range.nbytes - nbytes, "[", offset, ", +", nbytes,
                ") is outside the range of ", range.nbytes, " bytes");
}

using Mappings = std::map<std::size_t, std::shared_ptr<MemoryState>>;

// Returns the mappings that make up [offset, offset + nbytes) exactly.
std::pair<Mappings::iterator, Mappings::iterator> whole_mappings(RangeState& range, std::size_t offset,
                                                                 std::size_t nbytes) {
  check_inside(range, offset, nbytes);
  const auto first = range.mappings.find(offset);
  auto it = first;
  std::size_t at = offset;
  while (it != range.mappings.end() && it->first == at && at < offset + nbytes) {
    at += it->second->nbytes;
    ++it;
  }
  TESSERA_CHECK(at == offset + nbytes, "[", offset, ", +", nbytes,
                ") must consist of complete mappings, but is mapped only up to ", at);
  return {first, it};
}

}  // namespace

ExportedMemory::ExportedMemory(ExportedMemory&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), offset_(other.offset_), nbytes_(other.nbytes_) {}
ExportedMemory& ExportedMemory::operator=(ExportedMemory&& other) noexcept {
  std::swap(fd_, other.fd_);
  offset_ = other.offset_;
  nbytes_ = other.nbytes_;
  return *this;
}
ExportedMemory::~ExportedMemory() {
  if (fd_ >= 0) ::close(fd_);
}

MemoryState::~MemoryState() {
  if (!device->owner.is_this()) {
    abandon(backend);
    return;
  }
  if (!is_imported) device->own_nbytes -= nbytes;
}

std::size_t Memory::nbytes() const { return state_ == nullptr ? 0 : state_->nbytes; }

ExportedMemory Memory::export_handle() const {
  TESSERA_CHECK(state_ != nullptr, "export: Memory must not be empty; create one with Device::create_memory");
  state_->device->owner.check("memory");
  TESSERA_CHECK_AS(NotSupported, state_->device->properties.has_export, "device ", state_->device->name,
                   " cannot export memory");
  state_->device->faults.pass(DriverCall::kExport);
  return state_->backend->export_handle();
}

Memory Device::create_memory(std::size_t nbytes) const {
  TESSERA_CHECK(state_ != nullptr, "create_memory: Device must not be empty");
  state_->owner.check("device");
  TESSERA_CHECK(nbytes > 0, "create_memory: nbytes must be positive, got 0");
  check_granular(*state_, "create_memory: size", nbytes);
  state_->faults.pass(DriverCall::kCreateMemory);
  auto memory = std::make_shared<MemoryState>();
  memory->is_imported = true;  // not counted until the backend has created it
  memory->device = state_;
  memory->backend = state_->backend->create_memory(nbytes);
  memory->nbytes = nbytes;
  memory->is_imported = false;
  state_->own_nbytes += nbytes;
  return Memory(std::move(memory));
}

Memory Device::import_memory(const ExportedMemory& exported) const {
  TESSERA_CHECK(state_ != nullptr, "import_memory: Device must not be empty");
  state_->owner.check("device");
  TESSERA_CHECK(exported.fd() >= 0, "import_memory: the descriptor is closed");
  TESSERA_CHECK(exported.nbytes() > 0, "import_memory: nbytes must be positive, got 0");
  check_granular(*state_, "import_memory: size", exported.nbytes());
  state_->faults.pass(DriverCall::kImport);
  auto memory = std::make_shared<MemoryState>();
  memory->is_imported = true;
  memory->device = state_;
  memory->nbytes = exported.nbytes();
  memory->backend = state_->backend->import_memory(exported);
  return Memory(std::move(memory));
}

AddressRange Device::reserve(std::size_t nbytes, std::size_t alignment) const {
  TESSERA_CHECK(state_ != nullptr, "reserve: Device must not be empty");
  state_->owner.check("device");
  TESSERA_CHECK(nbytes > 0, "reserve: nbytes must be positive, got 0");
  check_granular(*state_, "reserve: size", nbytes);
  const std::size_t granularity = state_->properties.granularity;
  if (alignment == 0) alignment = granularity;
  TESSERA_CHECK(std::has_single_bit(alignment) && alignment >= granularity, "reserve: alignment ", alignment,
                " must be a power of two and at least ", granularity);
  state_->faults.pass(DriverCall::kReserve);
  auto range = std::make_unique<RangeState>();
  range->device = state_;
  range->address = state_->backend->reserve(nbytes, alignment);
  range->nbytes = nbytes;
  if (state_->checker != nullptr) state_->checker->forbid(range->address, nbytes, "reserved and not mapped");
  return AddressRange(std::move(range));
}

PinnedMemory Device::allocate_pinned(std::size_t nbytes) const {
  TESSERA_CHECK(state_ != nullptr, "allocate_pinned: Device must not be empty");
  state_->owner.check("device");
  TESSERA_CHECK(nbytes > 0, "allocate_pinned: nbytes must be positive, got 0");
  state_->faults.pass(DriverCall::kAllocatePinned);
  auto pinned = std::make_unique<PinnedState>();
  pinned->device = state_;
  pinned->address = state_->backend->allocate_pinned(nbytes);
  pinned->nbytes = nbytes;
  return PinnedMemory(std::move(pinned));
}

RangeState::~RangeState() {
  if (address == nullptr || !device->owner.is_this()) return;
  try {
    for (const auto& [offset, memory] : mappings) device->backend->unmap(address + offset, memory->nbytes);
    device->backend->release(address, nbytes);
  } catch (const std::exception& error) {  // a destructor cannot report it
    std::fprintf(stderr, "tessera: cannot release an address range of device %s: %s\n", device->name.c_str(),
                 error.what());
  }
  if (device->checker != nullptr) {
    device->checker->forget(address, nbytes);
    device->checker->allow(address, nbytes);
  }
}

AddressRange::AddressRange() = default;
AddressRange::AddressRange(std::unique_ptr<RangeState> state) : state_(std::move(state)) {}
AddressRange::AddressRange(AddressRange&&) noexcept = default;
AddressRange& AddressRange::operator=(AddressRange&&) noexcept = default;
AddressRange::~AddressRange() = default;

std::byte* AddressRange::data() const { return state_of(state_).address; }
std::size_t AddressRange::nbytes() const { return state_of(state_).nbytes; }
std::size_t AddressRange::mapped_nbytes() const {
  const RangeState& range = state_of(state_);
  const std::lock_guard lock(range.mutex);
  return range.mapped_nbytes;
}

void AddressRange::map(std::size_t offset, const Memory& memory) {
  RangeState& range = state_of(state_);
  TESSERA_CHECK(memory.state() != nullptr, "map: Memory must not be empty");
  TESSERA_CHECK(memory.state()->device == range.device, "map: the memory must be of device ", range.device->name,
                ", got ", memory.state()->device->name);
  const std::lock_guard lock(range.mutex);
  check_inside(range, offset, memory.nbytes());
  const auto next = range.mappings.lower_bound(offset);
  const bool hits_next = next != range.mappings.end() && next->first < offset + memory.nbytes();
  const bool hits_previous =
      next != range.mappings.begin() && std::prev(next)->first + std::prev(next)->second->nbytes > offset;
  TESSERA_CHECK(!hits_next && !hits_previous, "map: [", offset, ", +", memory.nbytes(),
                ") is already mapped; unmap it first");
  range.device->faults.pass(DriverCall::kMap);
  range.device->backend->map(range.address + offset, *memory.state()->backend, memory.nbytes());
  range.mappings.emplace(offset, memory.state());
  range.mapped_nbytes += memory.nbytes();
  if (range.device->checker != nullptr) range.device->checker->allow(range.address + offset, memory.nbytes());
}

void AddressRange::unmap(std::size_t offset, std::size_t nbytes) {
  RangeState& range = state_of(state_);
  const std::lock_guard lock(range.mutex);
  auto [it, last] = whole_mappings(range, offset, nbytes);
  while (it != last) {
    range.device->faults.pass(DriverCall::kUnmap);
    range.device->backend->unmap(range.address + it->first, it->second->nbytes);
    range.mapped_nbytes -= it->second->nbytes;
    if (range.device->checker != nullptr) {
      range.device->checker->forget(range.address + it->first, it->second->nbytes);
      range.device->checker->forbid(range.address + it->first, it->second->nbytes, "unmapped");
    }
    it = range.mappings.erase(it);
  }
}

void AddressRange::protect(std::size_t offset, std::size_t nbytes, Protection protection) {
  RangeState& range = state_of(state_);
  const std::lock_guard lock(range.mutex);
  whole_mappings(range, offset, nbytes);
  range.device->faults.pass(DriverCall::kProtect);
  range.device->backend->protect(range.address + offset, nbytes, protection);
}

void AddressRange::share_with(const Device& peer, std::size_t offset, std::size_t nbytes, Protection protection) {
  RangeState& range = state_of(state_);
  TESSERA_CHECK(Device(range.device).can_share_with(peer), "memory of device ", range.device->name,
                " cannot be shared with device ", peer.name());
  const std::lock_guard lock(range.mutex);
  whole_mappings(range, offset, nbytes);
  range.device->faults.pass(DriverCall::kProtect);
  range.device->backend->share(range.address + offset, nbytes, *peer.state()->backend, protection);
}

PinnedState::~PinnedState() {
  if (!device->owner.is_this()) return;
  try {
    if (address != nullptr) device->backend->free_pinned(address, nbytes);
  } catch (const std::exception& error) {  // a destructor cannot report it
    std::fprintf(stderr, "tessera: cannot release pinned memory of device %s: %s\n", device->name.c_str(),
                 error.what());
  }
}

PinnedMemory::PinnedMemory() = default;
PinnedMemory::PinnedMemory(std::unique_ptr<PinnedState> state) : state_(std::move(state)) {}
PinnedMemory::PinnedMemory(PinnedMemory&&) noexcept = default;
PinnedMemory& PinnedMemory::operator=(PinnedMemory&&) noexcept = default;
PinnedMemory::~PinnedMemory() = default;
std::byte* PinnedMemory::data() const { return state_ == nullptr ? nullptr : state_->address; }
std::size_t PinnedMemory::nbytes() const { return state_ == nullptr ? 0 : state_->nbytes; }

}  // namespace tessera::device
