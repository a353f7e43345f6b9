// Communication of the ranks that write a checkpoint, through the store: short texts under keys of one save. A rank
// that fails publishes its failure, and the others stop waiting. They also stop when a rank that they wait for has
// ended. A silent rank ends their wait at the deadline.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/comm/store/store.h"

namespace tessera::train::detail {

/// Remaining patience for other ranks; set by another thread.
enum class Patience : int {
  kWhole,  ///< Waits until the deadline.
  kShort,  ///< Waits a few seconds: this rank is ending with an error, and the others may be ending or dead.
  kNone,   ///< Does not wait.
};

/// One save. Used by the writer thread of a rank.
class SaveRendezvous {
 public:
  /// The ranks that meet.
  struct World {
    int rank = 0;
    int size = 1;
    std::function<std::vector<int>()> lost = {};  ///< see CheckpointOptions::lost
  };
  /// `name` identifies the save and is unique. A world of one rank needs no store.
  SaveRendezvous(std::shared_ptr<comm::Store> store, std::string name, World world, std::chrono::nanoseconds timeout,
                 const std::atomic<Patience>& patience);

  /// Publishes a text that the others wait for.
  void say(const std::string& what, const std::string& text);
  /// Publishes that this rank failed. Returns the earlier failure of another rank, if any, which may have caused this
  /// one.
  std::optional<std::string> fail(const std::string& why) noexcept;
  /// Waits for a text of rank 0 and returns it. Throws AbortedError if a rank failed, rank 0 ended or patience ended,
  /// and TimeoutError at the deadline, which is multiplied by `times`.
  std::string hear(const std::string& what, int times = 1);
  /// Waits for the texts of all ranks under "WHAT/RANK". Returns them by rank.
  std::vector<std::string> hear_all(const std::string& what);
  /// Removes all texts of this save.
  void forget();

 private:
  [[nodiscard]] std::string key(const std::string& what) const { return name_ + "/" + what; }
  struct Awaited {
    int rank;
    std::string key;
  };
  void wait(const std::vector<Awaited>& all, std::chrono::nanoseconds timeout);
  void check_alive(const std::vector<Awaited>& all);

  std::shared_ptr<comm::Store> store_;
  std::string name_;
  World world_;
  std::chrono::nanoseconds timeout_;
  const std::atomic<Patience>& patience_;
};

}  // namespace tessera::train::detail
