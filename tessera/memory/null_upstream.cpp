#include "tessera/memory/null_upstream.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <utility>

#include "tessera/base/bytes.h"
#include "tessera/base/error.h"

namespace tessera::memory {
namespace {

// Reserves addresses of the device, so that they are unique, and maps one granule at all mapped ranges, so that a
// driver that checks addresses accepts them. The null upstream does the accounting.
class AddressOnlyUpstream final : public NullUpstream {
 public:
  explicit AddressOnlyUpstream(const Device& device)
      : NullUpstream({.capacity_nbytes = device.memory_use().total_nbytes,
                      .granularity = device.properties().granularity,
                      .name = "addresses of " + device.name()}),
        device_(device) {}

 private:
  std::byte* take_addresses(std::size_t nbytes) override {
    device::AddressRange range = device_.reserve(nbytes);
    std::byte* const address = range.data();
    ranges_.emplace(address, std::move(range));
    return address;
  }
  void give_addresses(std::byte* address, std::size_t /*nbytes*/) override { ranges_.erase(address); }
  void back(std::byte* address, std::size_t nbytes) override {
    if (!granule_) granule_ = device_.create_memory(granularity());
    auto& [base, range] = *std::prev(ranges_.upper_bound(address));
    const auto begin = static_cast<std::size_t>(address - base);
    std::size_t done = 0;
    try {
      for (; done < nbytes; done += granularity()) range.map(begin + done, granule_);
    } catch (...) {
      if (done > 0) range.unmap(begin, done);
      throw;
    }
  }
  void unback(std::byte* address, std::size_t nbytes) override {
    auto& [base, range] = *std::prev(ranges_.upper_bound(address));
    const auto begin = static_cast<std::size_t>(address - base);
    std::size_t done = 0;
    try {
      for (; done < nbytes; done += granularity()) range.unmap(begin + done, granularity());
    } catch (...) {
      if (done > 0) back(address, done);
      throw;
    }
  }

  Device device_;
  device::Memory granule_;
  std::map<std::byte*, device::AddressRange> ranges_;
};

}  // namespace

NullUpstream::NullUpstream(NullOptions options) : options_(std::move(options)) {
  TESSERA_CHECK(std::has_single_bit(options_.granularity) && options_.granularity >= 512,
                "null upstream: granularity must be a power of two of at least 512, got ", options_.granularity);
}

std::byte* NullUpstream::reserve(std::size_t nbytes) {
  check_size("reserve", nbytes);
  const std::lock_guard lock(mutex_);
  std::byte* const address = take_addresses(nbytes);
  reservations_.emplace(address, nbytes);
  ++counts_.reservations;
  counts_.reserved_nbytes += nbytes;
  return address;
}

void NullUpstream::release(std::byte* address, std::size_t nbytes) {
  const std::lock_guard lock(mutex_);
  const auto at = reservations_.find(address);
  TESSERA_CHECK(at != reservations_.end(), "release: address must be the start of a reservation of ", options_.name,
                ", got ", static_cast<void*>(address));
  TESSERA_CHECK(at->second == nbytes, "release: size must be that of the reservation at ", static_cast<void*>(address),
                ", ", at->second, " bytes, got ", nbytes);
  const auto piece = pieces_.lower_bound(address);
  TESSERA_CHECK(piece == pieces_.end() || piece->first >= address + nbytes,
                "release: ", static_cast<void*>(piece->first), " in the reservation at ", static_cast<void*>(address),
                " is still mapped; unmap it first");
  reservations_.erase(at);
  --counts_.reservations;
  counts_.reserved_nbytes -= nbytes;
  give_addresses(address, nbytes);
}

void NullUpstream::map(std::byte* address, std::size_t nbytes) {
  check_size("map", nbytes);
  const std::lock_guard lock(mutex_);
  check_free("map", address, nbytes);
  TESSERA_CHECK_AS(OutOfMemory, nbytes <= options_.capacity_nbytes - counts_.mapped_nbytes,
                   "map: ", format_bytes(nbytes), " more do not fit: ", options_.name, " has ",
                   format_bytes(options_.capacity_nbytes), ", ", format_bytes(counts_.mapped_nbytes), " are mapped");
  back(address, nbytes);
  pieces_.emplace(address, nbytes);
  ++counts_.maps;
  counts_.mapped_nbytes += nbytes;
  counts_.peak_mapped_nbytes = std::max(counts_.peak_mapped_nbytes, counts_.mapped_nbytes);
}

void NullUpstream::unmap(std::byte* address, std::size_t nbytes) {
  const std::lock_guard lock(mutex_);
  const auto piece = piece_at("unmap", address, nbytes);
  unback(address, nbytes);
  pieces_.erase(piece);
  ++counts_.unmaps;
  counts_.mapped_nbytes -= nbytes;
}

void NullUpstream::move(std::byte* from, std::byte* to, std::size_t nbytes) {
  check_size("move", nbytes);
  const std::lock_guard lock(mutex_);
  const auto piece = piece_at("move", from, nbytes);
  check_free("move", to, nbytes);
  back(to, nbytes);
  unback(from, nbytes);
  auto node = pieces_.extract(piece);
  node.key() = to;
  pieces_.insert(std::move(node));
  ++counts_.moves;
}

NullCounts NullUpstream::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

std::byte* NullUpstream::take_addresses(std::size_t nbytes) {
  const std::size_t room = kEndAddress - next_;
  const bool fits = nbytes <= room && options_.granularity <= room - nbytes;
  TESSERA_CHECK_AS(OutOfMemory, fits, "reserve: ", options_.name, " has less than ", format_bytes(nbytes),
                   " of free addresses");
  auto* const address = reinterpret_cast<std::byte*>(next_);  // NOLINT(performance-no-int-to-ptr): made up
  next_ += nbytes + options_.granularity;
  return address;
}

void NullUpstream::give_addresses(std::byte* /*address*/, std::size_t /*nbytes*/) {}
void NullUpstream::back(std::byte* /*address*/, std::size_t /*nbytes*/) {}
void NullUpstream::unback(std::byte* /*address*/, std::size_t /*nbytes*/) {}

void NullUpstream::check_size(const char* what, std::size_t nbytes) const {
  TESSERA_CHECK(nbytes > 0 && nbytes % options_.granularity == 0, what,
                ": size must be a multiple of the granularity of ", options_.name, ", ", options_.granularity, ", got ",
                nbytes);
}

// Checks that [address, address + nbytes) is in one reservation, aligned and unmapped.
void NullUpstream::check_free(const char* what, std::byte* address, std::size_t nbytes) const {
  auto at = reservations_.upper_bound(address);
  const bool is_inside = at != reservations_.begin() && static_cast<std::size_t>(address - (--at)->first) < at->second;
  TESSERA_CHECK(is_inside, what, ": address must be in a reservation of ", options_.name, ", got ",
                static_cast<void*>(address));
  const auto offset = static_cast<std::size_t>(address - at->first);
  TESSERA_CHECK(nbytes <= at->second - offset, what, ": [", static_cast<void*>(address), ", +", nbytes,
                ") exceeds its reservation of ", at->second, " bytes");
  TESSERA_CHECK(offset % options_.granularity == 0, what, ": offset in the reservation must be a multiple of ",
                options_.granularity, ", got ", offset);
  const auto next = pieces_.lower_bound(address);
  const bool hits_next = next != pieces_.end() && next->first < address + nbytes;
  const bool hits_previous = next != pieces_.begin() && std::prev(next)->first + std::prev(next)->second > address;
  TESSERA_CHECK(!hits_next && !hits_previous, what, ": [", static_cast<void*>(address), ", +", nbytes,
                ") is already mapped; unmap it first");
}

NullUpstream::Sizes::iterator NullUpstream::piece_at(const char* what, std::byte* address, std::size_t nbytes) {
  const auto piece = pieces_.find(address);
  TESSERA_CHECK(piece != pieces_.end(), what, ": address must be the start of a mapped chunk, got ",
                static_cast<void*>(address));
  TESSERA_CHECK(piece->second == nbytes, what, ": size must be that of the chunk mapped at ",
                static_cast<void*>(address), ", ", piece->second, " bytes, got ", nbytes);
  return piece;
}

std::shared_ptr<ExpandableUpstream> address_only_upstream(const Device& device) {
  TESSERA_CHECK(static_cast<bool>(device), "address_only_upstream: device must not be empty; get one with Device::get");
  return std::make_shared<AddressOnlyUpstream>(device);
}

}  // namespace tessera::memory
