// Spinning work: kernels and stream waits that run until another stream, another rank or the host lets them go. Two
// limits keep them from waiting for each other for ever, and one list of driver calls keeps us from waiting for them:
//
//   streams   a stream needs a hardware queue of its own; behind a spinning one in the same queue nothing moves
//   blocks    all blocks that spin must be on the device at once
//   gate      some driver calls (freeing pinned memory, loading and unloading modules) wait until no kernel runs
//
// Spins of one stream run one after the other, so a stream counts once, with its largest share of the device. When a
// spin has ended is asked lazily, only when a limit or the gate is at stake.
//
// No CUDA here: the device says what to ask through Spinner.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

namespace tessera::device::cuda {

/// A part of the device's room for co-resident blocks; kWholeDevice is all of it.
using SpinShare = std::uint64_t;
inline constexpr SpinShare kWholeDevice = SpinShare{1} << 48;
/// The part that `blocks` take of a device that holds `capacity` of them at once. Rounded down, so that parts that fit
/// exactly still do; what is lost is far less than one block.
SpinShare share_of(std::uint64_t blocks, std::uint64_t capacity);

/// A stream as the budget sees it.
class Spinner {
 public:
  virtual ~Spinner() = default;
  /// Whether the last spin put on the stream has ended. Never waits, never throws.
  virtual bool spin_has_ended() = 0;
  /// For errors.
  [[nodiscard]] virtual std::string spinner_name() const = 0;
};

/// The budget and the gate of one device. Thread-safe.
class SpinBudget {
 public:
  /// At most `most_streams` streams may spin at once.
  explicit SpinBudget(int most_streams) : most_streams_(most_streams) {}

  /// Lives from before a spin is launched until its end can be asked for, so that no gated call starts in between. No
  /// lock is held meanwhile: a launch may wait for room in its queue, and that for another rank's spin.
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
  /// Makes room for a spin of `spinner` that takes `share` of the device and, for a graph, `streams` streams. Throws
  /// DeviceError when there is no room now, NotSupported when there never will be; nothing is changed then.
  [[nodiscard]] Admission admit(Spinner& spinner, SpinShare share, int streams = 1);
  /// The spinner is going away; nothing of it spins.
  void forget(Spinner& spinner);

  /// Runs `call` now if nothing spins, else when something next asks and nothing does.
  void when_quiet(std::function<void()> call);
  /// Runs `call` once nothing spins. TimeoutError naming `what` and the spinning streams when that takes too long.
  void run_quiet(const char* what, std::chrono::nanoseconds timeout, const std::function<void()>& call);
  /// Runs what was put off, if nothing spins. Never waits.
  void flush();
  /// Names of the streams that spin now.
  std::vector<std::string> spinning();
  /// How many calls are put off.
  [[nodiscard]] std::size_t put_off() const;

 private:
  struct Entry {
    Spinner* spinner;
    SpinShare share;
    int streams;
    int launching;  // admitted and not yet launched: spinning, whatever the spinner says
  };
  void launched(Spinner& spinner);
  void drop_ended();
  void enter(Spinner& spinner, SpinShare share, int streams);
  void run_put_off(std::vector<std::function<void()>>& calls);
  [[nodiscard]] bool fits(const Spinner& spinner, SpinShare share, int streams, SpinShare& taken, int& busy) const;

  const int most_streams_;
  mutable std::mutex mutex_;
  std::vector<Entry> entries_;
  std::vector<std::function<void()>> put_off_;
};

}  // namespace tessera::device::cuda
