// Exposed communication: time in which the stream that computes does nothing but wait for other ranks or move data
// between them. Taken by pairs of events on that stream, and asked for when its work is done.
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
    ExposedTime& time_;
    device::Stream stream_;
    std::size_t pair_;
  };

  /// All scopes since the last call, whose work has ended.
  double take_seconds();

 private:
  struct Pair {
    device::Event begin;
    device::Event end;
  };
  std::vector<Pair> pairs_;  // kept: events are used again
  std::size_t used_ = 0;
};

}  // namespace tessera::train
