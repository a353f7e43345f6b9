// State that the ranks of a group on one GPU share: the memory of the group on the device, the messages of hosts to
// kernels, and the group failure. The first rank creates it. All ranks are threads of this process, so addresses are
// valid for all.
//
// A kernel (through the verdict in pinned memory) or a host (through abort) can end a group. The first query decides
// which one counts, so that all ranks get the same error.
#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/ids.h"
#include "tessera/comm/backends/cuda/group_layout.h"
#include "tessera/comm/communicator.h"
#include "tessera/device/device.h"

namespace tessera::comm::cuda {

/// The kernels of the backend on one device. Each has run once, so that later launches load no code and allocate
/// nothing, which would wait for spinning kernels.
class Kernels {
 public:
  /// Returns the kernels of this device; loads them at the first call.
  static const Kernels& on(const device::Device& device);
  /// Returns the kernel for the transfers of this operation.
  [[nodiscard]] const device::Kernel& for_transfers(const Operation& operation) const;
  /// Returns the kernel of this name, without its prefix "tessera_comm_".
  [[nodiscard]] const device::Kernel& named(const std::string& name) const;

 private:
  explicit Kernels(const device::Device& device);
  void warm_up(const device::Device& device) const;
  std::map<std::string, device::Kernel> kernels_;
};

/// The shared state of one group. Thread-safe.
class SharedGroup : public std::enable_shared_from_this<SharedGroup> {
 public:
  /// Creates the state of a group of `size` ranks.
  SharedGroup(const device::Device& device, int size);

  [[nodiscard]] const device::Device& device() const { return device_; }
  [[nodiscard]] const Kernels& kernels() const { return kernels_; }
  [[nodiscard]] int size() const { return size_; }
  /// Returns true if ranks compare a complete launch before they run any of it (TESSERA_COMM_CHECK), as set by the
  /// first rank.
  [[nodiscard]] bool is_checked() const { return is_checked_; }
  /// Returns the device memory, which the host does not read.
  [[nodiscard]] CudaGroupMemory* memory() const { return reinterpret_cast<CudaGroupMemory*>(range_.data()); }
  /// Returns the pinned memory.
  [[nodiscard]] Control* control() const { return reinterpret_cast<Control*>(control_.data()); }

  /// Waits until all ranks have joined. Throws TimeoutError, which names a missing rank.
  void join(int rank, const ConnectRequest& request);
  /// Notes that this rank's host launches nothing more and that its launches have ended.
  void leave(int rank) noexcept;
  [[nodiscard]] bool has_left(int rank) const;
  /// Ends the group with this reason, unless it has ended.
  void abort(int rank, std::string_view reason) noexcept;
  /// Returns the error that ends operations of the group, with the name `group`; null if the group has not ended.
  [[nodiscard]] std::exception_ptr error(std::string_view group);
  /// Notes that this rank launches on this stream. Throws if another rank uses it, since both would wait forever.
  void note_stream(int rank, const device::Stream& stream);
  /// Notes the name of a group with this digest, for later operations.
  void note_group(std::uint64_t digest, const std::string& name);
  /// Adds a symmetric pool of a rank: keeps its pad alive and returns its number, from 1.
  std::uint32_t add_pool(const std::string& name, std::shared_ptr<const void> pad);
  /// Keeps the memory of the group until the process ends, because a graph refers to it or running work is unknown.
  void keep();

 private:
  struct EndedLaunch {
    Failure::Kind kind;
    std::string text;
  };
  [[nodiscard]] EndedLaunch verdict_of_kernel() const;

  const device::Device device_;
  const Kernels& kernels_;
  const int size_;
  const bool is_checked_;
  device::AddressRange range_;
  device::PinnedMemory control_;
  std::atomic<bool> has_ended_{false};
  std::atomic<bool> is_kept_{false};
  mutable std::mutex mutex_;                               // protects the members below
  std::weak_ptr<device::StreamState> streams_[kMaxRanks];  // last stream of each rank
  std::condition_variable joined_;
  std::vector<bool> has_joined_;
  std::vector<Rank> world_;  // world rank of each rank
  std::optional<EndedLaunch> ended_;
  std::map<std::uint64_t, std::string> groups_;  // names, by digest
  std::vector<std::string> pools_;               // names, by number
  std::vector<std::shared_ptr<const void>> pads_;
};

}  // namespace tessera::comm::cuda
