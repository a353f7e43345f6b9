// The state of a rank's world: the store, and the communicators between its ranks. Part of the rank context.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "tessera/base/fork.h"
#include "tessera/base/ids.h"
#include "tessera/comm/communicator.h"
#include "tessera/comm/detail/deadlock_detector.h"
#include "tessera/comm/store/store.h"

namespace tessera::device::host {
class SeededScheduler;
}

namespace tessera::comm::detail {

class ProcessWorld;
struct SymmetricRegistry;

/// Objects that ranks in threads of one process share, by name. The first rank creates them.
class SimulatedWorld {
 public:
  /// Creates a world. If `scheduler` is not null, it runs the ranks one at a time.
  explicit SimulatedWorld(std::shared_ptr<device::host::SeededScheduler> scheduler)
      : scheduler_(std::move(scheduler)) {}
  /// Returns the object of this name, which `make` creates on the first call. It lives while a caller holds it.
  template <class T>
  std::shared_ptr<T> shared(const std::string& name, const std::function<std::shared_ptr<T>()>& make) {
    const std::lock_guard lock(mutex_);
    if (const std::shared_ptr<void> found = shared_[name].lock()) return std::static_pointer_cast<T>(found);
    std::shared_ptr<T> made = make();
    shared_[name] = made;
    return made;
  }
  /// Returns the memory of a communicator: `nbytes` bytes, initialized by `initialise`. It lives while a caller holds
  /// it.
  std::shared_ptr<std::byte> memory(const std::string& name, std::size_t nbytes,
                                    const std::function<void(std::byte*)>& initialise);
  [[nodiscard]] const std::shared_ptr<device::host::SeededScheduler>& scheduler() const { return scheduler_; }
  /// Returns the deadlock detector for ranks without a scheduler.
  [[nodiscard]] DeadlockDetector& cycles() { return cycles_; }
  /// Notes that the thread of a rank is about to end.
  void note_end(Rank rank) {
    const std::lock_guard lock(mutex_);
    ended_.insert(rank);
  }
  /// Returns true if the thread of a rank has ended.
  [[nodiscard]] bool has_ended(Rank rank) {
    const std::lock_guard lock(mutex_);
    return ended_.contains(rank);
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<void>> shared_;
  std::set<Rank> ended_;
  DeadlockDetector cycles_;
  std::shared_ptr<device::host::SeededScheduler> scheduler_;
};

/// The communicators and the store of one rank. Thread-safe.
class WorldState {
 public:
  WorldState(std::shared_ptr<Store> store, std::shared_ptr<SimulatedWorld> simulated,
             std::shared_ptr<ProcessWorld> processes = nullptr, std::string backend = {})
      : store_(std::move(store)),
        simulated_(std::move(simulated)),
        processes_(std::move(processes)),
        backend_(std::move(backend)) {}
  /// Returns the state of the current rank; each world of one rank has its own.
  static WorldState& current();

  [[nodiscard]] const std::shared_ptr<Store>& store() const { return store_; }
  /// Returns the other ranks if they are threads of this process, otherwise null.
  [[nodiscard]] const std::shared_ptr<SimulatedWorld>& simulated() const { return simulated_; }
  /// Returns the other ranks if they are processes, otherwise null.
  [[nodiscard]] const std::shared_ptr<ProcessWorld>& processes() const { return processes_; }
  /// Returns the backend of the group of all ranks; empty: the preferred usable one.
  [[nodiscard]] const std::string& backend() const { return backend_; }
  /// Returns true if the other ranks do not exist (traffic.h).
  [[nodiscard]] bool is_alone() const { return simulated_ == nullptr && processes_ == nullptr; }
  /// Informs the peers that this rank has left; called at the end of its process.
  void leave() noexcept;
  /// Ends the pending operations of all communicators, on all their ranks. Ranks that wait for this rank to join a
  /// group stop waiting.
  void abort(std::string_view reason) noexcept;
  /// Returns why groups of this world can no longer be created: a rank called abort(). Empty if none did.
  [[nodiscard]] std::string why_aborted() const noexcept;
  /// Releases all communicators. Each informs its peers, immediately or when its last pending work releases it.
  void let_go();
  /// Returns the communicator of these ranks on this backend, and connects it on first use. If `backend` is empty, it
  /// is the preferred usable one with memory of this kind of device (empty: of any). `generation` distinguishes
  /// communicators created after a failure. `parent` names a group of the same ranks that must fail separately, or is
  /// empty.
  std::shared_ptr<Communicator> communicator(const std::vector<Rank>& ranks, std::string_view backend,
                                             const std::string& device_kind, std::uint64_t generation,
                                             std::string_view parent, std::chrono::nanoseconds timeout,
                                             std::string& chosen);
  /// Returns true if several groups use this communicator.
  bool is_shared(const Communicator& communicator);
  /// Returns the symmetric memory of groups over this communicator.
  std::shared_ptr<SymmetricRegistry> symmetric(const Communicator& communicator);

 private:
  const OwnerProcess owner_;
  std::shared_ptr<Store> store_;
  std::shared_ptr<SimulatedWorld> simulated_;
  std::shared_ptr<ProcessWorld> processes_;
  std::string backend_;
  std::mutex mutex_;
  // Each connection has a mutex, so that connecting it blocks no other.
  struct Connection {
    std::mutex mutex;
    std::shared_ptr<Communicator> communicator;
    int groups = 0;  // number of groups that use it
  };
  std::map<std::string, std::shared_ptr<Connection>> connections_;
  std::map<const Communicator*, std::shared_ptr<SymmetricRegistry>> symmetric_;
};

/// Formats ranks: "0-3", "0,2,5".
std::string text_of(const std::vector<Rank>& ranks);

}  // namespace tessera::comm::detail
