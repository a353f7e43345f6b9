// The symmetric memory of the groups over one communicator, on one rank: the registrations, their log, and memory for
// the signal pads of pools.
//
// A registration is identified by its range and by the current location of its bytes. Memory that is remapped at the
// same addresses is different memory; memory that stays in place while other memory is mapped is the same.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "tessera/comm/communicator.h"
#include "tessera/comm/detail/symmetric/device_bytes.h"
#include "tessera/comm/detail/symmetric/request_log.h"
#include "tessera/comm/symmetric_backend.h"

namespace tessera::comm {

/// A registered range, as one rank sees it.
struct RegisteredRange {
  std::byte* data = nullptr;
  std::size_t nbytes = 0;
  std::vector<std::byte*> peers;               // by group rank; `data` for this rank
  std::shared_ptr<Communicator> communicator;  // keeps the mappings alive
};

namespace detail {

/// Memory of a pool that was mapped at one rendezvous.
struct SymmetricSegment {
  std::uint64_t offset = 0;  // offset in the pool
  std::unique_ptr<DeviceBytes> memory;
  std::vector<std::byte*> peers;  // by group rank
};

/// The symmetric memory of one communicator.
struct SymmetricRegistry {
  struct RegistryEntry {
    std::uint64_t number = 0;  // number of the registration that created it
    PeerPlace place = {};      // location of this rank's bytes
    std::shared_ptr<const RegisteredRange> range;
  };

  /// Returns the number of a new pool, from 1.
  std::uint64_t next_pool();
  /// Returns memory for `nbytes` of signals. Memory is never reused, so that a late put cannot change the signals of
  /// another pool.
  std::pair<std::byte*, std::shared_ptr<const void>> pad(const device::Device& device, std::size_t nbytes);
  /// Keeps the memory of a destroyed pool while its work hangs.
  void keep(std::vector<SymmetricSegment> segments);
  /// Appends a request to the log.
  void note(const SymmetricRequest& request);

  std::mutex mutex;  // protects the members below
  RequestLog log;
  std::map<std::pair<const void*, std::size_t>, RegistryEntry> entries;
  std::uint64_t pools = 0;
  device::Device pad_device;
  std::shared_ptr<DeviceBytes> pads;  // the latest; users keep older ones alive
  std::size_t pads_taken = 0;
  std::vector<SymmetricSegment> kept;

  std::atomic<std::uint64_t> digest{0};  // digest of the log, for operations that are launched
};

}  // namespace detail
}  // namespace tessera::comm
