// Spinning work: kernels and stream waits that run until another stream, another rank or the host releases them. Two
// limits prevent deadlocks between them, and a gate prevents driver calls from waiting for them:
//
//   streams   a stream needs an exclusive hardware queue; nothing runs after a spinning stream in the same queue
//   blocks    all spinning blocks must be resident on the device at once
//   gate      some driver calls (freeing pinned memory, loading and unloading modules) wait until no kernel runs
//
// Spins of one stream run one after the other, so a stream counts once, with its largest share of the device. The end
// of a spin is queried lazily, only if a limit or the gate needs it.
//
// There is no CUDA here: the device implements Spinner.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

namespace tessera::device::cuda {

/// A share of the device's capacity for co-resident blocks; kWholeDevice is all of it.
using SpinShare = std::uint64_t;
inline constexpr SpinShare kWholeDevice = SpinShare{1} << 48;
/// Returns the share of `blocks` on a device that holds `capacity` of them. Rounded down, so that shares that fit
/// exactly still do; the error is far less than one block.
SpinShare share_of(std::uint64_t blocks, std::uint64_t capacity);

/// A stream, as the budget sees it.
class Spinner {
 public:
  virtual ~Spinner() = default;
  /// Returns true if the last spin on the stream has ended. Never waits or throws.
  virtual bool spin_has_ended() = 0;
  /// Returns the name for errors.
  [[nodiscard]] virtual std::string spinner_name() const = 0;
};

/// The budget and the gate of one device. Thread-safe.
class SpinBudget {
 public:
  /// Allows at most `max_streams` spinning streams at a time.
  explicit SpinBudget(int max_streams) : max_streams_(max_streams) {}

  /// Lives from before a spin is launched until its end can be queried, so that no gated call starts in between. Holds
  /// no lock: a launch may wait for room in its queue, and that may wait for a spin of another rank.
  class Admission {
   public:
    Admission(SpinBudget& budget, Spinner& spinner) : budget_(budget), spinner_(spinner) {}
    ~Admission() { budget_.launched(spinner_); }
    Admission(const Admission&) = delete;
    Admission& operator=(const Admission&) = delete;

   private:
    SpinBudget& budget_;
    Spinner& spinner_;
  };
  /// Reserves room for a spin of `spinner` that takes `share` of the device and, for a graph, `streams` streams. Throws
  /// DeviceError if there is no room now, NotSupported if there never will be; then changes nothing.
  [[nodiscard]] Admission admit(Spinner& spinner, SpinShare share, int streams = 1);
  /// Removes a spinner, which no longer spins.
  void forget(Spinner& spinner);

  /// Runs `call` now if nothing spins, otherwise at a later check when nothing spins.
  void when_quiet(std::function<void()> call);
  /// Runs `call` once nothing spins. Throws TimeoutError, which names `what` and the spinning streams, after `timeout`.
  void run_quiet(const char* what, std::chrono::nanoseconds timeout, const std::function<void()>& call);
  /// Runs deferred calls if nothing spins. Never waits.
  void flush();
  /// Returns the names of the spinning streams.
  std::vector<std::string> spinning();
  /// Returns the number of deferred calls.
  [[nodiscard]] std::size_t put_off() const;

 private:
  struct BudgetEntry {
    Spinner* spinner;
    SpinShare share;
    int streams;
    int launching;  // admitted and not yet launched: counts as spinning
  };
  void launched(Spinner& spinner);
  void drop_ended();
  void enter(Spinner& spinner, SpinShare share, int streams);
  void run_put_off(std::vector<std::function<void()>>& calls);
  [[nodiscard]] bool fits(const Spinner& spinner, SpinShare share, int streams, SpinShare& taken, int& busy) const;

  const int max_streams_;
  mutable std::mutex mutex_;
  std::vector<BudgetEntry> entries_;
  std::vector<std::function<void()>> put_off_;
};

}  // namespace tessera::device::cuda
