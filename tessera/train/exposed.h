// Exposed communication: time in which the stream that computes does nothing but wait for other ranks or move data
// between them. Taken by pairs of events on that stream, and asked for when its work is done. In a capture the events
// become nodes of the graph, and each replay sets them anew.
#pragma once

#include <cstddef>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/device/event.h"
#include "tessera/device/stream.h"

namespace tessera::train {

/// See the head of this file. For one thread.
class TESSERA_API ExposedTime {
 public:
  /// Counts from here to its end, on the stream.
  class TESSERA_API Scope {
   public:
    /// Begins.
    Scope(ExposedTime& time, const device::Stream& stream);
    /// Ends.
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    device::Stream stream_;
    device::EventUse use_;
    device::Event end_;
  };

  /// All scopes since the last call that were not captured, whose work has ended.
  double take_seconds();
  /// All scopes of the last replay of what was captured, which has ended.
  [[nodiscard]] double replayed_seconds() const { return sum_of(captured_, captured_.size()); }
  /// A capture begins: scopes of one before are forgotten.
  void begin_capture() { captured_.clear(); }

 private:
  struct Pair {
    device::Event begin;
    device::Event end;
  };
  static double sum_of(const std::vector<Pair>& pairs, std::size_t count);
  std::vector<Pair> pairs_;  // kept: events are used again
  std::size_t used_ = 0;
  std::vector<Pair> captured_;
};

}  // namespace tessera::train
