// Shared by the files of the bench suite host_train: threads, and rows whose preparation is costly.
#pragma once

#include <string>

#include "tessera/base/testing/bench.h"

namespace tessera::train::testing {

/// Threads that each side of a comparison computes on, unless a row is stated to use one.
inline constexpr int kHostThreads = 2;

/// Returns true if the row is to be measured. Otherwise names it if rows are listed, so that a caller may return
/// without preparing anything.
inline bool wants_or_lists(bench::Context& context, const std::string& name) {
  if (context.wants(name)) return true;
  context.measure({.name = name, .ours = [] {}});
  return false;
}

}  // namespace tessera::train::testing
