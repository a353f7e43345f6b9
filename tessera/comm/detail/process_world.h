// The ranks of a world that are processes: where each runs, and how those of this machine reach each other's memory.
// Every rank publishes its machine and its descriptor server in the store when it comes to be (init.cpp).
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
#include "tessera/comm/store/detail/wait_notice.h"
#include "tessera/comm/store/store.h"

namespace tessera::comm::detail {

/// The process of another rank of this machine. Its memory file is mapped once, a window at a time as it is reached
/// for. Thread-safe.
class PeerProcess {
 public:
  /// Of the rank whose server is at `address`.
  PeerProcess(Rank rank, std::string address, std::chrono::nanoseconds timeout);
  ~PeerProcess();
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;

  /// The longest range that can be reached, wherever it is.
  static constexpr std::uint64_t kMostBytes = std::uint64_t{16} << 30;

  /// Whether it has ended. Asks the kernel.
  [[nodiscard]] bool has_ended() const;
  /// A descriptor that it offers, waited for. AbortedError: it has ended; TimeoutError: it did not offer it.
  [[nodiscard]] Descriptor fetch(std::string_view name, std::chrono::nanoseconds timeout) const;
  /// Fetches its memory file, which it offers as kMemoryName; once.
  void open_memory(std::chrono::nanoseconds timeout);
  /// Where [offset, offset + nbytes) of its memory is in this process, for at most kMostBytes.
  [[nodiscard]] std::byte* reach(std::uint64_t offset);

 private:
  static constexpr std::size_t kWindows = 4096;  // 64 TiB of memory
  std::byte* map_window(std::size_t window);

  const OwnerProcess owner_;
  const Rank rank_;
  const std::string address_;
  Descriptor process_;
  mutable std::atomic<bool> has_ended_{false};
  std::mutex mutex_;  // for what follows, where it is changed
  Descriptor memory_;
  // Window w is [w, w + 2) times kMostBytes of the file, so that every range lies within the one that it begins in.
  std::atomic<std::byte*> windows_[kWindows] = {};
};

/// See the head of this file. Thread-safe.
class ProcessWorld {
 public:
  /// Publishes this rank.
  ProcessWorld(std::shared_ptr<Store> store, Rank rank);
  /// Waits until all ranks have; TimeoutError names those that have not. While it waits, the first rank of those that
  /// have come reports which ranks are missing.
  void meet(int world_size, std::chrono::nanoseconds timeout, NoticeDelays delays = {});

  /// The name under which a process offers its memory file.
  static constexpr const char* kMemoryName = "memory";

  /// Hands out what peers need of this process.
  [[nodiscard]] DescriptorServer& server() { return server_; }
  /// Whether the rank is a process of this machine that can see this one.
  [[nodiscard]] bool is_here(Rank rank);
  /// The process of a rank that is_here().
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
