// Shared by the files of the bench suite host_train: threads, and rows with costly preparation.
#pragma once

#include <string>

#include "tessera/base/testing/bench.h"

namespace tessera::train::testing {

/// Threads per side of a comparison, unless a row states that it uses one.
inline constexpr int kHostThreads = 2;

/// Returns true if the row is to be measured. Otherwise, lists its name if rows are listed, so that the caller can
/// return without preparation.
inline bool wants_or_lists(bench::Context& context, const std::string& name) {
  if (context.wants(name)) return true;
  context.measure({.name = name, .ours = [] {}});
  return false;
}

}  // namespace tessera::train::testing
