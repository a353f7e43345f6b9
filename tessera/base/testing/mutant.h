// Planted bugs: a test that has never failed proves nothing. tessera/<layer>/testing/mutants.toml lists places where
// the mutant build of a layer goes wrong on request:
//
//   if (!TESSERA_MUTANT("host.wait_skipped")) wait_for(event);
//
// TESSERA_MUTANT=host.wait_skipped in the environment selects one bug. tools/mutate_sources.py writes the sources of
// that build. tools/run_mutants.py selects each bug in turn and requires that the tests fail.
#pragma once

#include <cstdlib>
#include <string_view>

namespace tessera::testing {
inline bool is_mutant_selected(std::string_view name) {
  const char* chosen = std::getenv("TESSERA_MUTANT");
  return chosen != nullptr && name == chosen;
}
}  // namespace tessera::testing

/// Whether the planted bug of this name was asked for.
#define TESSERA_MUTANT(name)                                                   \
  ([]() noexcept {                                                             \
    static const bool selected = ::tessera::testing::is_mutant_selected(name); \
    return selected;                                                           \
  }())
