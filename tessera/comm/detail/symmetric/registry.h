// What the groups of one set of ranks have of symmetric memory: the registrations, their log, and memory for the signal
// pads of pools. One for each communicator, on each rank.
//
// A registration is found again by its range and by where its bytes are now: memory that is mapped anew at the same
// addresses is other memory, and memory that stayed where it was while something else was mapped is the same.
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

/// Memory that was registered, as one rank sees it.
struct RegisteredRange {
  std::byte* data = nullptr;
  std::size_t nbytes = 0;
  std::vector<std::byte*> peers;               // by rank; this rank's own is `data`
  std::shared_ptr<Communicator> communicator;  // keeps what is mapped
};

namespace detail {

/// Memory of a pool that was mapped at one rendezvous.
struct SymmetricSegment {
  std::uint64_t offset = 0;  // in the pool
  std::unique_ptr<DeviceBytes> memory;
  std::vector<std::byte*> peers;  // by rank
};

/// See the head of this file.
struct SymmetricRegistry {
  struct Entry {
    std::uint64_t number = 0;  // the registration that it came by
    PeerPlace place = {};      // of this rank's bytes
    std::shared_ptr<const RegisteredRange> range;
  };

  /// A number for a new pool, from 1.
  std::uint64_t next_pool();
  /// Memory for `nbytes` of signals, never given twice: who puts too late changes nothing that is another's.
  std::pair<std::byte*, std::shared_ptr<const void>> pad(const device::Device& device, std::size_t nbytes);
  /// Keeps memory of a pool that is gone while work on it hangs.
  void keep(std::vector<SymmetricSegment> segments);
  /// Adds to the log.
  void note(const SymmetricRequest& request);

  std::mutex mutex;  // for what follows
  RequestLog log;
  std::map<std::pair<const void*, std::size_t>, Entry> entries;
  std::uint64_t pools = 0;
  device::Device pad_device;
  std::shared_ptr<DeviceBytes> pads;  // the latest; older ones are kept by who has them
  std::size_t pads_taken = 0;
  std::vector<SymmetricSegment> kept;

  std::atomic<std::uint64_t> digest{0};  // of the log, for operations that are launched
};

}  // namespace detail
}  // namespace tessera::comm
