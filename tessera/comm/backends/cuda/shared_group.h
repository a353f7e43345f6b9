// What the ranks of a group on one GPU share: the group's memory on the device, what hosts tell kernels, and how the
// group ended. Made by whoever comes first; all ranks are threads of this process, so addresses mean the same to all.
//
// A group may be ended by a kernel (the verdict in pinned memory) and by a host (abort). Which one counts is decided
// here, once, when first somebody asks: all ranks are told the same words.
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

/// The kernels of the transport on one device, ready to be launched: each has run once, so that no launch loads code or
/// makes room, which would wait for kernels that spin.
class Kernels {
 public:
  /// Those of this device; loaded at the first call.
  static const Kernels& on(const device::Device& device);
  /// What makes the moves of this operation.
  [[nodiscard]] const device::Kernel& for_moves(const Operation& operation) const;
  /// By name, without the "tessera_comm_" before it.
  [[nodiscard]] const device::Kernel& named(const std::string& name) const;

 private:
  explicit Kernels(const device::Device& device);
  void warm_up(const device::Device& device) const;
  std::map<std::string, device::Kernel> kernels_;
};

/// See the head of this file. Thread-safe.
class SharedGroup : public std::enable_shared_from_this<SharedGroup> {
 public:
  /// Of `size` ranks.
  SharedGroup(const device::Device& device, int size);

  [[nodiscard]] const device::Device& device() const { return device_; }
  [[nodiscard]] const Kernels& kernels() const { return kernels_; }
  [[nodiscard]] int size() const { return size_; }
  /// Whether ranks compare all of a launch before any of it is done (TESSERA_COMM_CHECK), as whoever came first said.
  [[nodiscard]] bool is_checked() const { return is_checked_; }
  /// On the device; the host does not read it.
  [[nodiscard]] GroupMemory* memory() const { return reinterpret_cast<GroupMemory*>(range_.data()); }
  /// In pinned memory.
  [[nodiscard]] Control* control() const { return reinterpret_cast<Control*>(control_.data()); }

  /// Returns when all ranks have joined; TimeoutError names one that has not.
  void join(int rank, const ConnectRequest& request);
  /// This rank's host launches nothing any more, and what it launched has ended.
  void leave(int rank) noexcept;
  [[nodiscard]] bool has_left(int rank) const;
  /// Ends the group with these words, unless it has ended.
  void abort(int rank, std::string_view reason) noexcept;
  /// The error by which operations of the group fail, in the name of `group`; null: it has not ended.
  [[nodiscard]] std::exception_ptr error(std::string_view group);
  /// This rank is about to launch on this stream: two ranks on one stream would wait for each other for ever.
  void note_stream(int rank, const device::Stream& stream);
  /// Operations for the group of this name, with this digest, are to come.
  void note_group(std::uint64_t digest, const std::string& name);
  /// A symmetric pool of a rank: keeps its pad, where peers write, and gives it a number, from 1.
  std::uint32_t add_pool(const std::string& name, std::shared_ptr<const void> pad);
  /// Keeps the group's memory until the process ends: a graph refers to it, or nobody knows what still runs.
  void keep();

 private:
  struct Ended {
    Failure::Kind kind;
    std::string text;
  };
  [[nodiscard]] Ended verdict_of_kernel() const;

  const device::Device device_;
  const Kernels& kernels_;
  const int size_;
  const bool is_checked_;
  device::AddressRange range_;
  device::PinnedMemory control_;
  std::atomic<bool> has_ended_{false};
  std::atomic<bool> is_kept_{false};
  mutable std::mutex mutex_;                                // for what follows
  std::weak_ptr<device::StreamState> streams_[kMostRanks];  // that each rank used last
  std::condition_variable joined_;
  std::vector<bool> has_joined_;
  std::vector<Rank> world_;  // the world rank of each
  std::optional<Ended> ended_;
  std::map<std::uint64_t, std::string> groups_;  // names, by digest
  std::vector<std::string> pools_;               // names, by number
  std::vector<std::shared_ptr<const void>> pads_;
};

}  // namespace tessera::comm::cuda
