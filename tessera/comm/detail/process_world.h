// A world whose ranks are processes: the machine of each rank, and access to the memory of ranks on the same machine.
// Each rank publishes its machine and its descriptor server in the store when it starts (init.cpp).
//
//   store    "rank 3" -> "machine socket token"
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tessera/base/fork.h"
#include "tessera/base/ids.h"
#include "tessera/comm/detail/descriptor_server.h"
#include "tessera/comm/store/store.h"
#include "tessera/comm/store/wait_notice.h"

namespace tessera::comm::detail {

/// The process of another rank of this machine. Its memory file is opened once and mapped on demand, one window at a
/// time. Thread-safe.
class PeerProcess {
 public:
  /// Connects to the rank whose server is at `address`.
  PeerProcess(Rank rank, std::string address, std::chrono::nanoseconds timeout);
  ~PeerProcess();
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;

  /// Maximum size of a range that can be accessed.
  static constexpr std::uint64_t kMaxBytes = std::uint64_t{16} << 30;

  /// Returns true if the process has ended. Queries the kernel.
  [[nodiscard]] bool has_ended() const;
  /// Waits for an offered descriptor and returns it. Throws AbortedError if the process has ended, and TimeoutError if
  /// it does not offer the name in time.
  [[nodiscard]] Descriptor fetch(std::string_view name, std::chrono::nanoseconds timeout) const;
  /// Fetches the memory file, which the process offers as kMemoryName; once.
  void open_memory(std::chrono::nanoseconds timeout);
  /// Returns the address of [offset, offset + kMaxBytes) of its memory in this process.
  [[nodiscard]] std::byte* reach(std::uint64_t offset);

 private:
  static constexpr std::size_t kWindows = 4096;  // 64 TiB of memory
  std::byte* map_window(std::size_t window);

  const OwnerProcess owner_;
  const Rank rank_;
  const std::string address_;
  Descriptor process_;
  mutable std::atomic<bool> has_ended_{false};
  std::mutex mutex_;  // protects changes of the members below
  Descriptor memory_;
  // Window w is [w, w + 2) times kMaxBytes of the file, so that each range lies within the window that it begins in.
  std::atomic<std::byte*> windows_[kWindows] = {};
};

/// The processes of a world. Thread-safe.
class ProcessWorld {
 public:
  /// Publishes this rank.
  ProcessWorld(std::shared_ptr<Store> store, Rank rank);
  /// Waits until all ranks have published themselves. Throws TimeoutError, which names the missing ranks. While it
  /// waits, the first of the ranks that have arrived reports which ranks are missing.
  void meet(int world_size, std::chrono::nanoseconds timeout, NoticeDelays delays = {});

  /// Name under which a process offers its memory file.
  static constexpr const char* kMemoryName = "memory";

  /// Returns the server of this process for its peers.
  [[nodiscard]] DescriptorServer& server() { return server_; }
  /// Returns true if the rank is a process of this machine that can see this one.
  [[nodiscard]] bool is_here(Rank rank);
  /// Returns the process of a rank for which is_here() is true.
  std::shared_ptr<PeerProcess> peer(Rank rank, std::chrono::nanoseconds timeout);

 private:
  std::string published(Rank rank);

  [[nodiscard]] std::vector<Rank> missing(int world_size);

  const std::shared_ptr<Store> store_;
  const Rank rank_;
  DescriptorServer server_;
  const std::string machine_;
  std::mutex mutex_;
  std::map<Rank, std::shared_ptr<PeerProcess>> peers_;
};

}  // namespace tessera::comm::detail
