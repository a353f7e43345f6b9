// What the ranks that write a checkpoint tell each other, through the store: short texts under keys of one save. A rank
// that fails says so, and the others stop waiting; one that says nothing ends their waiting at the deadline.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/comm/store/store.h"

namespace tessera::train::detail {

/// How long the others are still worth waiting for; set by another thread.
enum class Patience : int {
  kWhole,  ///< until the deadline
  kShort,  ///< some seconds: this rank is on its way out by an error, and the others may be, too, or be dead
  kNone,   ///< not at all
};

/// One save. For the writing thread of a rank.
class Meeting {
 public:
  /// `name`: of the save, unlike that of all others. A world of one needs no store.
  Meeting(std::shared_ptr<comm::Store> store, std::string name, int rank, int world_size,
          std::chrono::nanoseconds timeout, const std::atomic<Patience>& patience);

  /// Sets a text that the others wait for.
  void say(const std::string& what, const std::string& text);
  /// Tells all that this rank cannot go on. Returns what another rank has failed with before, from which this one's
  /// failure may have followed.
  std::optional<std::string> fail(const std::string& why) noexcept;
  /// The text that was said; AbortedError when a rank failed or patience ended, TimeoutError at the deadline.
  /// `times`: of the time that is waited.
  std::string hear(const std::string& what, int times = 1);
  /// The texts that all ranks said under "WHAT/RANK", by rank.
  std::vector<std::string> hear_all(const std::string& what);
  /// Removes all that was said in it.
  void forget();

 private:
  [[nodiscard]] std::string key(const std::string& what) const { return name_ + "/" + what; }
  void wait(const std::vector<std::string>& keys, const std::vector<std::string>& who,
            std::chrono::nanoseconds timeout);

  std::shared_ptr<comm::Store> store_;
  std::string name_;
  int rank_;
  int world_size_;
  std::chrono::nanoseconds timeout_;
  const std::atomic<Patience>& patience_;
};

}  // namespace tessera::train::detail
