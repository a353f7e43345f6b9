// The current rank. A rank is an object, not a process: it is what a thread works for. A thread has one from the moment
// it asks; a thread started with tessera::Thread inherits its starter's. Until something gives the process a world
// (tessera::init for one rank a process, tessera::simulate for many ranks as threads) it is a world of one.
//
// What a rank owns (its host device, its allocator, its record file) hangs on the rank as a part, made on first use and
// destroyed with the rank, last made first. This is the only place for state that is not a local variable or a member.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <typeindex>
#include <utility>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/base/fork.h"
#include "tessera/base/ids.h"

namespace tessera {

namespace probe {
class Recorder;
}

namespace detail {
/// The recorder of the rank this thread works for; null: not asked for since the rank last changed. Kept by
/// tessera/base/probe, so that recording need not go through the rank. Initial-exec: no call to find it.
[[gnu::tls_model("initial-exec")]] extern TESSERA_API constinit thread_local probe::Recorder* cached_recorder;
/// Moves whenever this thread starts to work for another rank, so that what a thread remembers of its rank can be known
/// to be old.
[[gnu::tls_model("initial-exec")]] extern TESSERA_API constinit thread_local std::uint64_t rank_changes;
}  // namespace detail

/// Where a rank stands in its world.
struct RankPlace {
  Rank rank{0};              ///< 0 to world_size - 1
  int world_size = 1;        ///< ranks in all
  int local_rank = 0;        ///< place among the ranks of this machine
  int local_world_size = 1;  ///< ranks on this machine
  std::string run_dir = {};  ///< the run directory; empty: none
};

/// One rank of a world and what it owns. Thread-safe.
class TESSERA_API RankContext {
 public:
  /// A rank at this place that owns nothing yet.
  explicit RankContext(RankPlace place);
  /// Destroys the parts, last made first, as the current rank.
  ~RankContext();
  RankContext(const RankContext&) = delete;
  RankContext& operator=(const RankContext&) = delete;

  /// Where this rank stands.
  [[nodiscard]] const RankPlace& place() const { return place_; }

  /// The rank's own T, made by `make()` (which returns std::shared_ptr<T>) the first time it is asked for.
  template <class T, class Make>
  T& part(Make&& make) {
    return *static_cast<T*>(
        part_slot(typeid(T), [&]() -> std::shared_ptr<void> { return std::forward<Make>(make)(); }));
  }
  /// The rank's own T if it was made already, else null.
  template <class T>
  [[nodiscard]] T* find_part() const {
    return static_cast<T*>(find_slot(typeid(T)));
  }

 private:
  friend void set_process_place(RankPlace place);
  void* part_slot(std::type_index type, const std::function<std::shared_ptr<void>()>& make);
  void* find_slot(std::type_index type) const;

  const OwnerProcess owner_;
  RankPlace place_;
  mutable std::recursive_mutex mutex_;  // recursive: making a part may ask for another
  std::vector<std::pair<std::type_index, std::shared_ptr<void>>> parts_;
};

/// The rank this thread works for. A forked child starts with a new rank, of a world of one, in place of its parent's:
/// the parts of the parent's rank stay with the parent.
TESSERA_API std::shared_ptr<RankContext> current_rank();
/// Place of the rank this thread works for; cheap.
TESSERA_API const RankPlace& current_place();

/// Gives the process, which is a world of one until then, its place in a larger one. Once, and before the rank owns
/// anything: an error names what came too early.
TESSERA_API void set_process_place(RankPlace place);

/// Makes the enclosing scope work for another rank.
class TESSERA_API RankScope {
 public:
  /// Enters `rank` on this thread.
  explicit RankScope(std::shared_ptr<RankContext> rank);
  /// Returns to the rank before.
  ~RankScope();
  RankScope(const RankScope&) = delete;
  RankScope& operator=(const RankScope&) = delete;

 private:
  std::shared_ptr<RankContext> previous_;
};

/// A std::jthread without the stop token: joins in its destructor, and works for the rank of the thread that made it.
class TESSERA_API Thread {
 public:
  /// No thread.
  Thread() = default;
  /// Starts a thread that runs `body` for the current rank. `name` shows in debuggers (15 characters of it).
  Thread(const std::string& name, std::function<void()> body);
  /// Joins.
  ~Thread();
  /// Takes the thread of `other`.
  Thread(Thread&& other) noexcept = default;
  /// Joins the thread held before, then takes the other's.
  Thread& operator=(Thread&& other) noexcept;
  /// Waits for the thread to end. Returns immediately in a forked child, where the thread does not exist.
  void join();
  /// Whether there is a thread to join.
  [[nodiscard]] bool joinable() const { return thread_.joinable(); }

 private:
  OwnerProcess owner_;
  std::thread thread_;
};

}  // namespace tessera
