// Planted bugs. A test that has never failed proves nothing, so the code carries named points at which a mutant build
// (TESSERA_MUTANTS, made for the conformance suites alone) goes wrong on request:
//
//   if (!TESSERA_MUTANT("host.wait_skipped")) wait_for(event);
//
// TESSERA_MUTANT=host.wait_skipped in the environment selects one. tools/run_mutants.py finds the names in the sources,
// selects each in turn and demands that the suite fails. In every other build a point is the constant false.
#pragma once

#ifdef TESSERA_MUTANTS
#include <cstdlib>
#include <string_view>

namespace tessera::detail {
inline bool mutant_selected(std::string_view name) {
  const char* chosen = std::getenv("TESSERA_MUTANT");
  return chosen != nullptr && name == chosen;
}
}  // namespace tessera::detail
/// Whether the planted bug of this name was asked for.
#define TESSERA_MUTANT(name)                                               \
  ([]() noexcept {                                                         \
    static const bool selected = ::tessera::detail::mutant_selected(name); \
    return selected;                                                       \
  }())
#else
/// Whether the planted bug of this name was asked for: never, outside a mutant build.
#define TESSERA_MUTANT(name) false
#endif
