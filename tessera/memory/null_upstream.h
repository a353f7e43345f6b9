// An upstream that reserves no memory: addresses that nothing stands behind, and books of what would be mapped. A log
// is replayed over it at any capacity on any machine (trace_replay.h), and tests of the allocator's own choices need no
// device memory. It refuses what a driver would refuse, and names it: mapping twice, unmapping what is not one piece,
// releasing what is still mapped, going past the capacity.
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

/// How a NullUpstream is made.
struct NullOptions {
  std::size_t capacity_nbytes = std::size_t{80} << 30;  ///< most that may be mapped at once
  std::size_t granularity = std::size_t{2} << 20;       ///< a power of two, at least 512
  std::string name = "null";                            ///< shown in reports
};

/// What was asked of a NullUpstream.
struct NullCounts {
  std::uint64_t reservations = 0;        ///< held now
  std::uint64_t reserved_nbytes = 0;     ///< addresses held now
  std::uint64_t mapped_nbytes = 0;       ///< mapped now
  std::uint64_t peak_mapped_nbytes = 0;  ///< most ever mapped
  std::uint64_t maps = 0;                ///< pieces mapped
  std::uint64_t unmaps = 0;              ///< pieces unmapped
  std::uint64_t moves = 0;               ///< pieces moved
};

/// An expandable upstream of nothing. Its addresses are distinct, never null and never given twice; touching one is a
/// fault on every machine we know: bits 55 and 56 are set and those above are not, which x86-64 calls not canonical
/// with four or five levels of pages, and AArch64 the kernel's half. Thread-safe.
class TESSERA_API NullUpstream : public ExpandableUpstream {
 public:
  /// The first address it gives.
  static constexpr std::uintptr_t kFirstAddress = std::uintptr_t{3} << 55;
  /// The end of those it could ever give.
  static constexpr std::uintptr_t kEndAddress = std::uintptr_t{4} << 55;

  /// Refuses a granularity that is none.
  explicit NullUpstream(NullOptions options = {});

  [[nodiscard]] std::string name() const override { return options_.name; }
  [[nodiscard]] std::size_t granularity() const override { return options_.granularity; }
  [[nodiscard]] std::size_t capacity_nbytes() const override { return options_.capacity_nbytes; }
  std::byte* reserve(std::size_t nbytes) override;
  void release(std::byte* address, std::size_t nbytes) override;
  void map(std::byte* address, std::size_t nbytes) override;
  void unmap(std::byte* address, std::size_t nbytes) override;
  void move(std::byte* from, std::byte* to, std::size_t nbytes) override;

  /// What it holds and did.
  [[nodiscard]] NullCounts counts() const;

 private:
  /// Where addresses come from; here: one after the other, with a gap so that two reservations never touch.
  virtual std::byte* take_addresses(std::size_t nbytes);
  /// Where they go.
  virtual void give_addresses(std::byte* address, std::size_t nbytes);
  /// What stands behind a piece; here: nothing.
  virtual void back(std::byte* address, std::size_t nbytes);
  /// The opposite.
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

/// Reserves real addresses of the device and maps one and the same granule behind all of them, with the device's
/// granularity and memory as capacity: what a capture would take can be told before it is made, without the memory.
TESSERA_API std::shared_ptr<ExpandableUpstream> address_only_upstream(const Device& device);

}  // namespace tessera::memory
