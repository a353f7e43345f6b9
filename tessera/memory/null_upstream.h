// An upstream without memory: it returns addresses that are not mapped and keeps accounts of what would be. Logs are
// replayed on it at any capacity on any machine (analysis/memory/trace_replay.h), and tests of the allocator need no
// device memory. It rejects, with a reason, calls that a driver rejects: mapping twice, unmapping a range that is not
// one chunk, releasing mapped addresses, exceeding the capacity.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "tessera/base/export.h"
#include "tessera/device/device.h"
#include "tessera/memory/upstream.h"

namespace tessera::memory {

/// Options of a NullUpstream.
struct NullOptions {
  std::size_t capacity_nbytes = std::size_t{80} << 30;  ///< Maximum of mapped bytes.
  std::size_t granularity = std::size_t{2} << 20;       ///< Power of two, at least 512.
  std::string name = "null";                            ///< Shown in reports.
};

/// Counters of a NullUpstream.
struct NullCounts {
  std::uint64_t reservations = 0;        ///< Reservations held now.
  std::uint64_t reserved_nbytes = 0;     ///< Addresses held now, in bytes.
  std::uint64_t mapped_nbytes = 0;       ///< Bytes mapped now.
  std::uint64_t peak_mapped_nbytes = 0;  ///< Maximum of `mapped_nbytes`.
  std::uint64_t maps = 0;                ///< Chunks mapped.
  std::uint64_t unmaps = 0;              ///< Chunks unmapped.
  std::uint64_t moves = 0;               ///< Chunks moved.
};

/// An expandable upstream without memory. Its addresses are distinct, not null and never reused. Accessing one faults
/// on all known machines: bits 55 and 56 are set and higher bits are not, which is non-canonical on x86-64 with four or
/// five page table levels, and in the kernel half on AArch64. Thread-safe.
class TESSERA_API NullUpstream : public ExpandableUpstream {
 public:
  /// First address.
  static constexpr std::uintptr_t kFirstAddress = std::uintptr_t{3} << 55;
  /// End of all addresses.
  static constexpr std::uintptr_t kEndAddress = std::uintptr_t{4} << 55;

  /// Throws InvalidArgument if the granularity is invalid.
  explicit NullUpstream(NullOptions options = {});

  [[nodiscard]] std::string name() const override { return options_.name; }
  [[nodiscard]] std::size_t granularity() const override { return options_.granularity; }
  [[nodiscard]] std::size_t capacity_nbytes() const override { return options_.capacity_nbytes; }
  std::byte* reserve(std::size_t nbytes) override;
  void release(std::byte* address, std::size_t nbytes) override;
  void map(std::byte* address, std::size_t nbytes) override;
  void unmap(std::byte* address, std::size_t nbytes) override;
  void move(std::byte* from, std::byte* to, std::size_t nbytes) override;

  /// Returns the counters.
  [[nodiscard]] NullCounts counts() const;

 private:
  /// Returns new addresses; here consecutive ones, with a gap so that two reservations never touch.
  virtual std::byte* take_addresses(std::size_t nbytes);
  /// Releases addresses.
  virtual void give_addresses(std::byte* address, std::size_t nbytes);
  /// Maps memory to a chunk; here none.
  virtual void back(std::byte* address, std::size_t nbytes);
  /// Unmaps the memory of a chunk.
  virtual void unback(std::byte* address, std::size_t nbytes);

  using Sizes = std::map<std::byte*, std::size_t>;
  void check_size(const char* what, std::size_t nbytes) const;
  void check_free(const char* what, std::byte* address, std::size_t nbytes) const;
  Sizes::iterator piece_at(const char* what, std::byte* address, std::size_t nbytes);

  NullOptions options_;
  mutable std::mutex mutex_;
  Sizes reservations_;
  Sizes pieces_;
  std::uintptr_t next_ = kFirstAddress;
  NullCounts counts_;
};

/// Returns an upstream that reserves real addresses of the device and maps the same granule to all of them, with the
/// granularity of the device and its memory as capacity. It measures the memory of a capture without allocating it.
TESSERA_API std::shared_ptr<ExpandableUpstream> address_only_upstream(const Device& device);

}  // namespace tessera::memory
