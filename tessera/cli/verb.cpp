#include "tessera/cli/verb.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace tessera::cli {
namespace {

std::vector<Verb>& registered() {
  static std::vector<Verb> all;
  return all;
}

}  // namespace

VerbRegistration::VerbRegistration(Verb verb) {
  for (const Verb& other : registered()) {
    if (other.name == verb.name) {
      std::fprintf(stderr, "tessera: command '%s' is registered twice\n", verb.name.c_str());
      std::abort();
    }
  }
  registered().push_back(std::move(verb));
}

std::vector<Verb> verbs() {
  auto all = registered();
  std::sort(all.begin(), all.end(), [](const Verb& a, const Verb& b) { return a.name < b.name; });
  return all;
}

}  // namespace tessera::cli
