// The current rank. A rank is an object, not a process: each thread belongs to one. A thread gets a rank on first use;
// a tessera::Thread inherits the rank of its creator. Until tessera::init (one rank per process) or tessera::simulate
// (many ranks as threads) sets a world, the world has one rank.
//
// A rank owns its host device, allocator and record file as parts, which are constructed on first use and destroyed
// with the rank in reverse order. All state outside local variables and members belongs to a rank.
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
/// Recorder of the rank of this thread; null: not looked up since the rank last changed. tessera/base/probe maintains
/// it so that recording does not need the rank. The initial-exec model avoids a call on access.
[[gnu::tls_model("initial-exec")]] extern TESSERA_API constinit thread_local probe::Recorder* cached_recorder;
/// Changes whenever this thread switches to another rank, so that values cached per rank can be invalidated.
[[gnu::tls_model("initial-exec")]] extern TESSERA_API constinit thread_local std::uint64_t rank_changes;
}  // namespace detail

/// Position of a rank in its world.
struct RankPlace {
  Rank rank{0};              ///< In [0, world_size).
  int world_size = 1;        ///< Total number of ranks.
  int local_rank = 0;        ///< Index among the ranks of this machine.
  int local_world_size = 1;  ///< Number of ranks on this machine.
  std::string run_dir = {};  ///< The run directory; empty if the run has none.
};

/// One rank of a world, and owner of its parts. Thread-safe.
class TESSERA_API RankContext {
 public:
  /// Constructs a rank without parts.
  explicit RankContext(RankPlace place);
  /// Destroys the parts in reverse order of construction, as the current rank.
  ~RankContext();
  RankContext(const RankContext&) = delete;
  RankContext& operator=(const RankContext&) = delete;

  /// Returns the position of the rank.
  [[nodiscard]] const RankPlace& place() const { return place_; }

  /// Returns the T of the rank. The first call constructs it with `make()`, which returns std::shared_ptr<T>.
  template <class T, class Make>
  T& part(Make&& make) {
    return *static_cast<T*>(
        part_slot(typeid(T), [&]() -> std::shared_ptr<void> { return std::forward<Make>(make)(); }));
  }
  /// Returns the T of the rank, or null if it has not been constructed.
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
  mutable std::recursive_mutex mutex_;  // recursive: constructing a part may request another
  std::vector<std::pair<std::type_index, std::shared_ptr<void>>> parts_;
};

/// Returns the rank of this thread. A forked child starts with a new rank in a world of one; the parts of the parent's
/// rank stay with the parent.
TESSERA_API std::shared_ptr<RankContext> current_rank();
/// Returns the position of the rank of this thread. Cheap.
TESSERA_API const RankPlace& current_place();

/// Sets the position of the process, until then a world of one, in a larger world. Throws InvalidArgument if it was set
/// before or the rank already owns parts.
TESSERA_API void set_process_place(RankPlace place);

/// Switches this thread to another rank for the lifetime of the scope.
class TESSERA_API RankScope {
 public:
  /// Switches this thread to `rank`.
  explicit RankScope(std::shared_ptr<RankContext> rank);
  /// Restores the previous rank.
  ~RankScope();
  RankScope(const RankScope&) = delete;
  RankScope& operator=(const RankScope&) = delete;

 private:
  std::shared_ptr<RankContext> previous_;
};

/// A thread that joins in its destructor and belongs to the rank of its
/// creator; like std::jthread without a stop token.
class TESSERA_API Thread {
 public:
  /// Constructs an object without a thread.
  Thread() = default;
  /// Starts a thread that runs `body` as the current rank. Debuggers show the first 15 characters of `name`.
  Thread(const std::string& name, std::function<void()> body);
  /// Joins the thread.
  ~Thread();
  /// Takes over the thread of `other`.
  Thread(Thread&& other) noexcept = default;
  /// Joins the current thread, then takes over the thread of `other`.
  Thread& operator=(Thread&& other) noexcept;
  /// Waits for the thread to end. Returns immediately in a forked child, where the thread does not exist.
  void join();
  /// Returns true if there is a thread to join.
  [[nodiscard]] bool joinable() const { return thread_.joinable(); }

 private:
  OwnerProcess owner_;
  std::thread thread_;
};

}  // namespace tessera
