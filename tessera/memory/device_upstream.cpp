#include "tessera/memory/device_upstream.h"

#include <unistd.h>

#include <iterator>
#include <map>
#include <mutex>
#include <utility>

#include "tessera/base/error.h"

namespace tessera::memory {
namespace {

using device::AddressRange;
using device::Memory;
using device::PinnedMemory;

// Reserved addresses and their chunks, by offset. `leftovers` are second mappings of chunks that live elsewhere, which
// the driver failed to unmap when a move was undone.
struct Reservation {
  AddressRange range;
  std::map<std::size_t, Memory> pieces;
  std::map<std::size_t, std::size_t> leftovers;

  [[nodiscard]] bool overlaps_piece(std::size_t offset, std::size_t nbytes) const {
    const auto next = pieces.lower_bound(offset);
    if (next != pieces.end() && next->first < offset + nbytes) return true;
    return next != pieces.begin() && std::prev(next)->first + std::prev(next)->second.nbytes() > offset;
  }
};

class DeviceUpstream final : public ExpandableUpstream {
 public:
  explicit DeviceUpstream(Device device) : device_(std::move(device)) {}

  [[nodiscard]] std::string name() const override { return device_.name(); }
  [[nodiscard]] std::size_t granularity() const override { return device_.properties().granularity; }
  [[nodiscard]] std::size_t capacity_nbytes() const override { return device_.memory_use().total_nbytes; }

  std::byte* reserve(std::size_t nbytes) override {
    AddressRange range = device_.reserve(nbytes);
    std::byte* const address = range.data();
    const std::lock_guard lock(mutex_);
    reservations_.emplace(address, Reservation{std::move(range), {}, {}});
    return address;
  }

  void release(std::byte* address, std::size_t nbytes) override {
    const std::lock_guard lock(mutex_);
    const auto at = reservations_.find(address);
    TESSERA_CHECK(at != reservations_.end(), "release: address must be the start of a reservation of ", name(),
                  ", got ", static_cast<void*>(address));
    const Reservation& reservation = at->second;
    TESSERA_CHECK(reservation.range.nbytes() == nbytes, "release: size must be that of the reservation at ",
                  static_cast<void*>(address), ", ", reservation.range.nbytes(), " bytes, got ", nbytes);
    TESSERA_CHECK(reservation.pieces.empty(), "release: the reservation at ", static_cast<void*>(address), " has ",
                  reservation.pieces.size(), " mapped chunks; unmap them first");
    reservations_.erase(at);
  }

  void map(std::byte* address, std::size_t nbytes) override {
    const std::lock_guard lock(mutex_);
    const Place place = free_place(address, nbytes);
    const auto piece = place.reservation->pieces.emplace(place.offset, Memory()).first;
    try {
      piece->second = device_.create_memory(nbytes);
      place.reservation->range.map(place.offset, piece->second);
    } catch (...) {
      place.reservation->pieces.erase(piece);
      throw;
    }
  }

  void unmap(std::byte* address, std::size_t nbytes) override {
    const std::lock_guard lock(mutex_);
    const Place place = piece_place("unmap", address, nbytes);
    place.reservation->range.unmap(place.offset, nbytes);
    place.reservation->pieces.erase(place.offset);
  }

  void move(std::byte* from, std::byte* to, std::size_t nbytes) override {
    const std::lock_guard lock(mutex_);
    const Place old_place = piece_place("move", from, nbytes);
    const Place new_place = free_place(to, nbytes);
    auto& old_pieces = old_place.reservation->pieces;
    auto& new_pieces = new_place.reservation->pieces;
    const auto moved = new_pieces.emplace(new_place.offset, old_pieces.at(old_place.offset)).first;
    try {
      new_place.reservation->range.map(new_place.offset, moved->second);
    } catch (...) {
      new_pieces.erase(moved);
      throw;
    }
    try {
      old_place.reservation->range.unmap(old_place.offset, nbytes);
    } catch (...) {
      new_pieces.erase(moved);
      undo_mapping(new_place, nbytes);
      throw;
    }
    old_pieces.erase(old_place.offset);
  }

 private:
  struct Place {
    Reservation* reservation;
    std::size_t offset;
  };

  Place place_of(const char* what, std::byte* address, std::size_t nbytes) {
    auto at = reservations_.upper_bound(address);
    const bool is_known =
        at != reservations_.begin() && static_cast<std::size_t>(address - (--at)->first) < at->second.range.nbytes();
    TESSERA_CHECK(is_known, what, ": address must be in a reservation of ", name(), ", got ",
                  static_cast<void*>(address));
    const auto offset = static_cast<std::size_t>(address - at->first);
    TESSERA_CHECK(nbytes > 0 && nbytes <= at->second.range.nbytes() - offset, what, ": [", static_cast<void*>(address),
                  ", +", nbytes, ") exceeds its reservation of ", at->second.range.nbytes(), " bytes");
    return {&at->second, offset};
  }

  Place free_place(std::byte* address, std::size_t nbytes) {
    const Place place = place_of("map", address, nbytes);
    TESSERA_CHECK(!place.reservation->overlaps_piece(place.offset, nbytes), "map: [", static_cast<void*>(address),
                  ", +", nbytes, ") is already mapped; unmap it first");
    auto& leftovers = place.reservation->leftovers;
    for (auto it = leftovers.begin(); it != leftovers.end();) {
      const bool is_here = it->first < place.offset + nbytes && it->first + it->second > place.offset;
      if (is_here) place.reservation->range.unmap(it->first, it->second);
      it = is_here ? leftovers.erase(it) : std::next(it);
    }
    return place;
  }

  Place piece_place(const char* what, std::byte* address, std::size_t nbytes) {
    const Place place = place_of(what, address, nbytes);
    const auto piece = place.reservation->pieces.find(place.offset);
    TESSERA_CHECK(piece != place.reservation->pieces.end(), what, ": address must be the start of a mapped chunk, got ",
                  static_cast<void*>(address));
    TESSERA_CHECK(piece->second.nbytes() == nbytes, what, ": size must be that of the chunk mapped at ",
                  static_cast<void*>(address), ", ", piece->second.nbytes(), " bytes, got ", nbytes);
    return place;
  }

  static void undo_mapping(const Place& place, std::size_t nbytes) {
    try {
      place.reservation->range.unmap(place.offset, nbytes);
    } catch (const Error&) {
      place.reservation->leftovers.emplace(place.offset, nbytes);
    }
  }

  Device device_;
  std::mutex mutex_;
  std::map<std::byte*, Reservation> reservations_;  // by first address
};

class FixedUpstream final : public Upstream {
 public:
  explicit FixedUpstream(const Device& device) : inner_(device) {}
  [[nodiscard]] std::string name() const override { return inner_.name(); }
  [[nodiscard]] std::size_t granularity() const override { return inner_.granularity(); }
  [[nodiscard]] std::size_t capacity_nbytes() const override { return inner_.capacity_nbytes(); }
  std::byte* allocate(std::size_t nbytes) override { return inner_.allocate(nbytes); }
  void free(std::byte* address, std::size_t nbytes) override { inner_.free(address, nbytes); }

 private:
  DeviceUpstream inner_;
};

class PinnedUpstream final : public Upstream {
 public:
  explicit PinnedUpstream(Device device) : device_(std::move(device)) {}
  [[nodiscard]] std::string name() const override { return "pinned memory of " + device_.name(); }
  [[nodiscard]] std::size_t granularity() const override { return std::size_t{64} << 10; }
  [[nodiscard]] std::size_t capacity_nbytes() const override {
    return static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  }

  std::byte* allocate(std::size_t nbytes) override {
    TESSERA_CHECK(nbytes > 0 && nbytes % granularity() == 0, "allocate: size on ", name(), " must be a multiple of ",
                  granularity(), " bytes, got ", nbytes);
    PinnedMemory memory = device_.allocate_pinned(nbytes);
    std::byte* const address = memory.data();
    const std::lock_guard lock(mutex_);
    segments_.emplace(address, std::move(memory));
    return address;
  }

  void free(std::byte* address, std::size_t nbytes) override {
    const std::lock_guard lock(mutex_);
    const auto at = segments_.find(address);
    TESSERA_CHECK(at != segments_.end(), "free: address must be the start of a segment of ", name(), ", got ",
                  static_cast<void*>(address));
    TESSERA_CHECK(at->second.nbytes() == nbytes, "free: size must be that of the segment at ",
                  static_cast<void*>(address), ", ", at->second.nbytes(), " bytes, got ", nbytes);
    segments_.erase(at);
  }

 private:
  Device device_;
  std::mutex mutex_;
  std::map<std::byte*, PinnedMemory> segments_;  // by first address
};

void check_device(const Device& device) {
  TESSERA_CHECK(static_cast<bool>(device), "upstream: device must not be empty; get one with Device::get");
}

}  // namespace

std::shared_ptr<ExpandableUpstream> device_upstream(const Device& device) {
  check_device(device);
  return std::make_shared<DeviceUpstream>(device);
}

std::shared_ptr<Upstream> fixed_upstream(const Device& device) {
  check_device(device);
  return std::make_shared<FixedUpstream>(device);
}

std::shared_ptr<Upstream> pinned_upstream(const Device& device) {
  check_device(device);
  return std::make_shared<PinnedUpstream>(device);
}

}  // namespace tessera::memory
