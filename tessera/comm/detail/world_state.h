// What a rank knows of its world: where ranks meet, and who is connected to whom. A part of the rank.
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
#include "tessera/comm/detail/circles.h"
#include "tessera/comm/store/store.h"

namespace tessera::device::host {
class SeededScheduler;
}

namespace tessera::comm::detail {

class ProcessWorld;
struct SymmetricRegistry;

/// What ranks that are threads of one process share, by name; made by whoever comes first.
class SimulatedWorld {
 public:
  /// Of ranks that take turns, or not (null).
  explicit SimulatedWorld(std::shared_ptr<device::host::SeededScheduler> scheduler)
      : scheduler_(std::move(scheduler)) {}
  /// What `make` makes, for the first who asks for this name; kept while somebody holds it.
  template <class T>
  std::shared_ptr<T> shared(const std::string& name, const std::function<std::shared_ptr<T>()>& make) {
    const std::lock_guard lock(mutex_);
    if (const std::shared_ptr<void> found = shared_[name].lock()) return std::static_pointer_cast<T>(found);
    std::shared_ptr<T> made = make();
    shared_[name] = made;
    return made;
  }
  /// The memory of a communicator, `nbytes` long and initialised by `initialise`; kept while somebody holds it.
  std::shared_ptr<std::byte> memory(const std::string& name, std::size_t nbytes,
                                    const std::function<void(std::byte*)>& initialise);
  [[nodiscard]] const std::shared_ptr<device::host::SeededScheduler>& scheduler() const { return scheduler_; }
  /// Who waits for whom, of ranks that do not take turns.
  [[nodiscard]] Circles& circles() { return circles_; }
  /// The thread of a rank is at its end.
  void note_end(Rank rank) {
    const std::lock_guard lock(mutex_);
    ended_.insert(rank);
  }
  /// Whether it is.
  [[nodiscard]] bool has_ended(Rank rank) {
    const std::lock_guard lock(mutex_);
    return ended_.contains(rank);
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<void>> shared_;
  std::set<Rank> ended_;
  Circles circles_;
  std::shared_ptr<device::host::SeededScheduler> scheduler_;
};

/// See the head of this file. Thread-safe.
class WorldState {
 public:
  WorldState(std::shared_ptr<Store> store, std::shared_ptr<SimulatedWorld> simulated,
             std::shared_ptr<ProcessWorld> processes = nullptr, std::string backend = {})
      : store_(std::move(store)),
        simulated_(std::move(simulated)),
        processes_(std::move(processes)),
        backend_(std::move(backend)) {}
  /// Of the current rank; a world of one has one of its own.
  static WorldState& current();

  [[nodiscard]] const std::shared_ptr<Store>& store() const { return store_; }
  /// The other ranks, where they are threads of this process; null: they are not.
  [[nodiscard]] const std::shared_ptr<SimulatedWorld>& simulated() const { return simulated_; }
  /// The other ranks, where they are processes; null: they are not.
  [[nodiscard]] const std::shared_ptr<ProcessWorld>& processes() const { return processes_; }
  /// What the group of all ranks is to run on; empty: the best that can.
  [[nodiscard]] const std::string& backend() const { return backend_; }
  /// Tells the peers that this rank has gone; for the end of its process.
  void leave() noexcept;
  /// Ends what is pending on all communicators, on all their ranks.
  void abort(std::string_view reason) noexcept;
  /// Lets go of all communicators, which tell their peers unless work of theirs is on the way; that tells them.
  void let_go();
  /// The communicator of these ranks on this backend ("": the best that can), connected when first asked for.
  /// `generation` tells those apart that came after a failure; `parent` names a group of the same ranks that is to fail
  /// separately, empty: none.
  std::shared_ptr<Communicator> communicator(const std::vector<Rank>& ranks, std::string_view backend,
                                             std::uint64_t generation, std::string_view parent,
                                             std::chrono::nanoseconds timeout, std::string& chosen);
  /// Returns true if more than one group was given this communicator.
  bool is_shared(const Communicator& communicator);
  /// What groups over this communicator have of symmetric memory.
  std::shared_ptr<SymmetricRegistry> symmetric(const Communicator& communicator);

 private:
  const OwnerProcess owner_;
  std::shared_ptr<Store> store_;
  std::shared_ptr<SimulatedWorld> simulated_;
  std::shared_ptr<ProcessWorld> processes_;
  std::string backend_;
  std::mutex mutex_;
  // One at a time connects each; nothing else waits for that.
  struct Connection {
    std::mutex mutex;
    std::shared_ptr<Communicator> communicator;
    int groups = 0;  // that were given it
  };
  std::map<std::string, std::shared_ptr<Connection>> connections_;
  std::map<const Communicator*, std::shared_ptr<SymmetricRegistry>> symmetric_;
};

/// Ranks as text: "0-3", "0,2,5".
std::string text_of(const std::vector<Rank>& ranks);

}  // namespace tessera::comm::detail
