// Exposed communication: time in which the compute stream only waits for other ranks or transfers data between them.
// Pairs of events on that stream measure it, and it is read when the work is done. In a capture, the events become
// graph nodes, and each replay records them again.
#pragma once

#include <cstddef>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/device/event.h"
#include "tessera/device/stream.h"

namespace tessera::shard {

/// Sum of exposed communication on one stream. Not thread-safe.
class TESSERA_API ExposedTime {
 public:
  /// Measures the time between its construction and destruction on a stream.
  class TESSERA_API Scope {
   public:
    /// Records the start.
    Scope(ExposedTime& time, const device::Stream& stream);
    /// Records the end.
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    device::Stream stream_;
    device::EventUse use_;
    device::Event end_;
  };

  /// Returns the time of all eager scopes since the last call. Their work must have finished.
  double take_seconds();
  /// Returns the time of all captured scopes in the last replay, which must have finished.
  [[nodiscard]] double replayed_seconds() const { return sum_of(captured_, captured_.size()); }
  /// Discards the scopes of an earlier capture. Called when a capture begins.
  void begin_capture() { captured_.clear(); }

 private:
  struct Pair {
    device::Event begin;
    device::Event end;
  };
  static double sum_of(const std::vector<Pair>& pairs, std::size_t count);
  std::vector<Pair> pairs_;  // events are reused
  std::size_t used_ = 0;
  std::vector<Pair> captured_;
};

}  // namespace tessera::shard
